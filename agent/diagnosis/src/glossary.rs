//! Names of other libraries and terms of the field, as users paste them.
//!
//! The names are those of `rdma/fi_errno.h` (libfabric), `ucs/type/status.h` (UCX), `rdma_cma.h` and `ib_cm.h` (reasons of a rejected
//! connection, IBTA 12.6.7.2) and `verbs.h` (asynchronous events).

use rdma_health_protocol::Errno;

use crate::log::strerror;

/// A name and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The name, as the library or the field writes it.
    pub name: &'static str,
    /// What kind of name it is.
    pub kind: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Rules, causes and symptoms to read about next.
    pub see: &'static [&'static str],
}

const fn term(
    name: &'static str,
    kind: &'static str,
    meaning: &'static str,
    see: &'static [&'static str],
) -> Term {
    Term {
        name,
        kind,
        meaning,
        see,
    }
}

const FABRIC: &str = "error of libfabric";
const UCX: &str = "status of UCX";
const FIELD: &str = "term";

/// Every term.
pub static TERMS: &[Term] = &[
    // libfabric's own errors; the others have the names and numbers of errno(3).
    term(
        "FI_EOTHER",
        FABRIC,
        "an error that the provider does not name; its own number follows in prov_errno",
        &[],
    ),
    term(
        "FI_ETOOSMALL",
        FABRIC,
        "the buffer of the caller is too small",
        &[],
    ),
    term(
        "FI_EOPBADSTATE",
        FABRIC,
        "the operation is not permitted in the state of the endpoint: it is not enabled or was shut down",
        &["peer-failed"],
    ),
    term(
        "FI_EAVAIL",
        FABRIC,
        "an error entry is waiting: the program must read it with fi_cq_readerr or fi_eq_readerr",
        &[],
    ),
    term(
        "FI_EBADFLAGS",
        FABRIC,
        "flags that the provider does not support",
        &["userspace-libraries"],
    ),
    term("FI_ENOEQ", FABRIC, "the endpoint has no event queue", &[]),
    term(
        "FI_EDOMAIN",
        FABRIC,
        "resources of different domains were combined",
        &[],
    ),
    term("FI_ENOCQ", FABRIC, "the endpoint has no completion queue", &[]),
    term(
        "FI_ECRC",
        FABRIC,
        "the checksum of a message is wrong",
        &["link-quality"],
    ),
    term(
        "FI_ETRUNC",
        FABRIC,
        "the message is longer than the buffer of the receiver",
        &["application-memory"],
    ),
    term(
        "FI_ENOKEY",
        FABRIC,
        "the key of the remote memory is not valid",
        &["application-memory"],
    ),
    term(
        "FI_ENOAV",
        FABRIC,
        "the address is not in the address vector",
        &[],
    ),
    term(
        "FI_EOVERRUN",
        FABRIC,
        "a queue overflowed, and entries are lost",
        &["queue-error"],
    ),
    term(
        "FI_ENORX",
        FABRIC,
        "the receiver has no buffer posted",
        &["IBV_WC_RNR_RETRY_EXC_ERR"],
    ),
    term(
        "FI_ENOMR",
        FABRIC,
        "the provider cannot register more memory",
        &["memlock-limit", "hca-resources"],
    ),
    // UCX.
    term(
        "UCS_ERR_NO_RESOURCE",
        UCX,
        "a resource is used up for the moment; UCX tries again",
        &[],
    ),
    term(
        "UCS_ERR_IO_ERROR",
        UCX,
        "an input or output error; the line before it names the operation",
        &["device-fault"],
    ),
    term(
        "UCS_ERR_NO_MEMORY",
        UCX,
        "memory could not be allocated or registered",
        &["memlock-limit", "hca-resources"],
    ),
    term(
        "UCS_ERR_INVALID_PARAM",
        UCX,
        "a parameter is not valid",
        &["job-settings"],
    ),
    term(
        "UCS_ERR_UNREACHABLE",
        UCX,
        "no transport of UCX_TLS reaches the peer from a device of UCX_NET_DEVICES",
        &["job-settings", "device-not-given"],
    ),
    term(
        "UCS_ERR_INVALID_ADDR",
        UCX,
        "the address of the peer is not valid",
        &["addressing"],
    ),
    term(
        "UCS_ERR_MESSAGE_TRUNCATED",
        UCX,
        "the message is longer than the buffer of the receiver",
        &["application-memory"],
    ),
    term(
        "UCS_ERR_NO_DEVICE",
        UCX,
        "no device of UCX_NET_DEVICES exists where the job runs",
        &["job-settings", "device-not-given", "no-device"],
    ),
    term("UCS_ERR_BUSY", UCX, "the resource is in use", &[]),
    term(
        "UCS_ERR_CANCELED",
        UCX,
        "the request was cancelled, most often after another error",
        &["peer-failed"],
    ),
    term(
        "UCS_ERR_TIMED_OUT",
        UCX,
        "the operation timed out",
        &["peer-unreachable", "fabric-or-peer"],
    ),
    term(
        "UCS_ERR_EXCEEDS_LIMIT",
        UCX,
        "a limit of the device or of the process is exceeded",
        &["hca-resources", "memlock-limit"],
    ),
    term(
        "UCS_ERR_UNSUPPORTED",
        UCX,
        "the device or its library does not support the operation",
        &["userspace-libraries"],
    ),
    term(
        "UCS_ERR_REJECTED",
        UCX,
        "the peer rejected the connection",
        &["connect-refused", "no-listener"],
    ),
    term(
        "UCS_ERR_NOT_CONNECTED",
        UCX,
        "the endpoint is not connected",
        &["peer-failed"],
    ),
    term(
        "UCS_ERR_CONNECTION_RESET",
        UCX,
        "the peer closed the connection or ended",
        &["peer-failed"],
    ),
    term(
        "UCS_ERR_ENDPOINT_TIMEOUT",
        UCX,
        "the peer did not answer: transport retries are used up",
        &["IBV_WC_RETRY_EXC_ERR", "fabric-or-peer"],
    ),
    // The field.
    term(
        "PFC",
        FIELD,
        "priority flow control (IEEE 802.1Qbb): a full receiver pauses one priority of the sender, so that RoCE loses no packets. \
        Adapter, DSCP mapping and every switch must agree on the priority",
        &[
            "roce-flow-control",
            "pfc-unreachable",
            "pause-storm",
            "flow-control",
        ],
    ),
    term(
        "ECN",
        FIELD,
        "explicit congestion notification: a switch marks packets instead of dropping them; the receiver answers with a CNP",
        &["roce-flow-control", "flow-control"],
    ),
    term(
        "CNP",
        FIELD,
        "congestion notification packet of RoCE v2: the receiver of a marked packet asks the sender to slow down (counters np_cnp_sent, \
        rp_cnp_handled). Some are normal; many mean congestion",
        &["roce-flow-control", "flow-control"],
    ),
    term(
        "DCQCN",
        FIELD,
        "the congestion control of RoCE v2 adapters: ECN marks, CNPs, and a rate limit per flow",
        &["roce-flow-control", "flow-control"],
    ),
    term(
        "ACS",
        FIELD,
        "PCIe Access Control Services: with redirection on, a bridge sends traffic between GPU and NIC up to the root complex",
        &["acs-redirect"],
    ),
    term(
        "ATS",
        FIELD,
        "PCIe Address Translation Services: a device caches translations of the IOMMU",
        &["iommu-translation"],
    ),
    term(
        "IOMMU",
        FIELD,
        "the unit that translates the addresses of DMA. RDMA with GPUs needs passthrough (iommu=pt)",
        &["iommu-translation", "iommu-group-translated"],
    ),
    term(
        "GDR",
        FIELD,
        "GPUDirect RDMA: the NIC reads and writes GPU memory itself",
        &["peer-memory-path", "gdr-disabled", "gpu-nic-distance"],
    ),
    term(
        "GPUDirect",
        FIELD,
        "the NIC reads and writes GPU memory itself, through nvidia_peermem or DMA-BUF",
        &["peer-memory-path", "gdr-disabled"],
    ),
    term(
        "DMA-BUF",
        FIELD,
        "the kernel's way to share GPU memory with a NIC, without nvidia_peermem",
        &["peer-memory-path"],
    ),
    term(
        "nvidia_peermem",
        FIELD,
        "the module through which a NIC registers memory of NVIDIA GPUs",
        &["peer-memory-missing", "peer-memory-install-order"],
    ),
    term(
        "memlock",
        FIELD,
        "the limit of memory that a process may lock (RLIMIT_MEMLOCK), which registration needs",
        &["memlock-low", "memlock-limit"],
    ),
    term(
        "GID",
        FIELD,
        "the address of an RDMA port. On RoCE, each IP address has GIDs, and a job chooses one by its index",
        &["gid-missing", "gid-index"],
    ),
    term(
        "PKEY",
        FIELD,
        "the partition key of InfiniBand, which the subnet manager gives to a port",
        &["partition-key-missing"],
    ),
    term(
        "SM",
        FIELD,
        "the subnet manager of InfiniBand, which makes ports ACTIVE",
        &["no-subnet-manager"],
    ),
    term(
        "RNR",
        FIELD,
        "receiver not ready: the receiver had no buffer posted. After as many retries as the queue pair allows, the sender fails",
        &["IBV_WC_RNR_RETRY_EXC_ERR", "peer-failed"],
    ),
    term(
        "CQE",
        FIELD,
        "an entry of a completion queue. With an error it has a status, and on mlx5 a vendor syndrome",
        &["IBV_WC_RETRY_EXC_ERR", "IBV_WC_LOC_PROT_ERR"],
    ),
    term(
        "AER",
        FIELD,
        "PCIe Advanced Error Reporting",
        &["pci-aer-errors", "pci-fault-logged"],
    ),
    term(
        "REJ",
        FIELD,
        "the answer of rdma_cm's peer that rejects a connection; its reason says why",
        &["connect-refused", "no-listener-answered"],
    ),
    term(
        "NCCL WARN",
        FIELD,
        "NCCL's only level for what goes wrong. The text after it says what",
        &[],
    ),
];

