//! Lists of devices that tools print, and that have no device: `ibv_devices` prints its header in any case.

use super::line::is_word;

/// What the lines so far show of such a list.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The header that the last lines belong to.
    open: Option<u64>,
    /// The number of blank lines since then: forms and mail programs insert them between all lines.
    blank: u64,
    /// The first header without a device below it.
    empty: Option<u64>,
}

impl Listing {
    /// Adds a line.
    pub(super) fn add(&mut self, text: &str, line: u64) {
        let trimmed = text.trim();
        if let Some(header) = self.open {
            if trimmed.is_empty() {
                self.blank += 1;
                return;
            }
            let is_rule = trimmed.bytes().all(|byte| matches!(byte, b'-' | b' ' | b'\t'));
            // A line of the same list follows its header at once.
            if is_rule && line == header + self.blank + 1 {
                return;
            }
            self.open = None;
            if !is_device(trimmed) {
                self.empty.get_or_insert(header);
            }
        }
        if trimmed.starts_with("device ") && trimmed.split_whitespace().eq(["device", "node", "GUID"]) {
            self.open = Some(line);
            self.blank = 0;
        }
    }

    /// The line of the first list without a device, at the end of the log.
    pub(super) fn empty(&self) -> Option<u64> {
        self.empty.or(self.open)
    }
}

/// Whether a line lists a device and its GUID of 16 digits: `mlx5_0   b83fd20300a1b2c4`.
fn is_device(trimmed: &str) -> bool {
    const DIGITS: usize = 16;
    let mut words = trimmed.split_whitespace();
    let is_name = words.next().is_some_and(|name| name.bytes().all(is_word));
    let guid = words.next().unwrap_or_default();
    is_name && guid.len() == DIGITS && guid.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_a_device_is_told_from_one_with_devices() {
        const HEADER: &str = "    device          \t   node GUID";
        const RULE: &str = "    ------          \t----------------";
        let empty = |lines: &[&str]| {
            let mut listing = Listing::default();
            for (line, number) in lines.iter().zip(1..) {
                listing.add(line, number);
            }
            listing.empty()
        };
        assert_eq!(empty(&["$ ibv_devices", HEADER, RULE]), Some(2));
        assert_eq!(empty(&[HEADER, RULE, "$ ls /dev/infiniband"]), Some(1));
        assert_eq!(
            empty(&[HEADER, RULE, "    mlx5_0          \tb83fd20300a1b2c4", "$"]),
            None
        );
        let spaced = [
            "",
            HEADER,
            "",
            RULE,
            "",
            "    rxe0                085697fffec1059b",
            "",
        ];
        assert_eq!(empty(&spaced), None);
        assert_eq!(empty(&["", HEADER, "", RULE, "", "", "$ lspci"]), Some(2));
        assert_eq!(empty(&["device node", RULE]), None);
    }
}
