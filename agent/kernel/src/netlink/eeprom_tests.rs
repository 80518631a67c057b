//! Memories of modules as the specifications describe them, and memories that no module has.

use proptest::prelude::*;

use super::*;

fn module_of(pages: &[ModulePage]) -> Option<Module> {
    decode("test", pages)
}

fn page(address: u8, page: u8, offset: u8, length: usize) -> ModulePage {
    ModulePage {
        address,
        page,
        offset,
        data: vec![0; length],
        errno: 0,
    }
}

fn put(page: &mut ModulePage, at: u8, bytes: &[u8]) {
    let start = usize::from(at - page.offset);
    page.data[start..start + bytes.len()].copy_from_slice(bytes);
}

fn words(page: &mut ModulePage, at: u8, words: &[u16]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    put(page, at, &bytes);
}

/// Sets the last of `length` and one bytes from `at` to the sum of the others.
fn sum(page: &mut ModulePage, at: u8, length: usize) {
    let start = usize::from(at - page.offset);
    let sum = page.data[start..start + length]
        .iter()
        .fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    page.data[start + length] = sum;
}

/// A QSFP28 of four lanes at 40.5 °C whose third lane gets little light.
fn qsfp() -> Vec<ModulePage> {
    let mut lower = page(MEMORY, 0, 0, 64);
    put(&mut lower, 0, &[0x11]);
    words(&mut lower, 22, &[0x2880]);
    words(&mut lower, 26, &[33_000]);
    words(&mut lower, 34, &[8000, 8100, 400, 8200]);
    words(&mut lower, 42, &[3500; 4]);
    words(&mut lower, 50, &[9000; 4]);
    let mut upper = page(MEMORY, 0, 128, 64);
    put(&mut upper, 147, &[0x00]);
    put(&mut upper, 148, b"NVIDIA          ");
    put(&mut upper, 168, b"MMA1B00-C100D   ");
    sum(&mut upper, 128, 63);
    let mut kind = page(MEMORY, 0, 220, 1);
    put(&mut kind, 220, &[0x0c]);
    let mut limits = page(MEMORY, 3, 128, 72);
    words(&mut limits, 128, &[80 << 8, (-10_i16 << 8).cast_unsigned()]);
    words(&mut limits, 144, &[35_000, 31_000]);
    words(&mut limits, 176, &[22_000, 500]);
    words(&mut limits, 184, &[5000, 500]);
    words(&mut limits, 192, &[22_000, 700]);
    vec![lower, upper, kind, limits]
}

#[test]
fn a_qsfp_measures_with_its_own_limits() {
    let module = module_of(&qsfp()).unwrap();
    assert_eq!(module.form, "QSFP28");
    assert_eq!(module.vendor.as_deref(), Some("NVIDIA"));
    assert_eq!(module.part.as_deref(), Some("MMA1B00-C100D"));
    let temperature = Measure {
        value: 40_500,
        low: Some(-10_000),
        high: Some(80_000),
    };
    assert_eq!(module.temperature, Some(temperature));
    assert_eq!(module.voltage.unwrap().value, 3_300_000);
    let light = module.lanes[2].rx_power.unwrap();
    assert_eq!(
        (module.lanes.len(), light.value, light.low),
        (4, 40_000, Some(50_000))
    );
    assert_eq!(module.lanes[0].bias.unwrap().value, 7000);
    assert_eq!(module.lanes[0].tx_power.unwrap().value, 900_000);
}

#[test]
fn a_copper_cable_and_a_module_that_starts_measure_nothing() {
    let mut copper = qsfp();
    put(&mut copper[1], 147, &[0xa0]);
    sum(&mut copper[1], 128, 63);
    let mut starts = qsfp();
    put(&mut starts[0], 2, &[0x01]);
    for pages in [copper, starts] {
        let module = module_of(&pages).unwrap();
        assert!(
            module.lanes.is_empty() && module.temperature.is_none(),
            "{module:?}"
        );
        assert_eq!(module.vendor.as_deref(), Some("NVIDIA"));
    }
}

