//! Finds what a name, a number or a line that a user pastes stands for.

pub use rdma_health_kernel_log::Xid;
use rdma_health_kernel_log::{Judgement, judge, xid};
use rdma_health_protocol::{Errno, WcStatus};

use crate::{
    glossary::{self, Term},
    log::{
        LogReader, efa_status, event_in_words, event_named, failed_operations, status_in, strerror,
        vendor_error,
    },
    symptom::{
        Symptom, SymptomKind,
        completion::{of_syndrome, of_vendor_error},
    },
};

/// What a text stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// A symptom by its id, or a completion status by name, text or number.
    Symptom(SymptomKind),
    /// An error number by symbol, text or number.
    Errno(Errno),
    /// A vendor error code of an mlx5 adapter, and the status with which it comes.
    VendorError(u32, WcStatus),
    /// A vendor error code whose meaning is not public.
    UnlistedVendorError(u32),
    /// A syndrome of a failed completion of an mlx5 adapter, and its status.
    CqeSyndrome(u32, WcStatus),
    /// A syndrome with which the firmware of an mlx5 adapter refuses a command.
    Syndrome(u64),
    /// A number of NVIDIA's driver. `None` if its meaning is not known here.
    Xid(u16, Option<&'static Xid>),
    /// The reason of a rejected connection by its number.
    Rejection(u64, &'static str, &'static [&'static str]),
    /// A name of another library, or a term of the field.
    Term(&'static Term),
    /// An event or a message without a consequence.
    Harmless(String),
    /// A line of a log, with what it shows.
    Line(Box<Symptom>),
}

/// The vendor error codes that mlx5 adapters are seen to report with failed completions.
const VENDOR_ERRORS: std::ops::RangeInclusive<u32> = 0x20..=0xff;

/// Everything that a text stands for; empty if nothing is known.
pub fn lookup(text: &str) -> Vec<Meaning> {
    let text = text.trim().trim_matches(['"', '\'', '`', '.', ',', ';']);
    let exact = by_text(text)
        .map(Meaning::Symptom)
        .or_else(|| strerror::of_text(text).map(Meaning::Errno));
    if let Some(exact) = exact {
        return vec![exact];
    }
    if let Some(kind) = command_status(text) {
        return vec![Meaning::Symptom(kind)];
    }
    match event_in_words(&text.to_ascii_lowercase()) {
        Some(Some(kind)) => return vec![Meaning::Symptom(kind)],
        Some(None) => return vec![Meaning::Harmless(text.to_owned())],
        None => {}
    }
    let named = by_name(text);
    if !named.is_empty() {
        return named;
    }
    // More than a label and a value is a line.
    if text.split_whitespace().count() > 3 {
        let mut found = of_line(text);
        if let Some(number) = numbered(text) {
            found.insert(0, Meaning::Xid(number, xid(number)));
        }
        if found.is_empty() && judge(text) == Judgement::Harmless {
            return vec![Meaning::Harmless(text.to_owned())];
        }
        let is_known = found.iter().any(
            |meaning| !matches!(meaning, Meaning::Line(symptom) if symptom.kind == SymptomKind::Unrecognised),
        );
        let words = if is_known { Vec::new() } else { of_words(text) };
        return if words.is_empty() { found } else { words };
    }
    let mut found = Vec::new();
    // `IBV_WC_RETRY_EXC_ERR(12)`, `status 12`, `errno 110`, `vendor err 129`: a label, then one word.
    let (label, value) = text.rsplit_once([' ', '=', ':']).unwrap_or(("", text));
    let label = label.trim().to_ascii_lowercase();
    let name = value.split('(').next().unwrap_or(value);
    let is = |words: &[&str]| label.is_empty() || words.iter().any(|word| label.ends_with(word));
    let number = number(name);
    if let Some(kind) = SymptomKind::named(name).filter(|_| is(&["status", "wc", "error", "err"])) {
        found.push(Meaning::Symptom(kind));
    }
    let errno = number
        .and_then(|number| i32::try_from(number).ok())
        .map(Errno)
        .filter(|errno| {
            errno.name().is_some() && is(&["errno", "error", "err", "rc", "ret", "failed with", "code"])
        })
        .or_else(|| strerror::named(&name.to_ascii_uppercase()));
    found.extend(errno.map(Meaning::Errno));
    let vendor = number
        .and_then(|number| u32::try_from(number).ok())
        .filter(|_| {
            is(&[
                "vendor",
                "vendor err",
                "vendor_err",
                "vendor error",
                "vend",
                "syndrom",
                "vendor code",
            ])
        })
        .and_then(|code| Some(Meaning::VendorError(code, of_vendor_error(code)?)));
    found.extend(vendor);
    let is_hexadecimal = name.starts_with("0x") || name.starts_with("0X");
    if is_hexadecimal {
        // Programs write error numbers in decimal, and syndromes in hexadecimal: UCX's `synd 0x15 vend 0x81`.
        found.sort_by_key(|meaning| matches!(meaning, Meaning::Errno(_)));
        let of_completion = is(&["synd", "syndrome"]) && !label.contains("vend");
        let cqe = number.filter(|_| of_completion).and_then(|code| {
            Some(Meaning::CqeSyndrome(
                u32::try_from(code).ok()?,
                of_syndrome(code)?,
            ))
        });
        found.splice(0..0, cqe);
    }
    if found.is_empty() && is(&["vendor", "vendor err", "vendor_err", "vendor error", "vend"]) {
        let code = number.and_then(|number| u32::try_from(number).ok());
        found.extend(
            code.filter(|code| VENDOR_ERRORS.contains(code))
                .map(Meaning::UnlistedVendorError),
        );
    }
    if found.is_empty() && label.ends_with("syndrome") {
        found.extend(number.map(Meaning::Syndrome));
    }
    if found.is_empty() {
        found = of_line(text);
    }
    if found.is_empty() {
        found = of_words(text);
    }
    found
}

/// What single words of a text stand for: the status, the vendor's error and the symbols in it.
fn of_words(text: &str) -> Vec<Meaning> {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    let vendor = vendor_error(&lower);
    found.extend(status_in(text).map(|status| Meaning::Symptom(SymptomKind::Completion(status))));
    let status = lower
        .split_once("status")
        .map(|(_, rest)| rest.trim_start_matches([' ', '=', ':', '(']))
        .map(|rest| {
            rest.split(|c: char| !c.is_ascii_digit())
                .next()
                .unwrap_or_default()
        })
        .and_then(|digits| WcStatus::of(digits.parse::<u64>().ok()?));
    found.extend(
        status
            .filter(|_| vendor.is_some())
            .map(|status| Meaning::Symptom(SymptomKind::Completion(status)))
            .filter(|meaning| !found.contains(meaning)),
    );
    found.extend(vendor.and_then(|code| Some(Meaning::VendorError(code, of_vendor_error(code)?))));
    for word in text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .take(64)
    {
        let is_symbol = word.len() > 2
            && word
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if !is_symbol {
            continue;
        }
        let meaning = strerror::named(word)
            .map(Meaning::Errno)
            .or_else(|| SymptomKind::named(word).map(Meaning::Symptom))
            .or_else(|| efa_status(&word.to_ascii_lowercase()).map(Meaning::Symptom))
            .or_else(|| by_name(word).into_iter().next());
        if let Some(meaning) = meaning.filter(|meaning| !found.contains(meaning)) {
            found.push(meaning);
        }
    }
    found
}

/// The status with which the firmware of an mlx5 adapter refused a command (`MLX5_CMD_STAT_*` in the kernel's
/// `include/linux/mlx5/device.h`), as its driver prints it: `limits exceeded(0x8)`.
fn command_status(text: &str) -> Option<SymptomKind> {
    const STATUSES: [(&str, SymptomKind); 14] = [
        ("internal error", SymptomKind::DeviceFatal),
        ("bad operation", SymptomKind::CommandRefused),
        ("bad parameter", SymptomKind::CommandRefused),
        ("bad system state", SymptomKind::CommandRefused),
        ("bad resource", SymptomKind::CommandRefused),
        ("resource busy", SymptomKind::CommandRefused),
        ("limits exceeded", SymptomKind::ResourceLimit),
        ("bad resource state", SymptomKind::CommandRefused),
        ("bad index", SymptomKind::CommandRefused),
        ("no resources", SymptomKind::ResourceLimit),
        ("bad qp state", SymptomKind::CommandRefused),
        ("bad input length", SymptomKind::CommandRefused),
        ("bad output length", SymptomKind::CommandRefused),
        ("bad packet", SymptomKind::CommandRefused),
    ];
    let lower = text.to_ascii_lowercase();
    let lower = lower.strip_prefix("status ").unwrap_or(&lower);
    let (words, number) = lower.split_once('(').unwrap_or((lower, ""));
    let (_, kind) = STATUSES.iter().find(|(known, _)| *known == words.trim_end())?;
    (number.is_empty() || number.starts_with("0x")).then_some(*kind)
}

/// What a name, or a name and its number, stands for: terms, errors of other libraries, events, reasons and numbers of GPU drivers.
fn by_name(text: &str) -> Vec<Meaning> {
    /// Words of a name with a label and a number: `RDMA_CM_EVENT_REJECTED, reason 8`.
    const MOST: usize = 4;
    let words: Vec<&str> = text.split_whitespace().take(MOST + 1).collect();
    if words.is_empty() || words.len() > MOST {
        return Vec::new();
    }
    let lower = text.to_ascii_lowercase();
    if let Some(term) = glossary::named(text) {
        return vec![Meaning::Term(term)];
    }
    if let Some(errno) = glossary::of_fabric(text) {
        return vec![Meaning::Errno(errno)];
    }
    if let Some(number) = numbered(text) {
        return vec![Meaning::Xid(number, xid(number))];
    }
    if ["rej", "reason"].iter().any(|word| lower.contains(word))
        && let Some(number) = last_number(&lower)
        && let Some((meaning, see)) = glossary::rejection(number)
    {
        return vec![Meaning::Rejection(number, meaning, see)];
    }
    if words.len() > 1 {
        return Vec::new();
    }
    match event_named(&lower) {
        Some(Some(kind)) => vec![Meaning::Symptom(kind)],
        Some(None) => vec![Meaning::Harmless(text.to_owned())],
        None => Vec::new(),
    }
}

/// The number in `Xid 79`, `Xid: 79`, `NVRM: Xid (PCI:0000:18:00): 79, …`.
fn numbered(text: &str) -> Option<u16> {
    let lower = text.to_ascii_lowercase();
    let (before, rest) = lower.split_once("xid")?;
    let is_word = before
        .bytes()
        .last()
        .is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let rest = match rest.split_once("): ") {
        Some((address, rest)) if address.starts_with(" (pci:") => rest,
        _ => rest.trim_start_matches([' ', ':', '=', '#']),
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok().filter(|_| is_word)
}

/// The last number of a text.
fn last_number(text: &str) -> Option<u64> {
    let mut numbers = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    numbers
        .rfind(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()))?
        .parse()
        .ok()
}

/// What a line of a log shows.
fn of_line(text: &str) -> Vec<Meaning> {
    let mut reader = LogReader::default();
    reader.feed(text.as_bytes());
    let symptoms = reader.finish().symptoms;
    symptoms
        .into_iter()
        .map(|symptom| Meaning::Line(Box::new(symptom)))
        .collect()
}

/// A decimal or hexadecimal number, without its sign: programs print error numbers as `-110`.
fn number(text: &str) -> Option<u64> {
    let text = text.trim_start_matches('-');
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A completion status by exactly its text: `transport retry counter exceeded`.
fn by_text(text: &str) -> Option<SymptomKind> {
    let lower = text.to_ascii_lowercase();
    let status = WcStatus::ALL
        .iter()
        .find(|status| crate::symptom::completion::words(**status) == lower);
    status.map(|status| SymptomKind::Completion(*status))
}

/// The symptoms that an error number leads to, with the operation that failed.
pub fn symptoms_of(errno: Errno) -> Vec<(&'static str, SymptomKind)> {
    failed_operations(errno)
}

/// The text of the C library for an error number.
pub fn text_of(errno: Errno) -> Option<&'static str> {
    strerror::text(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_texts_and_lines_are_found() {
        let retry = Meaning::Symptom(SymptomKind::Completion(WcStatus::RetryExcErr));
        for text in [
            "IBV_WC_RETRY_EXC_ERR",
            "IBV_WC_RETRY_EXC_ERR(12)",
            "retry_exc_err",
            "status=12",
            "transport retry counter exceeded",
            "Transport Retry Counter Exceeded.",
        ] {
            assert_eq!(lookup(text).first(), Some(&retry), "{text}");
        }
        for text in [
            "ETIMEDOUT",
            "etimedout",
            "110",
            "-110",
            "errno 110",
            "Connection timed out",
        ] {
            assert!(lookup(text).contains(&Meaning::Errno(Errno::ETIMEDOUT)), "{text}");
        }
        for text in [
            "129",
            "0x81",
            "vendor err 129",
            "vendor_err=129",
            "vend 0x81",
            "syndrom 0x81",
        ] {
            let expected = Meaning::VendorError(0x81, WcStatus::RetryExcErr);
            assert!(lookup(text).contains(&expected), "{text}: {:?}", lookup(text));
        }
        let line = "h:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with error No such device errno 19";
        let found = lookup(line);
        let [Meaning::Line(symptom)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(symptom.kind, SymptomKind::ConnectNoDevice);
        for (text, expected) in [
            ("RNR retry counter exceeded", "IBV_WC_RNR_RETRY_EXC_ERR"),
            ("RDMA_CM_EVENT_UNREACHABLE", "peer-unreachable"),
            ("ADDR_ERROR", "address-unresolved"),
            ("IBV_EVENT_PORT_ERR", "port-error"),
            ("IBV_EVENT_DEVICE_FATAL", "device-fatal"),
            ("IBV_EVENT_QP_ACCESS_ERR", "queue-access-error"),
        ] {
            let found = lookup(text);
            let [Meaning::Symptom(kind)] = &found[..] else {
                panic!("{text}: {found:?}");
            };
            assert_eq!(kind.id(), expected, "{text}");
        }
        for (text, expected) in [
            ("RNR", "receiver not ready"),
            ("pfc", "pauses one priority"),
            ("FI_EAVAIL", "fi_cq_readerr"),
            ("UCS_ERR_ENDPOINT_TIMEOUT", "retries"),
            ("Xid 79", "fallen off the bus"),
            ("Xid: 95", "uncontained"),
            ("REJ reason 8", "invalid service id"),
            ("RDMA_CM_EVENT_REJECTED, reason 28", "rejected it"),
        ] {
            let found = lookup(text);
            let meaning = match found.first() {
                Some(Meaning::Term(term)) => term.meaning,
                Some(Meaning::Xid(_, Some(xid))) => xid.meaning,
                Some(Meaning::Rejection(_, meaning, _)) => meaning,
                other => panic!("{text}: {other:?}"),
            };
            assert!(meaning.contains(expected), "{text}: {meaning}");
        }
        assert_eq!(lookup("FI_ENOMEM"), [Meaning::Errno(Errno::ENOMEM)]);
        assert_eq!(lookup("Xid 9999"), [Meaning::Xid(9999, None)]);
        for harmless in [
            "IBV_EVENT_COMM_EST",
            "RDMA_CM_EVENT_ESTABLISHED",
            "mlx5_core 0000:14:00.0: mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x305684), err(-22)",
        ] {
            assert_eq!(lookup(harmless), [Meaning::Harmless(harmless.to_owned())]);
        }
        let xid = lookup("NVRM: Xid (PCI:0000:18:00): 79, pid=1, name=x, GPU has fallen off the bus.");
        assert!(
            matches!(&xid[..], [Meaning::Xid(79, Some(_)), Meaning::Line(_)]),
            "{xid:?}"
        );
        for text in ["weather", "", "4711", "step 100 loss 2.31"] {
            assert_eq!(lookup(text), [], "{text}");
        }
    }
}