/// The reasons of a rejected connection (`enum ib_cm_rej_reason`).
const REJECTIONS: &[(u64, &str, &[&str])] = &[
    (1, "no queue pair is available", &["hca-resources"]),
    (3, "no resources are available", &["hca-resources"]),
    (
        4,
        "timeout: the other end did not answer in time",
        &["fabric-or-peer"],
    ),
    (5, "the request is not supported", &[]),
    (6, "the communication id is not valid", &[]),
    (
        8,
        "invalid service id: no program listens at this address and port",
        &["no-listener-answered", "no-listener"],
    ),
    (9, "the type of transport is not valid", &["connect-incompatible"]),
    (
        10,
        "stale connection: the peer still has an older connection with this queue pair",
        &["peer-failed"],
    ),
    (
        12,
        "the GID of the primary port is not valid",
        &["gid-index", "connect-invalid"],
    ),
    (13, "the LID of the primary port is not valid", &["addressing"]),
    (14, "the service level is not valid", &["addressing"]),
    (17, "the packet rate is not valid", &[]),
    (24, "use another port and another connection manager", &[]),
    (25, "use another port", &[]),
    (26, "the path MTU is not valid", &["mtu", "mtu-differs"]),
    (
        27,
        "the peer has not enough responder resources",
        &["hca-resources"],
    ),
    (
        28,
        "the program of the peer rejected it: read the log of the peer",
        &["peer-failed"],
    ),
    (29, "the number of RNR retries is not valid", &[]),
    (30, "the communication id is used twice", &[]),
];

