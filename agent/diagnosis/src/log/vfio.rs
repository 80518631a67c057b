//! What VFIO refuses to a program that drives a function by itself, or gives it to a virtual machine: memory that the function shall reach, a
//! place in the machine.

use crate::symptom::SymptomKind::{self as K};

/// What programs call the mapping of memory, in lower case.
pub(super) const ANCHORS: &[&str] = &["map_dma", "dma_map", "dmamap", "dma remapping", "dma mapping"];

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    mapping(lower).or_else(|| without_port(lower))
}

/// Memory that could not be mapped, with the number of the error in any spelling: `VFIO_MAP_DMA failed: Cannot allocate memory`,
/// `VFIO_IOMMU_MAP_DMA failed va=7f8709cca000 … errno=12`, `Cannot set up DMA mapping, error 22 (Invalid argument)`,
/// `VfioMapRegion(DmaMap(IommuDmaMap(Error(17))))`. The kernel's drivers map memory of their own in similar words.
fn mapping(lower: &str) -> Option<(K, usize)> {
    let at = ANCHORS.iter().find_map(|words| lower.find(words))?;
    let is_one = ["vfio", "set up dma", "iommudmamap"]
        .iter()
        .any(|words| lower.contains(words));
    if !is_one || lower[..at].ends_with("un") {
        return None;
    }
    let begin = lower[..at].rfind(' ').map_or(0, |space| space + 1);
    match error(&lower[at..])? {
        ENOMEM => Some((K::MapNoMemory, begin)),
        _ => Some((K::AssignRefused, begin)),
    }
}

const ENOMEM: u32 = 12;
/// The largest number of an error (`MAX_ERRNO`).
const LAST: u32 = 4095;

/// The error behind a call in lower case: its text, its symbol, or its number as a negative one or behind a label.
fn error(rest: &str) -> Option<u32> {
    const TEXTS: [(&str, u32); 8] = [
        ("cannot allocate memory", ENOMEM),
        ("enomem", ENOMEM),
        ("bad address", 14),
        ("file exists", 17),
        ("invalid argument", 22),
        ("no space left", 28),
        ("operation not permitted", 1),
        ("device or resource busy", 16),
    ];
    const LABELS: [&str; 6] = ["errno", "error", "err", "ret", "rc", "code"];
    let text = TEXTS.iter().find(|(text, _)| rest.contains(text));
    if let Some((_, number)) = text {
        return Some(*number);
    }
    let words: Vec<&str> = rest
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .filter(|word| !word.is_empty())
        .collect();
    let negative = words.iter().find_map(|word| word.strip_prefix('-')?.parse().ok());
    let labelled = || {
        words
            .windows(2)
            .find_map(|pair| LABELS.contains(&pair[0]).then(|| pair[1].parse().ok()).flatten())
    };
    negative
        .or_else(labelled)
        .filter(|number| (1..=LAST).contains(number))
}

/// Kata has no port for the function: `cold_plug_vfio= or hot_plug_vfio= port is not set for device 0000:5e:02.1`.
fn without_port(lower: &str) -> Option<(K, usize)> {
    const UNSET: [&str; 6] = [
        "not set",
        "no-port",
        "no port",
        "invalid",
        "not supported",
        "not enabled",
    ];
    let at = ["cold_plug_vfio", "hot_plug_vfio"]
        .iter()
        .find_map(|name| lower.find(name))?;
    // A line of the configuration itself.
    let is_setting = lower[at..]
        .split_once('=')
        .is_some_and(|(_, value)| value.trim_start().starts_with('"'));
    (!is_setting && UNSET.iter().any(|words| lower[at..].contains(words))).then_some((K::AssignRefused, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_cannot_be_mapped_is_read_with_its_error_in_any_spelling() {
        for (line, expected) in [
            (
                "dma_map_slab:200 vfio_iommu_map_dma failed va=7f8709cca000 iova=200000 size=200000 -- errno=12",
                Some(K::MapNoMemory),
            ),
            (
                "vfio_container_dma_map(0x55d6, 0x0, 0x180000000, 0x7f2e) = -12 (cannot allocate memory)",
                Some(K::MapNoMemory),
            ),
            (
                "vfio_map_dma failed: cannot allocate memory",
                Some(K::MapNoMemory),
            ),
            (
                "eal: cannot set up dma remapping, error 12 (cannot allocate memory)",
                Some(K::MapNoMemory),
            ),
            (
                "vfio: vfiomapregion(dmamap(iommudmamap(error(12))))",
                Some(K::MapNoMemory),
            ),
            (
                "vhost_iommu.c: cannot set up dma mapping, error 22 (invalid argument)",
                Some(K::AssignRefused),
            ),
            (
                "500 reason: vfiomapregion(dmamap(iommudmamap(error(17))))",
                Some(K::AssignRefused),
            ),
            ("vfio_map_dma failed: bad address", Some(K::AssignRefused)),
            ("vfio_unmap_dma failed: invalid argument", None),
            ("vfio_map_dma 0x55d6 size 12", None),
            ("mlx5_core 0000:3b:00.0: dma_map_single failed, err -12", None),
            (
                "failed to create shim task: cold_plug_vfio= or hot_plug_vfio= port is not set for device 0000:5e:02.1 (bridgeport)",
                Some(K::AssignRefused),
            ),
            ("hot_plug_vfio = \"no-port\"", None),
            ("# cold_plug_vfio = \"root-port\"", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