#[test]
fn limits_that_are_none_are_left_out() {
    let mut pages = qsfp();
    pages.pop();
    assert_eq!(module_of(&pages).unwrap().temperature.unwrap().high, None);
    let mut zeros = qsfp();
    zeros[3].data.fill(0);
    assert_eq!(module_of(&zeros).unwrap().lanes[0].rx_power.unwrap().low, None);
}

/// An OSFP of CMIS 5 with four of eight lanes in use.
fn cmis() -> Vec<ModulePage> {
    let mut lower = page(MEMORY, 0, 0, 64);
    put(&mut lower, 0, &[0x19, 0x50]);
    words(&mut lower, 14, &[71 << 8]);
    words(&mut lower, 16, &[33_000]);
    let mut upper = page(MEMORY, 0, 128, 38);
    put(&mut upper, 129, b"NVIDIA          ");
    put(&mut upper, 148, b"MMS4X00-NM      ");
    let mut advertised = page(MEMORY, 1, 128, 128);
    put(&mut advertised, 159, &[0x03, 0x0f]);
    sum(&mut advertised, 130, 125);
    let mut limits = page(MEMORY, 2, 128, 128);
    words(&mut limits, 128, &[75 << 8, 0xfb00]);
    words(&mut limits, 192, &[40_000, 300]);
    sum(&mut limits, 128, 127);
    let mut lanes = page(MEMORY, 0x11, 128, 74);
    put(&mut lanes, 128, &[0x44, 0x44, 0x11, 0x11]);
    words(&mut lanes, 154, &[12_000; 8]);
    words(&mut lanes, 170, &[10_000; 8]);
    words(&mut lanes, 186, &[9000, 9000, 0, 9000, 0, 0, 0, 0]);
    vec![lower, page(MEMORY, 0, 64, 22), upper, advertised, limits, lanes]
}

#[test]
fn a_cmis_module_measures_the_lanes_in_use() {
    let module = module_of(&cmis()).unwrap();
    assert_eq!(
        (module.form.as_str(), module.part.as_deref()),
        ("OSFP", Some("MMS4X00-NM"))
    );
    assert_eq!(module.temperature.unwrap().high, Some(75_000));
    assert_eq!(module.lanes.len(), 4);
    let light = module.lanes[2].rx_power.unwrap();
    assert_eq!((light.value, light.low), (0, Some(30_000)), "no light");
    assert_eq!(module.lanes[0].bias.unwrap().value, 40_000, "its scale is 2");
}

#[test]
fn a_page_with_a_wrong_checksum_gives_no_number() {
    let mut limits = cmis();
    limits[4].data[0] ^= 1;
    let module = module_of(&limits).unwrap();
    assert!(
        module.temperature.is_some_and(|found| found.high.is_none()),
        "{module:?}"
    );
    let mut advertised = cmis();
    advertised[3].data[40] ^= 1;
    let module = module_of(&advertised).unwrap();
    assert!(
        module.temperature.is_none() && module.lanes.is_empty(),
        "{module:?}"
    );
    let mut base = qsfp();
    base[1].data[20] ^= 1;
    assert_eq!(module_of(&base), None);
}

fn sfp(kind: u8) -> Vec<ModulePage> {
    let mut base = page(MEMORY, 0, 0, 64);
    put(&mut base, 0, &[0x03]);
    put(&mut base, 20, b"FINISAR CORP.   ");
    sum(&mut base, 0, 63);
    let mut diagnostics = page(DIAGNOSTICS, 0, 0, 112);
    words(&mut diagnostics, 0, &[90 << 8, 0xec00]);
    words(&mut diagnostics, 32, &[20_000, 100]);
    sum(&mut diagnostics, 0, 95);
    words(&mut diagnostics, 96, &[35 << 8, 33_100, 4000, 5000, 6000]);
    let mut type_ = page(MEMORY, 0, 92, 3);
    put(&mut type_, 92, &[kind]);
    vec![base, type_, diagnostics]
}

