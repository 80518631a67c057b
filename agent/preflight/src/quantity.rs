//! Quantities of the Kubernetes API: `8`, `500m`, `64Gi`.

use serde_json::Value;

const SUFFIXES: &[(&str, f64)] = &[
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("m", 0.001),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
];

/// Its value, if it is a quantity.
pub(crate) fn value(quantity: &Value) -> Option<f64> {
    if let Some(number) = quantity.as_f64() {
        return Some(number);
    }
    let text = quantity.as_str()?.trim();
    let (number, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)))
        .unwrap_or((text, 1.0));
    let value = number.parse::<f64>().ok()? * factor;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// The value of one that counts devices: a whole number, `1k` is a thousand.
pub(crate) fn whole(quantity: &Value) -> Option<u64> {
    if let Some(number) = quantity.as_u64() {
        return Some(number);
    }
    if let Some(number) = quantity.as_str().and_then(|text| text.trim().parse().ok()) {
        return Some(number);
    }
    let value = value(quantity)?;
    // No one has that many devices, so nothing is lost.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (value.fract() == 0.0 && value <= 1e15).then_some(value as u64)
}
