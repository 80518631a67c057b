//! What the tools of an InfiniBand fabric print: opensm's log, infiniband-diags, ibdiagnet, mlxlink, and the states of ports that
//! ibstat, `ibv_devinfo` and `rdma link` list.
//!
//! Sources: `OSM_LOG` of opensm, `IBWARN` of libibmad and infiniband-diags in rdma-core.

mod opensm;

pub(super) use self::opensm::is_of_opensm;
use self::opensm::{is_opensm, opensm};
use super::{grade, line::number};
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that are read here, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "duplicate",
    "sm port",
    "mgrp",
    "multicast group",
    "state:",
    "state active",
    "state down",
    "state init",
    "recommendation",
    "could be ",
    "errorcounter",
    "counter ==",
    "not at maximum",
    "rcverrors",
    "madrpc",
    "umad",
    "do not share",
    "opensm[",
    "not what we want",
    "-e- ",
    "-w- ",
];

/// Reads one form of message from a line in lower case: what it shows, and where.
type Reader = fn(&str) -> Option<(K, usize)>;

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let readers: [Reader; 9] = [
        opensm,
        management,
        ibdiagnet,
        recommendation,
        counters,
        below_maximum,
        port_state,
        named_state,
        passed_over,
    ];
    readers.iter().find_map(|read| read(lower))
}

/// Whether a line is of a tool that sends management packets.
pub(crate) fn is_of_tools(lower: &str) -> bool {
    const TOOLS: [&str; 10] = [
        "ibwarn:",
        "ibpanic:",
        "saquery",
        "ibdiagnet",
        "iblinkinfo",
        "ibping",
        "smpquery",
        "query sa failed",
        "iberror: failed",
        "umad_recv",
    ];
    is_opensm(lower) || TOOLS.iter().any(|tool| lower.contains(tool))
}

/// What libibmad and the tools above it report of management packets: no node answers, or they cannot be sent from here.
fn management(lower: &str) -> Option<(K, usize)> {
    if let Some(at) = lower.find("is ").filter(|_| lower.contains(" loaded?")) {
        // `is ib_umad module loaded?`, `is ib_uverbs loaded?`
        let rest = &lower[at..];
        return ["ib_", "rdma_", "mlx", "hfi1"]
            .iter()
            .any(|module| rest.contains(module))
            .then_some((K::ModuleMissing, at));
    }
    // Only ports of InfiniBand have the management agents that these tools register with.
    if let Some(at) = lower.find("client_register for mgmt") {
        return lower.contains("failed").then_some((K::UnsupportedAdapter, at));
    }
    // What a tool asks of a node: `perfquery: iberror: failed: perfextquery`. It reports its own port, which it cannot open, in other words.
    if let Some(at) = lower.find("iberror: failed: ") {
        let rest = &lower[at..];
        let is_own = ["open", "discover", "sminfo"]
            .iter()
            .any(|word| rest.contains(word))
            || lower.contains("sminfo");
        // The port of this node: `smpquery: iberror: failed: Failed to open port 'mlx5_0:1'`, `saquery: iberror: failed: Failed to bind to the SA`.
        if ["open port", "open '", "bind to the sa"]
            .iter()
            .any(|word| rest.contains(word))
        {
            return umad(lower).or(Some((K::OpenFailed, at)));
        }
        if rest.contains("resolve self") {
            return Some((K::PortNotActive, at));
        }
        if rest.contains("resolve sm ") {
            return Some((K::NoSubnetManager, at));
        }
        let asks = ["smp ", "query", "resolve", "destination", "reset"];
        if !is_own && asks.iter().any(|word| rest.contains(word)) {
            return Some((K::PeerUnreachable, at));
        }
    }
    let at = [
        "ibwarn:",
        "ibpanic:",
        "query sa failed",
        "ib_query failed",
        "bad status 110",
    ]
    .iter()
    .find_map(|tool| lower.find(tool))?;
    let rest = &lower[at..];
    let has = |words: &[&str]| words.iter().any(|word| rest.contains(word));
    if has(&["open umad port", "failed to open", "can't open"]) {
        return umad(lower).or(Some((K::OpenFailed, at)));
    }
    // The tool asks its own port first: it has no link, or no subnet manager gave it an address.
    if has(&["resolve self"]) {
        return Some((K::PortNotActive, at));
    }
    let is_unanswered = has(&[
        "timed out",
        "timeout",
        "madrpc failed",
        "can't resolve",
        "connection timed",
    ]);
    if !is_unanswered {
        return None;
    }
    let of_administration = has(&[
        "sa_query",
        "query sa",
        "sm destination",
        "sm port",
        "sminfo",
        "ib_query",
        "path_query",
    ]);
    Some((
        if of_administration {
            K::NoSubnetManager
        } else {
            K::PeerUnreachable
        },
        at,
    ))
}

