//! Compression of answers, where the client takes it.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use hyper::header::{ACCEPT_ENCODING, HeaderMap};

/// Answers below this fit a packet anyway.
const WORTH_IT: usize = 1024;

/// Whether the client takes gzip: named, or covered by `*`, and not with weight 0 (RFC 9110, 12.5.3).
pub(super) fn accepted(headers: &HeaderMap) -> bool {
    let mut gzip = None;
    let mut any = None;
    for value in headers.get_all(ACCEPT_ENCODING) {
        let Ok(text) = value.to_str() else {
            continue;
        };
        for coding in text.split(',') {
            let mut parts = coding.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
            // A weight that cannot be read is taken as none.
            let wanted = weight
                .and_then(|weight| weight.trim().parse::<f32>().ok())
                .is_none_or(|q| q > 0.0);
            if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
                gzip = Some(wanted);
            } else if name == "*" {
                any = Some(wanted);
            }
        }
    }
    gzip.or(any).unwrap_or(false)
}

/// The bytes compressed; `None` where that is not worth it.
pub(super) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < WORTH_IT {
        return None;
    }
    // The fastest level: metrics compress well at any, and CPU is dearer than the last few percent.
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_for_gzip_gets_it() {
        for (value, expected) in [
            ("gzip", true),
            ("GZIP;q=0.5", true),
            ("deflate, gzip;q=1.0, *;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000, *", false),
            ("*;q=0", false),
            ("identity", false),
            ("br, deflate", false),
            ("", false),
            ("gzip;q=abc", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(accepted(&headers), expected, "{value}");
        }
        assert!(!accepted(&HeaderMap::new()));
    }

    /// Prints how long a large node's metrics take; nothing depends on it.
    #[test]
    #[ignore = "a measurement"]
    fn cost_of_compressing_sixteen_devices() {
        use crate::metrics::{OwnMetrics, RenderOptions, fixture, render};
        let mut text = Vec::new();
        render(
            Some(&fixture::rich(16)),
            RenderOptions::default(),
            &OwnMetrics::new(),
            &mut text,
        );
        let began = std::time::Instant::now();
        for _ in 0..200 {
            compress(&text).unwrap();
        }
        println!(
            "gzip: {:?}, {} to {} bytes",
            began.elapsed() / 200,
            text.len(),
            compress(&text).unwrap().len()
        );
    }
}
