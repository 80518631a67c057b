//! Lines of the kernel log without anything that could identify a user, a machine or a process.
//!
//! A driver may print names, serial numbers and addresses in any form, and no list of forms is complete. So the words are
//! listed that are kept: those that kernel messages about RDMA, PCIe, IOMMU and GPUs are made of. Every other word is hidden.

use std::collections::BTreeSet;

use rdma_health_kernel::{kmsg, pci::is_address};

use super::pseudonym::Pseudonyms;

/// Replaces a word that is not known.
const HIDDEN: &str = "<hidden>";
/// A number with more digits could be a serial number, an address or the number of a process.
const MAX_DIGITS: usize = 4;
/// A version with more digits could be anything (`28.41.1000`).
const MAX_VERSION: usize = 12;
/// Words after which a longer number in hexadecimal is a code of the device.
const CODES: &str = "code domain flags intr reason status synd syndrome";
/// Maximum number of digits of such a code.
const MAX_CODE: usize = 8;

/// Beginnings of the names of drivers, RDMA devices and their objects, which may contain digits.
const STEMS: &str = "\
    amdgpu be2net bnxt bnxt_en bnxt_re cx7 cxgb cxgb4 dmar efa erdma hfi hfi1 hns hns3 i40e i40iw ib ice idpf ionic irdma \
    ivhd mana mlx4 mlx5 mlx5e nvidia p2p pcie qed qib rxe siw smmu smmuv3 usnic v1 v2 x1 x2 x4 x8 x16 x32 rev3 msi msix";

/// Parts of identifiers and words of messages, in lower case.
const WORDS: &str = "\
    a abort aborted aborting access ack action active add added address admin advertised aer after again agent all alloc \
    allocate allocated allocation already amd an and any are arm as assert at attach attached auto available aux away axi \
    back bad bandwidth bar base be because been before below bind bit bits block blocked board boot bound bridge bug budget \
    buffer bus but by bytes cable cache call callback can cancel canceled cannot capability capable card carrier cause \
    cert changed channel check clear cleared client closed cmd cmdq code com command compatible complete completed \
    completion completions compromised config configuration configured confirmed connect connected consumed context \
    control controller correct correctable corrected corrupted counter cqp crash create created critical ctrl data db dead \
    debug default degraded delayed depth destroy detach detected dev device devices di did didn different dir \
    disable disabled disagrees discard dma domain done done down dpc driver drop dropped due dump during e ecam eeprom egress \
    empty en enable enabled encryption end engine enter entry eq error errors ethernet ev event events exceed exceeded \
    exception exit expected exposed ext extended external fabric fail failed failing failure fallen fast fatal fault \
    features fence field fill filter final find firmware flags flow flr flush for forced found free freed from full \
    function functions fw gb gbps general generation get gid global gpu group guard guid guest gt had handle handling hang hangs hotplug \
    hard hardware has have hca header heal health healthy heartbeat hidden high host hot hw hwrm id identity if ignored ignoring \
    illegal implemented in inactive incompatible index indication info init initialise initialised initialization initialize initialized \
    initializing insert inserted insufficient intel interface internal interrupt interrupts intr invalid invalidation iommu irq is \
    isn issue issued it its keep key kernel key lag lane lanes large last layer lazy leak least left legacy length less level \
    license limit limited limits line link list lo load loaded loading local lock log long loss lost low lower lun \
    mac mailbox major manager map mapped mapping mask match max maximum mbox mem memory message min minor miss missed missing \
    mismatch mkey mode modify module more mr mtu multicast multiple must name need needed negotiated net netdev \
    network new nic no non none nonfatal not notice notify npd nr null number numa nv nvidia nvlink nvswitch object observed of off offset \
    ok on only op opcode open operation optical or order other out outbound over overflow overheat own owner \
    packet page parameter parameters parent parity part pasid pass passthrough path pause pci pcieport pciehp pd peer \
    peermem pending per perf permanent permission pf phase phys physical pin pinned platform plugged plugin poison poisoned poll policy \
    pool port ports post power present prevent previous prio probe probed problem process processing progress protection protocol \
    pte ptr qp query queue queued queues quirk quota range rate raw rd rdma reached read reading ready reason receive received \
    receiver recoverable recover recovered recovery redetect reduced refused reg region register registered registers registration \
    release released remap remapping remote removal remove removed reporter reports request requested requester requests required reread \
    rescan reserve reserved reset resource resources respond responding response restart result resume retrain retry return returned returns rev \
    revision roce root route rule run running rx s safe same scan se sec secondary see segment select self send sender \
    sensor sent serious service set setting severity shared shutdown side signal silent size slot slow so sockets \
    software source speed sq sriov srq stack stage stale standby start started starting state status step steer steering still \
    stop stopped stopping store strict string stuck success succeeded support supported surprise switch symbol sync synd syndrome \
    system t table tag task te temp temperature terminate termination than the then there thermal this threshold \
    throttling time timed timedout timeout timer timestamp tlp to too total trained training transaction transfer \
    translated translation transmit transmitter triggered trigger trust try trying tx txq type uar uc uncorrect uncorrectable unable unbind \
    unbound unexpected unhealthy unit unknown unload unmap unmapped unplugged unqualified unreachable unrecoverable unregister unresponsive unset unspecified \
    unsupported up update updated upper usage use used user using utilization v valid value var vector vendor verbs version \
    vf vfs via violation virtual vport wait waiting warn warning was watchdog width will with within without word work \
    workqueue write writing written wrong x xid your z zero \
    bnxten event iova irqs isid logged mellanox nvrm pcieaer rcfw replay rollover signaled tlps trap via xport decode \
    core vi adapter change cold containment count cpu cq fsr fsynr cbfrsynra further inaccessible ipa mod ms msec pid polling print qplib re requesting sensors sid skipping sm sp ssid stream sufficient unassigned uncorrected unhandled unrecognized vports qpn cqn srqn eqn cm ucm mad umad turn one bad aux keepalive wc lid gids pkey about addr attributes came err gone io len msg prevents sme sev snp tdx infiniband es func lost smaller msgs cfg perm bnxtre rejected unavailable unsigned crypto ddp package file entering mmio \
    dmar drhd smmu ivrs ivhd handled hmm hq inta rasdes tb uevent ue ce";