/// The errors and warnings of ibdiagnet: `-E- Not found master subnet manager in fabric`.
fn ibdiagnet(lower: &str) -> Option<(K, usize)> {
    let trimmed = lower.trim_start();
    let at = lower.len() - trimmed.len();
    let text = trimmed
        .strip_prefix("-e- ")
        .or_else(|| trimmed.strip_prefix("-w- "))?;
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let kind = if text.contains("guid") && text.contains("duplicat") {
        K::GuidDuplicated
    } else if has(&["subnet manager", "master sm"]) && has(&["not found", "missing", "no "]) {
        K::NoSubnetManager
    } else if has(&["unexpected actual link", "unexpected width", "unexpected speed"])
        || has(&[
            " ber ",
            "symbol_error",
            "link_downed",
            "rcv_errors",
            "effective ber",
        ])
    {
        K::LinkDegraded
    } else if has(&["pkey", "partition"]) && has(&["mismatch", "missing", "fail"]) {
        K::PkeyMissing
    } else {
        return None;
    };
    Some((kind, at))
}

/// What mlxlink recommends about a port: `Recommendation : Cable is unplugged`.
fn recommendation(lower: &str) -> Option<(K, usize)> {
    let (name, value) = lower.split_once(':')?;
    let value = value.trim();
    if name.trim() != "recommendation" || value.is_empty() || value.starts_with("no issue") {
        return None;
    }
    let at = lower.find(value).unwrap_or_default();
    let has = |words: &[&str]| words.iter().any(|word| value.contains(word));
    Some((
        if value.contains("temperature") {
            K::AdapterHot
        } else if has(&["command", "disabled", "is enabled"]) {
            K::PortNotActive
        } else {
            K::ModuleFault
        },
        at,
    ))
}

/// A link below its capability in iblinkinfo (`Could be 4X`), or error counters that ibqueryerrors and perfquery show.
fn counters(lower: &str) -> Option<(K, usize)> {
    /// Below, a counter may come from the last time when a cable was plugged.
    const MANY: u64 = 10;
    const COUNTERS: [&str; 6] = [
        "symbolerrorcounter",
        "linkerrorrecoverycounter",
        "linkdownedcounter",
        "portrcverrors",
        "locallinkintegrityerrors",
        "linkintegrityerrors",
    ];
    if let Some(at) = lower.find("could be ") {
        let of_link = lower.contains("==(") && lower.contains("linkup");
        return of_link.then_some((K::LinkDegraded, at));
    }
    COUNTERS.iter().find_map(|name| {
        let at = lower.find(name)?;
        let value = number(lower[at + name.len()..].trim_start_matches(['=', ':', '.', ' ']))?;
        (value >= MANY).then_some((K::LinkDegraded, at))
    })
}

/// A link below what its ends support, in the words of fabric checks: `Linkwidth (1X) not at maximum width supported (1XOR4X)`.
fn below_maximum(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("not at maximum ")?;
    let is_link = ["width", "speed"]
        .iter()
        .any(|what| lower[at..].contains(what) && lower[..at].contains(what));
    is_link.then_some((K::LinkDegraded, at))
}

/// The state in a list of ports: opainfo's `PortState: Active`, ibstat's `State: Down`, libibverbs' `state: PORT_DOWN (1)`, `link mlx5_0/1 state DOWN …` of rdma,
/// and what ibdev2netdev prints.
fn state(lower: &str) -> Option<(&str, usize)> {
    let trimmed = lower.trim();
    if let Some((port, rest)) = trimmed.split_once(" ==> ") {
        // ibdev2netdev: `mlx5_0 port 1 ==> ens1f0np0 (Down)`.
        let at = lower.rfind('(')?;
        let (_, number) = port.rsplit_once(" port ")?;
        let is_port = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        return match rest.rsplit_once('(')?.1 {
            "down)" if is_port => Some(("down", at)),
            "up)" if is_port => Some(("active", at)),
            _ => None,
        };
    }
    let of_port = trimmed
        .strip_prefix("state:")
        .or_else(|| trimmed.strip_prefix("portstate:"));
    let value = if let Some(rest) = of_port {
        // ibstatus numbers them: `1: DOWN`.
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c.is_whitespace() || c == ':')
    } else {
        let link = trimmed.strip_prefix("link ")?;
        let (name, rest) = link.split_once(" state ")?;
        // A port of InfiniBand has its prefix, LID and subnet manager first.
        let (_, port) = name.split(' ').next()?.split_once('/')?;
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        rest.trim_start().get(..).filter(|_| is_port)?
    };
    let word = value.split([' ', '(']).next()?;
    let word = word.strip_prefix("port_").unwrap_or(word);
    Some((word, lower.find(word)?))
}

