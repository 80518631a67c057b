//! Finds what a name, a number or a line that a user pastes stands for.

mod words;

pub use rdma_health_kernel_log::Xid;
use rdma_health_kernel_log::{Judgement, judge, xid};
use rdma_health_protocol::{Errno, WcStatus};

use crate::{
    glossary::{self, Term},
    log::{LogReader, efa_words, event_in_words, event_named, failed_operations, failure_in, row, strerror},
    symptom::{
        Symptom, SymptomKind,
        completion::{of_syndrome, of_vendor_error},
    },
};
use words::{last_number, number, numbered, of_words};

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
    Term(Term),
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
    if let Some(row) = row(text) {
        return of_dump(&row);
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
        let is_known = found.iter().any(is_recognised);
        let words = if is_known { Vec::new() } else { of_words(text) };
        // A status or an error number in the line says more than that it looks like a failure, and a term less.
        if words.iter().any(|word| !matches!(word, Meaning::Term(_))) {
            return words;
        }
        found.extend(words);
        return found;
    }
    // `IBV_WC_RETRY_EXC_ERR(12)`, `status 12`, `errno 110`, `vendor err 129`: a label, then one word.
    let (label, value) = text.rsplit_once([' ', '=', ':']).unwrap_or(("", text));
    if let Some(term) = of_label(label) {
        return vec![Meaning::Term(term)];
    }
    let is_bare = value == "-1" && !label.trim().to_ascii_lowercase().ends_with("errno");
    if is_bare && !label.is_empty() {
        return glossary::named("return code -1")
            .map(Meaning::Term)
            .into_iter()
            .collect();
    }
    let mut found = of_value(label, value);
    if found.is_empty() {
        found = of_line(text);
    }
    // A code that begins a message, without the message: `EI0006`.
    if found.is_empty() && label.is_empty() {
        let read = of_line(&format!("{text}: failed"));
        found.extend(
            read.into_iter()
                .filter(is_of_message)
                .map(|meaning| match meaning {
                    Meaning::Line(mut symptom) => {
                        text.clone_into(&mut symptom.text);
                        Meaning::Line(symptom)
                    }
                    other => other,
                }),
        );
    }
    let is_known = found.iter().any(is_recognised);
    if !is_known {
        let words = of_words(text);
        if !words.is_empty() {
            found = words;
        }
    }
    if found.is_empty() {
        found.extend(
            glossary::family(text)
                .or_else(|| glossary::family(&label_of(text)))
                .map(Meaning::Term),
        );
    }
    found
}

/// Whether a line shows a message that is known, and not only an error of its words.
fn is_of_message(meaning: &Meaning) -> bool {
    matches!(meaning, Meaning::Line(symptom) if symptom.known && is_recognised(meaning))
}

/// What a value stands for behind its label, which may be empty: `status 12`, `errno 110`, `vendor err 129`.
fn of_value(label: &str, value: &str) -> Vec<Meaning> {
    let mut found = Vec::new();
    let label = label.trim().to_ascii_lowercase();
    let name = value.split('(').next().unwrap_or(value);
    let is = |words: &[&str]| label.is_empty() || words.iter().any(|word| ends_with_word(&label, word));
    let number = number(name);
    if let Some(kind) = SymptomKind::named(name).filter(|_| is(&["status", "wc", "error", "err"])) {
        found.push(Meaning::Symptom(kind));
    }
    let errno = number
        .and_then(|number| i32::try_from(number).ok())
        .map(Errno)
        .filter(|errno| {
            errno.name().is_some()
                && !label.contains("vend")
                && is(&[
                    "errno",
                    "error",
                    "err",
                    "rc",
                    "ret",
                    "failed with",
                    "code",
                    "strerror",
                ])
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
            code.filter(|code| VENDOR_ERRORS.contains(code) || is_hexadecimal)
                .map(Meaning::UnlistedVendorError),
        );
    }
    if found.is_empty() && label.ends_with("syndrome") {
        found.extend(number.map(Meaning::Syndrome));
    }
    found
}