/// The term with this name, in any case of letters.
pub fn named(text: &str) -> Option<&'static Term> {
    TERMS.iter().find(|term| {
        term.name.eq_ignore_ascii_case(text) || term.name.replace('-', "_").eq_ignore_ascii_case(text)
    })
}

/// An error of libfabric that is one of the C library: `FI_ENOMEM`.
pub(crate) fn of_fabric(text: &str) -> Option<Errno> {
    let upper = text.to_ascii_uppercase();
    strerror::named(upper.strip_prefix("FI_")?)
}

/// The reason of a rejected connection by its number: what it means and what to read next.
pub fn rejection(number: u64) -> Option<(&'static str, &'static [&'static str])> {
    let found = REJECTIONS.iter().find(|(reason, ..)| *reason == number);
    found.map(|(_, meaning, see)| (*meaning, *see))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{cause, symptom::SymptomKind};

    #[test]
    fn terms_are_unique_and_lead_to_names_that_exist() {
        let names: BTreeSet<_> = TERMS.iter().map(|term| term.name.to_ascii_uppercase()).collect();
        assert_eq!(names.len(), TERMS.len());
        let of_terms = TERMS.iter().flat_map(|term| term.see);
        for name in of_terms.chain(REJECTIONS.iter().flat_map(|(.., see)| *see)) {
            let is_known = rdma_health_rules::rule(name).is_some()
                || cause(name).is_some()
                || SymptomKind::named(name).is_some();
            assert!(is_known, "{name}");
        }
    }
}