/// The state of a port by its name in libibverbs, in a line that says why a program does not go on: `VERBS RDMA open error verbsPort mlx5_1/1
/// due to port state IBV_PORT_DOWN`.
fn named_state(lower: &str) -> Option<(K, usize)> {
    const STATES: [(&str, K); 3] = [
        ("ibv_port_down", K::PortNotActive),
        ("ibv_port_init", K::PortInitializing),
        ("ibv_port_armed", K::PortInitializing),
    ];
    let (at, kind) = STATES
        .iter()
        .find_map(|(name, kind)| Some((lower.find(name)?, *kind)))?;
    // A port that a program leaves out has not failed.
    let is_left_out = ["skip", "ignor"].iter().any(|word| lower.contains(word));
    (!is_left_out && lower[..at].contains("state ") && grade::fails(&lower[..at])).then_some((kind, at))
}

/// A port that a program looked at and cannot use, by its state in the words of `ibv_port_state_str`: ceph's `port 1 is not what we want. state: down`.
fn passed_over(lower: &str) -> Option<(K, usize)> {
    const UNUSABLE: [&str; 6] = [
        "not what we want",
        "cannot be used",
        "can't be used",
        "not usable",
        "is not ready",
        "expected active",
    ];
    const NAMES: [&str; 7] = ["infiniband", "rdma", "verbs", "roce", "mlx5", "mlx4", "bnxt_re"];
    let is_unusable = || UNUSABLE.iter().any(|words| lower.contains(words));
    let begin = lower.find("port ").filter(|_| is_unusable())?;
    if !NAMES.iter().any(|name| lower.contains(name)) {
        return None;
    }
    let at = begin + lower[begin..].find("state")?;
    let word = lower[at + "state".len()..]
        .split(|c: char| !c.is_ascii_alphanumeric())
        .find(|word| !matches!(*word, "" | "is"))?;
    match word {
        "down" | "disabled" | "polling" => Some((K::PortNotActive, begin)),
        "init" | "initializing" | "armed" => Some((K::PortInitializing, begin)),
        _ => None,
    }
}

fn port_state(lower: &str) -> Option<(K, usize)> {
    let (word, at) = state(lower)?;
    let kind = match word {
        "down" | "offline" | "polling" => K::PortNotActive,
        "initializing" | "initialize" | "init" | "armed" => K::PortInitializing,
        _ => return None,
    };
    Some((kind, at))
}

/// Whether a line in lower case lists a port that is down. Ports without a cable are normal where others are active.
pub(super) fn lists_port_down(lower: &str) -> bool {
    state(lower).is_some_and(|(word, _)| word == "down")
}

/// Whether a line in lower case lists an active port.
pub(super) fn lists_active_port(lower: &str) -> bool {
    state(lower).is_some_and(|(word, _)| word == "active")
}

/// A management device that a tool of the fabric cannot open: `can't open UMAD port (mlx5_0:1)`, `open /dev/infiniband/umad0 failed: No such
/// file or directory`. Without an error number, the module is missing or the user is not root.
pub(super) fn umad(lower: &str) -> Option<(K, usize)> {
    const FAILS: [&str; 5] = ["fail", "can't", "cannot", "no such file", "denied"];
    if is_without_manager(lower) {
        return Some((K::ModuleMissing, lower.find("issm")?));
    }
    let at = [
        "umad port",
        "umad_open_port",
        "open mad port",
        "/dev/infiniband/umad",
        "/dev/infiniband/issm",
    ]
    .iter()
    .find_map(|name| lower.find(name))?;
    // What a program no longer needs.
    if lower[..at].contains("clos") {
        return None;
    }
    let kind = if lower.contains("no such file") {
        K::ModuleMissing
    } else if lower.contains("permission denied") || lower.contains("not permitted") {
        K::NotPermitted
    } else {
        K::OpenFailed
    };
    (FAILS.iter().any(|word| lower.contains(word))).then_some((kind, at))
}

