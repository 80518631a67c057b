//! Which ports a value of `NCCL_IB_HCA` names, as NCCL reads it (`parseStringList` and `matchIfList` in `src/misc/socket.cc` and
//! `src/misc/utils.cc`).

use rdma_health_node::Port;

use crate::rails::{Rail, Rails};

/// `MAX_IF`: NCCL ignores further items.
const MOST: usize = 32;

/// How the ports of a value differ from those of the job.
pub(super) struct Difference {
    /// What a user should know.
    pub(super) text: String,
    /// Whether it names no port at all.
    pub(super) nothing: bool,
}

/// Compares the ports; `None` if they are the same.
pub(super) fn difference(value: &str, rails: &Rails<'_>) -> Option<Difference> {
    let list = List::parse(value);
    let own = || rails.rails.iter().map(|rail| &rail.port);
    let names = |ports: &mut dyn Iterator<Item = &Port<'_>>| {
        let names: Vec<_> = ports.map(ToString::to_string).collect();
        names.join(", ")
    };
    let left_out = names(&mut own().filter(|port| !list.names(port)));
    let extra = names(&mut rails.others.iter().filter(|port| list.names(port)));
    let nothing = extra.is_empty() && !own().any(|port| list.names(port));
    if nothing {
        let text =
            "this value matches no active port that this container can open, so NCCL uses TCP".to_owned();
        return Some(Difference { text, nothing });
    }
    let mut parts = Vec::new();
    if value.is_empty() && !extra.is_empty() {
        parts.push("NCCL takes an empty value as all devices: unset it".to_owned());
    }
    if !left_out.is_empty() {
        parts.push(format!("this value leaves out {left_out}"));
    }
    if !extra.is_empty() {
        parts.push(format!(
            "this value also matches {extra}, which the job should not use"
        ));
        if list.takes_prefixes(rails) {
            parts.push("NCCL takes a name without '=' as a prefix".to_owned());
        }
    }
    (!parts.is_empty()).then(|| Difference {
        text: parts.join("; "),
        nothing,
    })
}

/// The ports of the job that a value names.
pub(super) fn chosen<'r, 'a>(value: &str, rails: &'r Rails<'a>) -> Vec<&'r Rail<'a>> {
    let list = List::parse(value);
    rails.rails.iter().filter(|rail| list.names(&rail.port)).collect()
}

/// `[^][=]name[:port[:rail[:plane]]],…`
struct List<'a> {
    /// `^`: the ports that it does not name.
    excludes: bool,
    /// `=`: whole names.
    exact: bool,
    /// Name and port of each item; `None` for any port.
    items: Vec<(&'a str, Option<u32>)>,
}

impl<'a> List<'a> {
    fn parse(value: &'a str) -> Self {
        let (excludes, value) = value
            .strip_prefix('^')
            .map_or((false, value), |rest| (true, rest));
        let (exact, value) = value
            .strip_prefix('=')
            .map_or((false, value), |rest| (true, rest));
        let item = |item: &'a str| {
            let mut parts = item.split(':');
            let name = parts.next().filter(|name| !name.is_empty())?;
            Some((name, parts.next().and_then(port)))
        };
        Self {
            excludes,
            exact,
            items: value.split(',').filter_map(item).take(MOST).collect(),
        }
    }

    /// Whether NCCL uses the port.
    fn names(&self, port: &Port<'_>) -> bool {
        let name = port.hca.name.as_str();
        let is_it = |(item, number): &(&str, Option<u32>)| {
            let same = if self.exact {
                name == *item
            } else {
                name.starts_with(item)
            };
            same && number.is_none_or(|number| number == u32::from(port.number))
        };
        (self.items.is_empty() || self.items.iter().any(is_it)) != self.excludes
    }

    /// Whether a port is matched by more than its name.
    fn takes_prefixes(&self, rails: &Rails<'_>) -> bool {
        let is_whole = |name: &str| self.items.iter().any(|(item, _)| *item == name);
        let by_prefix =
            |name: &str| self.items.iter().any(|(item, _)| name.starts_with(item)) && !is_whole(name);
        !self.exact && !self.excludes && rails.others.iter().any(|port| by_prefix(&port.hca.name))
    }
}

/// As `atoi` reads it: what is not a number is port 0, which does not exist. -1 is any port, and so is nothing (`mlx5_0::1` names a rail).
fn port(text: &str) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    let text = text.trim_start();
    if text.starts_with('-') {
        return (text != "-1").then_some(0);
    }
    let digits = text.trim_start_matches('+');
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    Some(
        digits
            .get(..end)
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0),
    )
}
