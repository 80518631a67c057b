//! The devices that UCX opens, which it logs for debugging only.
//!
//! UCX tries the interface of mlx5 with every device before it takes the one of verbs. If it sets up no device at all, it goes on over TCP and shared memory and
//! reports nothing.

/// What the lines so far show.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// The first device that did not open, and whether its name is one of EFA.
    failed: Option<(String, u64, bool)>,
    /// It set up a device.
    any: bool,
}

impl Opened {
    /// Adds a line.
    pub(super) fn add(&mut self, text: &str, number: u64) {
        const CALLS: [&str; 2] = ["mlx5dv_open_device(", "ibv_open_device("];
        if self.any || !text.contains(" UCX ") {
            return;
        }
        if text.contains("initialized device '") {
            self.any = true;
            return;
        }
        let Some(rest) = CALLS.iter().find_map(|call| text.split_once(call)) else {
            return;
        };
        let Some((name, result)) = rest.1.split_once(')') else {
            return;
        };
        if self.failed.is_none() && result.trim_start().starts_with("failed") {
            // `rdmap16s27`: the name of an EFA by its place.
            let is_efa = name
                .strip_prefix("rdmap")
                .is_some_and(|place| place.starts_with(|c: char| c.is_ascii_digit()));
            self.failed = Some((text.trim().to_owned(), number, is_efa));
        }
    }

    /// The first device that did not open, where none did: the line, its number, and whether it is an EFA.
    pub(super) fn none(&self) -> Option<(&str, u64, bool)> {
        let (text, number, is_efa) = self.failed.as_ref().filter(|_| !self.any)?;
        Some((text, *number, *is_efa))
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        log::LogReader,
        symptom::{Grade, SymptomKind as K},
    };

    #[test]
    fn a_device_that_ucx_cannot_open_counts_where_it_opens_none() {
        const OPENED: &str = "[174.7] [n1:47:0] ib_device.c:593 UCX  DEBUG initialized device 'rdmap16s27' (InfiniBand channel adapter) with 1 ports\n";
        let failed = |name: &str| {
            format!(
                "[174.6] [n1:47:0] ib_mlx5dv_md.c:1788 UCX  DEBUG mlx5dv_open_device({name}) failed: Operation not supported\n"
            )
        };
        for (log, expected) in [
            (failed("rdmap16s27"), Some(K::UnsupportedAdapter)),
            (failed("bnxt_re0"), Some(K::Unrecognised)),
            (failed("rdmap16s27") + OPENED, None),
        ] {
            let mut reader = LogReader::default();
            reader.feed(log.as_bytes());
            let read = reader.finish();
            let found = read.symptoms.iter().find(|symptom| symptom.grade > Grade::Note);
            assert_eq!(found.map(|symptom| symptom.kind), expected, "{log}");
        }
    }
}