/// Whether a monitor misses the file that a subnet manager needs of a port, `issm0`, and no other one: `issm character device missing from
/// /sys/class/infiniband_mad`. No program failed then.
pub(super) fn is_without_manager(lower: &str) -> bool {
    const MISSING: [&str; 3] = ["missing", "not found", "absent"];
    const NEEDED: [&str; 7] = [
        "umad",
        "uverbs",
        "rdma_cm",
        "opensm",
        "osm_",
        "device spec",
        "rdma device",
    ];
    lower.contains("issm")
        && MISSING.iter().any(|word| lower.contains(word))
        && !NEEDED.iter().any(|name| lower.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_fabric_tools_are_read_by_what_they_are_about() {
        for (line, expected) in [
            (
                "nov 12 09:31:02 112233 [6b7fe700] 0x01 -> ni_rcv_set_links: err 0d01: found duplicated node guid.",
                Some(K::GuidDuplicated),
            ),
            // The GUID is in the next line.
            (
                "jun 11 08:22:10 204411 [9f7fe700] 0x01 -> __osm_ni_rcv_set_links: err 0d01: found duplicated node.",
                Some(K::GuidDuplicated),
            ),
            ("nov 12 09:31:02 112233 [6b7fe700] 0x02 -> subnet up", None),
            (
                "nov 12 09:31:02 112233 [6b7fe700] 0x01 -> pr_rcv_get_path_parms: err 1f1a: ports 0x1 (n1 hca-1 port 1) and 0x2 \
                 (n2 hca-1 port 1) do not share specified pkey 0x8001",
                Some(K::PkeyMissing),
            ),
            (
                "nov 12 09:31:02 112233 [6b7fe700] 0x01 -> umad_receiver: err 5411: dr smp send completed with error (ib_timeout)",
                Some(K::PeerUnreachable),
            ),
            (
                "ibwarn: [28113] mad_rpc: _do_madrpc failed; dport (lid 4)",
                Some(K::PeerUnreachable),
            ),
            ("query sa failed: connection timed out", Some(K::NoSubnetManager)),
            (
                "ibwarn: [4312] umad_init: can't read abi version from /sys/x (no such file): is ib_umad module loaded?",
                Some(K::ModuleMissing),
            ),
            ("-i- subnet manager check finished successfully", None),
            (
                "-e- not found master subnet manager in fabric",
                Some(K::NoSubnetManager),
            ),
            ("recommendation                     : no issue was observed", None),
            (
                "recommendation                     : cable is unplugged",
                Some(K::ModuleFault),
            ),
            ("symbolerrorcounter:..............0", None),
            ("symbolerrorcounter:..............65535", Some(K::LinkDegraded)),
            (
                "  9 12[ ] ==( 4x 53.125 gbps active/ linkup)==> 42 12[ ] \"sw\" ( )",
                None,
            ),
            ("   portstate:     active", None),
            ("   portstate:     init (linkup)", Some(K::PortInitializing)),
            ("   portstate:     offline", Some(K::PortNotActive)),
            (
                "switch 3:port 9: linkspeed (10gbps) not at maximum speed supported (10gbpsor25gbps)",
                Some(K::LinkDegraded),
            ),
            ("the width is not at maximum brightness", None),
            ("\t\tstate: down", Some(K::PortNotActive)),
            ("\t\t\tstate:\t\t\tport_init (2)", Some(K::PortInitializing)),
            (
                "link mlx5_0/1 state active physical_state link_up netdev eth0",
                None,
            ),
            (
                "link mlx5_0/1 state down physical_state disabled netdev eth0",
                Some(K::PortNotActive),
            ),
            (
                "link mlx5_9/1 subnet_prefix fe80:0000:0000:0000 lid 65535 sm_lid 1 lmc 0 state down physical_state link_up",
                Some(K::PortNotActive),
            ),
            (
                "link mlx5_9/1 subnet_prefix fe80:0000:0000:0000 lid 9 sm_lid 1 lmc 0 state init physical_state link_up",
                Some(K::PortInitializing),
            ),
            (
                "link mlx5_9/1 subnet_prefix fe80:0000:0000:0000 lid 9 sm_lid 1 lmc 0 state active physical_state link_up",
                None,
            ),
            ("\tstate:\t\t 1: down", Some(K::PortNotActive)),
            (
                "recommendation : fec not match in force mode",
                Some(K::ModuleFault),
            ),
            (
                "recommendation : the port is closed by command",
                Some(K::PortNotActive),
            ),
            ("the state: down the drain", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }

    #[test]
    fn traps_and_states_say_what_a_tool_could_not_reach() {
        for (line, expected) in [
            (
                "perfquery: iberror: failed: perfextquery",
                Some(K::PeerUnreachable),
            ),
            (
                "ibping: iberror: failed: can't resolve destination port 0x248a0703009c0e5e",
                Some(K::PeerUnreachable),
            ),
            (
                "nov 12 09:31:02 112233 [6b7fe700] 0x01 -> log_trap_info: received generic notice type:1 num:129 (local link \
                 integrity threshold reached) producer:2 (switch) from lid:3",
                Some(K::LinkDegraded),
            ),
            (
                "nov 12 09:31:02 112233 [6b7fe700] 0x01 -> log_trap_info: received generic notice type:1 num:128 (link state \
                 change) producer:2 (switch) from lid:3",
                None,
            ),
            (
                "[w] verbs rdma open error verbsport mlx5_1/1 due to port state ibv_port_down",
                Some(K::PortNotActive),
            ),
            ("skipping mlx5_3 port 1 state ibv_port_down", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
