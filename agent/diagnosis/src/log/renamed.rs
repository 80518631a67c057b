//! Adapters of Omni-Path that the library PSM2 does not find, because rdma-core gave them other names than the kernel.

/// What the lines so far show of them.
#[derive(Debug, Default)]
pub(super) struct Renamed {
    /// The line in which PSM2 reports that it has no adapter, and its text.
    missed: Option<(u64, String)>,
    /// The first adapter with a name of rdma-core.
    name: Option<String>,
    /// A line of libfabric is about another provider than PSM2.
    has_others: bool,
}

/// What PSM2 reports as information that has no adapter to use.
const MISSED: [&str; 2] = ["no PSM2 device is active", "hfi1 units: total -1"];

impl Renamed {
    /// Adds a line.
    pub(super) fn add(&mut self, text: &str, line: u64) {
        // libfabric asks all of its providers, and reports this as information.
        if self.missed.is_none() && MISSED.iter().any(|words| text.contains(words)) {
            self.missed = Some((line, text.trim().to_owned()));
        }
        self.has_others |= text.starts_with("libfabric:") && OTHERS.iter().any(|name| text.contains(name));
        if self.name.is_none() && text.contains("opa") {
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
            self.name = words.find(|word| is_of_rdma_core(word)).map(str::to_owned);
        }
    }

    /// What PSM2 reports that has no adapter, the number of its line, and whether the log shows no other provider.
    pub(super) fn without(&self) -> Option<(&str, u64, bool)> {
        let (line, text) = self.missed.as_ref()?;
        Some((text, *line, !self.has_others))
    }

    /// What PSM2 reports in a log that shows an adapter with such a name, and the number of its line.
    pub(super) fn missed(&self) -> Option<(String, u64)> {
        let ((line, text), name) = (self.missed.as_ref()?, self.name.as_ref()?);
        Some((with_name(text, name), *line))
    }
}

/// Providers of libfabric for other adapters.
const OTHERS: [&str; 7] = [
    ":verbs:",
    ":tcp:",
    ":sockets:",
    ":efa:",
    ":cxi:",
    ":psm3:",
    ":opx:",
];

/// What PSM2 reports, and the name of the adapter that it does not find.
pub(crate) fn with_name(text: &str, name: &str) -> String {
    format!("{text} (the adapter has the name {name}, PSM2 looks for hfi1_0)")
}

/// Whether PSM2 reports that it has no adapter.
pub(crate) fn is_without(text: &str) -> bool {
    MISSED.iter().any(|words| text.contains(words))
}

/// Whether a word is a name by the place of the adapter: `opap134s0`, `opas3`. The kernel's own is `hfi1_0`.
fn is_of_rdma_core(word: &str) -> bool {
    let place = word.strip_prefix("opa").unwrap_or_default();
    let rest = place.strip_prefix(['p', 's', 'o', 'x']).unwrap_or_default();
    rest.starts_with(|c: char| c.is_ascii_digit()) && rest.len() <= 12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_adapter_with_another_name_explains_that_psm2_finds_none() {
        let missed = |lines: &[&str]| {
            let mut renamed = Renamed::default();
            for (line, number) in lines.iter().zip(1..) {
                renamed.add(line, number);
            }
            renamed.missed().map(|(_, line)| line)
        };
        let none = "psm2:core:psmx2_getinfo():536<info> no PSM2 device is active.";
        assert_eq!(missed(&[none, "opap134s0:1   PortGID:0xfe80"]), Some(1));
        assert_eq!(missed(&["CA 'opas3'", none]), Some(2));
        assert_eq!(missed(&[none, "hfi1_0:1   PortGID:0xfe80"]), None);
        assert_eq!(missed(&[none, "mtl opal openopa"]), None);
        assert_eq!(missed(&["opap134s0:1"]), None);
    }
}