/// Whether drivers use the word. It identifies nothing.
pub(super) fn is_word(word: &str) -> bool {
    is_joined(word)
}

/// The line with every unknown word hidden. `names` are the network and RDMA devices of the node, which are kept.
pub(super) fn line(pseudonyms: &Pseudonyms, names: &BTreeSet<String>, line: &str) -> String {
    kmsg::with_message(line, |text| message(pseudonyms, names, text))
}

fn message(pseudonyms: &Pseudonyms, names: &BTreeSet<String>, text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut before = String::new();
    while !rest.is_empty() {
        let start = rest.find(|c| !is_separator(c)).unwrap_or(rest.len());
        let (separators, from) = rest.split_at(start);
        out.push_str(separators);
        let end = from.find(is_separator).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        let bare = word.trim_end_matches([':', '.', '!', '?']);
        // `name[4711]` and `name (4711)`: the number of the process with this name.
        let is_process = before == HIDDEN && separators.contains(['[', '(']) && is_number(bare);
        let shown = if is_process || is_serial(&before) && !bare.is_empty() {
            HIDDEN.to_owned()
        } else if CODES.split(' ').any(|code| code == before) && is_code(bare) {
            bare.to_owned()
        } else {
            kept(pseudonyms, names, bare)
        };
        out.push_str(&shown);
        out.push_str(&word[bare.len()..]);
        let lower = bare.to_ascii_lowercase();
        if shown == HIDDEN {
            HIDDEN.clone_into(&mut before);
        } else if !(is_serial(&before) && lower == "number") {
            before = lower;
        }
        rest = after;
    }
    out
}

/// Whether the number of a device follows.
fn is_serial(word: &str) -> bool {
    matches!(word, "serial" | "sn" | "uuid")
}

