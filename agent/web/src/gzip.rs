//! Compression of responses, if the client accepts it.

use std::cell::RefCell;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use hyper::header::{ACCEPT_ENCODING, HeaderMap};

/// Responses below this size fit into one packet anyway.
const WORTH_IT: usize = 1024;

/// Whether the client accepts gzip: named or covered by `*`, and not with weight 0 (RFC 9110, 12.5.3).
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
            // An invalid weight counts as no weight.
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

/// The gzip header: deflate, no name, no time, unknown operating system (RFC 1952, 2.3).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];

thread_local! {
    /// A third of a megabyte that each scrape needs; allocated once, for the first client that accepts gzip.
    static COMPRESSOR: RefCell<Option<Compress>> = const { RefCell::new(None) };
}

/// The compressed bytes; `None` if compression does not help.
pub(super) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < WORTH_IT {
        return None;
    }
    // Metrics shrink to a sixth.
    let mut compressed = Vec::with_capacity(HEADER.len() + bytes.len() / 5);
    compressed.extend(HEADER);
    COMPRESSOR.with_borrow_mut(|kept| {
        // The fastest level: metrics compress well at any level, and CPU time matters more than the last few percent.
        let compressor = kept.get_or_insert_with(|| Compress::new(Compression::fast(), false));
        compressor.reset();
        loop {
            let done = usize::try_from(compressor.total_in()).ok()?;
            let rest = bytes.get(done..)?;
            if compressor
                .compress_vec(rest, &mut compressed, FlushCompress::Finish)
                .ok()?
                == Status::StreamEnd
            {
                return Some(());
            }
            compressed.reserve(bytes.len() / 8);
        }
    })?;
    let mut crc = Crc::new();
    crc.update(bytes);
    compressed.extend(crc.sum().to_le_bytes());
    compressed.extend(crc.amount().to_le_bytes());
    Some(compressed)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn only_clients_that_accept_gzip_get_it() {
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

    #[test]
    fn a_response_does_not_affect_the_next_one() {
        // Compression makes random data larger.
        let mut state = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .take(300_000)
        .collect();
        let lines = b"rdma_port_state{device=\"mlx5_0\"} 1\n".repeat(9000);
        for bytes in [&lines, &noise, &lines, &noise] {
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(compress(bytes).unwrap().as_slice())
                .read_to_end(&mut unpacked)
                .unwrap();
            assert!(unpacked == *bytes);
        }
    }

    /// Prints the compression time for the metrics of a large node; asserts nothing.
    #[test]
    #[ignore = "a measurement"]
    fn cost_of_compressing_sixteen_devices() {
        let mut text = Vec::new();
        for n in 0..8000 {
            let (family, device, value) = (n / 16, n % 16, n * 7919);
            let line = format!("rdma_port_{family}_total{{device=\"mlx5_{device}\",port=\"1\"}} {value}\n");
            text.extend_from_slice(line.as_bytes());
        }
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