/// Whether a meaning says more than that a line looks like a failure.
fn is_recognised(meaning: &Meaning) -> bool {
    !matches!(meaning, Meaning::Line(symptom) if symptom.kind == SymptomKind::Unrecognised)
}

/// The name before a value: `NCCL_IB_TIMEOUT=22`, `out_of_buffer: 17`.
fn label_of(text: &str) -> String {
    let end = text.find([' ', '=', ':']).unwrap_or(text.len());
    text[..end].to_owned()
}

/// The term that stands before a value. A word that also labels a number of another kind is none.
fn of_label(label: &str) -> Option<Term> {
    let label = label.trim().trim_end_matches([':', '=']).trim_end();
    let is_name = label.contains('_') && !label.contains(char::is_whitespace);
    glossary::named(label).filter(|_| is_name)
}

/// Whether a text ends with a word, and not with a longer one that ends like it.
fn ends_with_word(text: &str, word: &str) -> bool {
    let rest = text.trim_end_matches([':', '=', ' ']).strip_suffix(word);
    rest.is_some_and(|rest| {
        rest.bytes()
            .last()
            .is_none_or(|byte| !byte.is_ascii_alphanumeric())
    })
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
    // The kernel's names of the syndromes of completions (`MLX5_CQE_SYNDROME_*` in `include/linux/mlx5/device.h`).
    if let Some(syndrome) = text.to_ascii_uppercase().strip_prefix("MLX5_CQE_SYNDROME_") {
        let name = syndrome
            .replace("LOCAL_", "LOC_")
            .replace("REMOTE_", "REM_")
            .replace("TRANSPORT_", "");
        return WcStatus::named(&name)
            .map(|status| Meaning::Symptom(SymptomKind::Completion(status)))
            .into_iter()
            .collect();
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
    if let Some(term) = glossary::of_efa(&lower) {
        return vec![Meaning::Term(term)];
    }
    // `RDMA_CM_EVENT_UNREACHABLE, error -110`: the event says more than its error number.
    if words.len() > 1 {
        let first = words[0].trim_end_matches([',', ':', ';']).to_ascii_lowercase();
        let is_event = first.contains("event_") && event_named(&first).is_some();
        return if is_event { of_line(text) } else { Vec::new() };
    }
    match event_named(&lower) {
        Some(Some(kind)) => vec![Meaning::Symptom(kind)],
        Some(None) => vec![Meaning::Harmless(text.to_owned())],
        None => Vec::new(),
    }
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

/// A completion status by exactly its text: `transport retry counter exceeded`.
fn by_text(text: &str) -> Option<SymptomKind> {
    let lower = text.to_ascii_lowercase();
    let status = WcStatus::ALL
        .iter()
        .find(|status| crate::symptom::completion::words(**status) == lower);
    status
        .map(|status| SymptomKind::Completion(*status))
        .or_else(|| efa_words(&lower))
}

/// A row of the dump of a completion queue entry of an mlx5 adapter: `00000000 00008914 10000132 000045d2`.
fn of_dump(row: &[u8; 16]) -> Vec<Meaning> {
    let Some((status, code)) = failure_in(row) else {
        return Vec::new();
    };
    let vendor = of_vendor_error(code).map_or(Meaning::UnlistedVendorError(code), |status| {
        Meaning::VendorError(code, status)
    });
    vec![Meaning::CqeSyndrome(row[7].into(), status), vendor]
}

/// The symptoms that an error number leads to, with the operation that failed.
pub fn symptoms_of(errno: Errno) -> Vec<(&'static str, SymptomKind)> {
    failed_operations(errno)
}

/// The text of the C library for an error number.
pub fn text_of(errno: Errno) -> Option<&'static str> {
    strerror::text(errno)
}