/// A code of a device in hexadecimal.
fn is_code(word: &str) -> bool {
    let digits = word.strip_prefix("0x");
    digits.is_some_and(|digits| digits.len() <= MAX_CODE && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || "[](){}<>,;=\"'|".contains(c)
}

fn kept(pseudonyms: &Pseudonyms, names: &BTreeSet<String>, word: &str) -> String {
    let replaced = pseudonyms.words(word, true);
    if word.is_empty() || replaced != word || names.contains(word) || is_function(word) || is_number(word) {
        return replaced;
    }
    // `mlx5_0:1`, `mlx5_0:wait_func:1107:`, `AER/DPC`.
    let is_known = |part: &str| names.contains(part) || is_number(part) || is_joined(part);
    let mut parts = word.split([':', '/']).filter(|part| !part.is_empty());
    if parts.clone().next().is_some() && !is_spelled_address(word) && parts.all(is_known) {
        return word.to_owned();
    }
    HIDDEN.to_owned()
}

/// Known words (`non-fatal`, `arm-smmu-v3`), or a range of numbers. A word and a number could be the name of a machine
/// (`gpu-17`), more numbers could be an address.
fn is_joined(word: &str) -> bool {
    let parts = || word.split('-').filter(|part| !part.is_empty());
    let numbers = parts().filter(|part| is_number(part)).count();
    match numbers {
        0 => parts().all(is_words),
        _ => numbers == parts().count() && numbers <= 2,
    }
}

/// The address of a PCI function or slot, with or without its domain.
fn is_function(word: &str) -> bool {
    let word = word.replace("0x", "");
    is_address(&word) || is_address(&format!("0000:{word}"))
}

/// A number, a version or a pair of numbers that is too short for an address, a serial number or the number of a process.
fn is_number(word: &str) -> bool {
    let word = word.trim_start_matches(['-', '+', '~', '#']);
    if let Some(digits) = word.strip_prefix("0x") {
        let digits = digits.trim_start_matches('0');
        return digits.len() <= MAX_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    let is_plain = word.bytes().all(|b| b.is_ascii_digit() || b"./:%x*".contains(&b));
    let mut parts = word.split(|c: char| !c.is_ascii_digit());
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    is_plain
        && (1..=MAX_VERSION).contains(&digits)
        && parts.all(|part| part.len() <= MAX_DIGITS)
        && word.matches(':').count() <= 1
}

/// Whether every part of the identifier is known. Digits are accepted in names that begin with a driver only.
fn is_words(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let known = |part: &str| WORDS.split_whitespace().any(|known| known == part);
    let is_stem = |part: &str| STEMS.split_whitespace().any(|stem| stem == part);
    let mut parts = lower.split('_').filter(|part| !part.is_empty());
    let Some(first) = parts.next() else {
        return false;
    };
    let unnumbered = first.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_driver = is_stem(first) || (unnumbered.len() + 4 > first.len() && is_stem(unnumbered));
    let is_index = |part: &str| part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit());
    (is_driver || known(first))
        && parts.all(|part| known(part) || is_stem(part) || is_driver && is_index(part))
}

/// Six or more bytes in hexadecimal, whatever separates them.
fn is_spelled_address(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_hexdigit).count();
    digits >= 12
        && word
            .bytes()
            .all(|b| b.is_ascii_hexdigit() || b":.-_x".contains(&b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn anonymous(text: &str) -> String {
        let names = BTreeSet::from(["ens1f0np0".to_owned(), "bond0".to_owned()]);
        line(&Pseudonyms::default(), &names, text)
    }

    #[test]
    fn what_drivers_report_is_kept() {
        for text in [
            "4,339,5140900,-;DMAR: [DMA Read NO_PASID] Request device [18:00.0] fault addr 0xfe00 [fault reason 0x06] \
             PTE Read access is not set",
            "mlx5_core 0000:c1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 address=0x1000 flags=0x0020]",
            "iommu: Default domain type: Translated",
            "AMD Memory Encryption Features active: SME",
            "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
            "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
            "mlx5_core 0000:41:00.0: wait_func:1107: CREATE_QP(0x500) timeout. Will cause a leak of a command resource",
            "mlx5_core 0000:41:00.0 ens1f0np0: Link down",
            "mlx5_core 0000:41:00.0: firmware version: 28.41.1000",
            "mlx5_core 0000:41:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded",
            "pcieport 0000:40:01.1: AER: Uncorrected (Non-Fatal) error received: 0000:41:00.0",
            "mlx5_core 0000:41:00.0: failed, status bad resource(0x9), syndrome (0x77abcd), err(-22)",
            "efa 0000:41:00.0: Failed to get device attributes",
            "infiniband mlx5_0: ib_query_port failed (-5)",
        ] {
            assert_eq!(anonymous(text), text);
        }
    }

    #[test]
    fn names_serial_numbers_and_addresses_in_any_form_are_hidden() {
        for (text, secret) in [
            (
                "mlx5_core 0000:41:00.0: node gpu-node-17 is not responding",
                "gpu-node-17",
            ),
            ("mlx5_core 0000:41:00.0: client alice failed", "alice"),
            ("nvidia: cannot open /home/alice/cert.pem", "alice"),
            ("nvidia 0000:18:00.0: Serial Number: 1650221", "1650221"),
            ("nvidia 0000:18:00.0: board 1650221034567", "1650221034567"),
            ("mlx5_core: mac b8-59-9f-ab-cd-ef", "ab-cd"),
            ("mlx5_core: mac b859.9fab.cdef", "cdef"),
            ("mlx5_core: mac b8599fabcdef", "abcdef"),
            ("mlx5_core: mac B8:59:9F:AB:CD:EF", "AB:CD:EF"),
            ("mlx5_core: mac b8_59_9f_ab_cd_ef", "ab_cd"),
            ("infiniband mlx5_0: guid=b8599f0300abcdef", "abcdef"),
            ("infiniband mlx5_0: 0xb8599f0300abcdef", "abcdef"),
            ("infiniband mlx5_0: b859:9f03:00ab:cdef", "00ab:cdef"),
            ("nvidia: GPU-3f2a6c1e-0000-4a5b-8c9d-1234567890ab", "3f2a6c1e"),
            ("mlx5_core: peer 10.1.2.3:4791", "10.1.2.3"),
            ("mlx5_core: peer host17.example.org", "host17"),
            ("mlx5_core: peer fd00::17:4711", "4711"),
            ("nvidia: user@example.org", "example"),
            ("infiniband mlx5_0: worker[7712]: error", "7712"),
            ("infiniband mlx5_0: error worker (7712)", "7712"),
            ("infiniband mlx5_0: error 771234", "771234"),
            ("infiniband mlx5_0: error #771234", "771234"),
            ("infiniband mlx5_0: peer 10-77-66-55", "77-66"),
            ("infiniband mlx5_0: peer 0x0a4d4237", "4d42"),
            ("infiniband mlx5_0: peer 12-34-56", "34"),
            ("infiniband mlx5_0: peer gpu-17", "17"),
        ] {
            let shown = anonymous(text);
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn what_the_reader_needs_stays_and_the_number_of_a_process_does_not() {
        for (text, shown) in [
            (
                "3,900,900000000,-,caller=T1234;mlx5_core 0000:13:00.0: Fatal error 1 detected",
                "3,900,900000000,-;mlx5_core 0000:13:00.0: Fatal error 1 detected",
            ),
            (
                "[   12.345678][T1234] mlx5_core 0000:13:00.0: Link up",
                "[12.345678] mlx5_core 0000:13:00.0: Link up",
            ),
            (" REPEATED=62", " REPEATED=62"),
            (
                "mlx5_core 0000:41:00.0: mlx5_cmd_check:772:(pid <hidden>): failed",
                "mlx5_core 0000:41:00.0: mlx5_cmd_check:772:(pid <hidden>): failed",
            ),
        ] {
            assert_eq!(anonymous(text), shown);
        }
    }

    proptest! {
        #[test]
        fn a_word_that_is_not_listed_is_hidden(word in "[q-z]{6,12}") {
            let shown = anonymous(&format!("mlx5_core 0000:41:00.0: {word}"));
            prop_assert!(!shown.contains(&word) || WORDS.contains(&word));
        }

        #[test]
        fn any_line_is_taken(text in "\\PC{0,80}") {
            anonymous(&text);
        }
    }
}