#[test]
fn an_sfp_measures_if_it_is_calibrated_by_itself() {
    let module = module_of(&sfp(0x68)).unwrap();
    assert_eq!(module.temperature.unwrap().value, 35_000);
    let light = module.lanes[0].rx_power.unwrap();
    assert_eq!((light.value, light.low), (600_000, Some(10_000)));
    // Calibrated by the reader, at another address, or without diagnostics.
    for kind in [0x58, 0x6c, 0x00] {
        let module = module_of(&sfp(kind)).unwrap();
        assert!(
            module.temperature.is_none() && module.lanes.is_empty(),
            "{kind:#x}"
        );
    }
}

#[test]
fn what_is_no_module_is_none() {
    assert_eq!(module_of(&[]), None);
    for byte in [0x00, 0xff, 0x42] {
        let mut first = page(MEMORY, 0, 0, 64);
        first.data.fill(byte);
        assert_eq!(module_of(&[first]), None);
    }
    // The bus reads as ones behind the first byte.
    let mut ones = cmis();
    ones[0].data[2..].fill(0xff);
    ones[0].data[1] = 0xff;
    assert_eq!(module_of(&ones), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Values of a module that is not believed do not appear, whatever a driver returns.
    #[test]
    fn any_memory_is_decoded_within_what_modules_can_have(
        identifier in proptest::sample::select(vec![0x03_u8, 0x0d, 0x11, 0x18, 0x19, 0x1e]),
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        cut in 0..6_usize,
    ) {
        let mut first = page(MEMORY, 0, 0, 64);
        first.data = std::iter::once(identifier).chain(bytes.iter().copied()).take(64).collect();
        let mut pages = vec![first.clone()];
        let mut rest = bytes.as_slice();
        for (address, number, offset, length) in parts(&first.data) {
            let (data, after) = rest.split_at(rest.len().min(usize::from(*length)));
            rest = after;
            pages.push(ModulePage { address: *address, page: *number, offset: *offset, data: data.to_vec(), errno: 0 });
        }
        pages.truncate(pages.len() - cut.min(pages.len() - 1));
        if let Some(module) = module_of(&pages) {
            prop_assert!(module.lanes.len() <= 8);
            if let Some(temperature) = module.temperature {
                prop_assert!((-60_000..=150_000).contains(&temperature.value));
                prop_assert!(temperature.low.is_none_or(|low| temperature.high.is_some_and(|high| low < high)));
            }
        }
    }
}

#[test]
fn a_lane_has_the_number_of_the_module_and_not_of_the_port() {
    let mut second = cmis();
    put(&mut second[5], 128, &[0x11, 0x11, 0x44, 0x44]);
    let numbers: Vec<_> = module_of(&second)
        .unwrap()
        .lanes
        .iter()
        .map(|lane| lane.number)
        .collect();
    assert_eq!(numbers, [5, 6, 7, 8]);
    let numbers: Vec<_> = module_of(&qsfp())
        .unwrap()
        .lanes
        .iter()
        .map(|lane| lane.number)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
}

/// What is reported as unread of these pages, and whether it holds the limits.
fn lost(pages: &[ModulePage]) -> Vec<(String, bool)> {
    let lost = module_of(pages).unwrap().unread;
    lost.iter()
        .map(|part| (part.unread.to_string(), part.holds_limits))
        .collect()
}

#[test]
fn a_part_that_fails_is_unread_and_one_that_the_module_does_not_measure_with_is_not() {
    const EIO: i32 = 5;
    let fail = |mut pages: Vec<ModulePage>, which: usize, errno: i32| {
        pages[which].data.clear();
        pages[which].errno = errno;
        pages
    };
    assert_eq!((lost(&qsfp()), lost(&cmis())), (vec![], vec![]));
    let limits = lost(&fail(qsfp(), 3, EIO));
    assert_eq!(limits.len(), 1);
    let (text, holds_limits) = &limits[0];
    assert!(
        *holds_limits && text.starts_with("test, page 0x03 at 0x50") && text.ends_with("(EIO)"),
        "{text}"
    );
    // Before Linux 6.18, mlx5 answers so.
    let (text, _) = lost(&fail(cmis(), 5, 0)).remove(0);
    assert!(
        text.contains("page 0x11") && text.contains("0 of 74 bytes"),
        "{text}"
    );
    for (which, page, holds_limits) in [(3, "page 0x01", false), (4, "page 0x02", true)] {
        let mut wrong = cmis();
        wrong[which].data[100] ^= 0x55;
        let found = lost(&wrong);
        assert_eq!((found.len(), found[0].1), (1, holds_limits));
        assert!(
            found[0].0.contains(page) && found[0].0.contains("checksum"),
            "{found:?}"
        );
    }
    let mut copper = qsfp();
    put(&mut copper[1], 147, &[0xa0]);
    sum(&mut copper[1], 128, 63);
    put(&mut copper[0], 22, &[0xa0, 0]);
    assert_eq!(lost(&fail(copper, 3, EIO)), []);
    // The first part is as good as any other.
    let mut short = cmis();
    short[0].data.truncate(10);
    let (text, _) = lost(&short).remove(0);
    assert!(
        text.contains("byte 0: the driver returned 10 of 64 bytes"),
        "{text}"
    );
    // A driver that does not answer about a page that the module must have.
    for (which, page, holds_limits) in [(4, "page 0x02", true), (5, "page 0x11", false)] {
        let mut without = cmis();
        without.remove(which);
        let found = lost(&without);
        assert_eq!((found.len(), found[0].1), (1, holds_limits), "{found:?}");
        assert!(
            found[0].0.contains(page) && found[0].0.contains("cannot read it"),
            "{found:?}"
        );
    }
    let mut measures_nothing = cmis();
    put(&mut measures_nothing[3], 160, &[0]);
    sum(&mut measures_nothing[3], 130, 125);
    measures_nothing.remove(5);
    assert_eq!(lost(&measures_nothing), []);
    // Without the upper half of the first page, nothing is known of the module.
    let identity = fail(qsfp(), 1, EIO);
    assert_eq!(module_of(&identity), None);
    assert!(failure("test", &identity).unwrap().to_string().ends_with("(EIO)"));
}

#[test]
fn a_temperature_that_no_module_can_have_is_unread() {
    let cold = (-96_i16 << 8).to_be_bytes();
    for (mut pages, which, at) in [(qsfp(), 0, 22), (cmis(), 0, 14), (sfp(0x68), 2, 96)] {
        put(&mut pages[which], at, &cold);
        let found = lost(&pages);
        assert_eq!(module_of(&pages).unwrap().temperature, None);
        assert_eq!(
            found,
            [(
                "test, temperature: the module reports -96 °C, which no module can have: its sensor is faulty (malformed)"
                    .to_owned(),
                false
            )]
        );
    }
}

#[test]
fn a_passive_copper_cable_in_an_sfp_measures_nothing_whatever_it_says() {
    let mut copper = sfp(0x68);
    put(&mut copper[0], 8, &[0x04]);
    sum(&mut copper[0], 0, 63);
    let module = module_of(&copper).unwrap();
    assert!(
        module.temperature.is_none() && module.lanes.is_empty(),
        "{module:?}"
    );
    assert_eq!(lost(&copper), []);
    // An active one does.
    put(&mut copper[0], 8, &[0x08]);
    sum(&mut copper[0], 0, 63);
    assert_eq!(module_of(&copper).unwrap().lanes.len(), 1);
}

#[test]
fn what_an_sfp_with_external_calibration_measures_is_unread() {
    let found = lost(&sfp(0x58));
    assert_eq!(found.len(), 1);
    assert!(
        found[0].0.contains("calibrated externally") && !found[0].1,
        "{found:?}"
    );
    assert_eq!(lost(&sfp(0x68)), []);
}
