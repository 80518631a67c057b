//! Calls that only the libraries of one vendor have: their errors have other reasons than those of the verbs.

use rdma_health_protocol::Errno;

use super::Operation;
use crate::{
    log::line::{after, number},
    symptom::SymptomKind,
};

/// What a failed call in a line in lower case shows if its error says something else than that of the verbs.
pub(in crate::log) fn special(
    lower: &str,
    operation: Operation,
    errno: Option<Errno>,
) -> Option<SymptomKind> {
    of_other_file(lower, operation)
        .or_else(|| experimental(lower, operation, errno))
        .or_else(|| of_kernel(lower, operation, errno))
        .or_else(|| devx(lower, errno?))
        .or_else(|| refused(lower))
        .or_else(|| of_efa_address(lower, errno?))
        .or_else(|| of_transfer(lower, errno?))
        .or_else(|| of_libfabric(lower, operation, errno?))
        .or_else(|| initiator(lower, operation, errno?))
}

/// What a failed call in a line in lower case shows if it is one of the experimental verbs, `ibv_exp_*`, which only the libraries of older
/// MLNX_OFED have: the driver does not know it. What the driver answers to a call that it knows keeps its meaning.
fn experimental(lower: &str, operation: Operation, errno: Option<Errno>) -> Option<SymptomKind> {
    let is_known = match operation {
        Operation::Query | Operation::Open | Operation::Call => false,
        Operation::Harmless => true,
        // Memory of a GPU is refused so, too.
        Operation::Register if errno == Some(Errno::EINVAL) => true,
        _ => matches!(
            errno,
            Some(
                Errno::ENOMEM
                    | Errno::EAGAIN
                    | Errno::EFAULT
                    | Errno::ETIMEDOUT
                    | Errno::EPERM
                    | Errno::EACCES
                    | Errno::EIO
            )
        ),
    };
    (!is_known && lower.contains("ibv_exp_")).then_some(SymptomKind::VersionMismatch)
}

/// A transfer of libfabric for which the provider has no room (ENOMEM): it registers nothing. `fi_write failed: 12(Cannot allocate memory)`.
fn of_transfer(lower: &str, errno: Errno) -> Option<SymptomKind> {
    const CALLS: [&str; 12] = [
        "fi_write",
        "fi_writemsg",
        "fi_read",
        "fi_readmsg",
        "fi_send",
        "fi_sendmsg",
        "fi_tsend",
        "fi_trecv",
        "fi_recv",
        "fi_inject",
        "fi_tinject",
        "fi_atomic",
    ];
    let mut words = lower.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    (errno == Errno::ENOMEM && words.any(|word| CALLS.contains(&word))).then_some(SymptomKind::ResourceLimit)
}

/// An EFA makes no address handle for a peer that it does not reach: in another availability zone, or with an address that is none of EFA.
fn of_efa_address(lower: &str, errno: Errno) -> Option<SymptomKind> {
    let is_one = lower.contains("create_ah") && errno == Errno::EINVAL;
    (is_one && lower.contains("efa")).then_some(SymptomKind::PeerUnreachable)
}

/// A command of `DevX` goes to the firmware of this adapter, which answers a refusal with a syndrome: no packet was sent. DOCA sends the same
/// commands, and reports a refusal as an error of the driver.
fn refused(lower: &str) -> Option<SymptomKind> {
    if lower.contains("doca_verbs_") && lower.contains("doca_error_driver") {
        return Some(SymptomKind::CommandRefused);
    }
    let syndrome = after(lower, "syndrome ").and_then(number)?;
    (syndrome != 0 && lower.contains("mlx5dv_devx_")).then_some(SymptomKind::CommandRefused)
}

/// What the kernel's clients and servers of storage could not get. They allocate memory regions without memory behind them: the adapter has no room for
/// another one.
fn of_kernel(lower: &str, operation: Operation, errno: Option<Errno>) -> Option<SymptomKind> {
    let is_full = errno.is_none_or(|errno| errno == Errno::ENOMEM);
    if is_full && lower.contains("ib_alloc_mr") {
        return Some(SymptomKind::ResourceLimit);
    }
    // No memlock limit holds for the queues of the kernel's own connections.
    let is_of_storage = ["nvmet_rdma: ", "nvme nvme", "isert: ", "svcrdma: ", "ib_srpt: "]
        .iter()
        .any(|name| lower.contains(name));
    let is_short = errno == Some(Errno::ENOMEM) && operation == Operation::CmConnect;
    (is_short && is_of_storage).then_some(SymptomKind::HostMemory)
}

/// An object of `DevX` has its memory registered before it is created: for the object itself the adapter, or its driver, has no room. A call
/// that the driver does not know is one of a newer library.
fn devx(lower: &str, errno: Errno) -> Option<SymptomKind> {
    match errno {
        Errno::ENOMEM if lower.contains("devx_obj_create") => Some(SymptomKind::ResourceLimit),
        // Doorbells for the CPU: those for a GPU fail so without the settings of its driver.
        Errno::ENOMEM if lower.contains("devx_alloc_uar") && !is_of_gpu(lower) => {
            Some(SymptomKind::ResourceLimit)
        }
        Errno::EPROTONOSUPPORT if lower.contains("mlx5dv_") => Some(SymptomKind::VersionMismatch),
        _ => None,
    }
}

/// Whether a program reports it that lets a GPU ring the doorbells of the adapter.
fn is_of_gpu(lower: &str) -> bool {
    let is_program = ["ibgda", "gdaki", "nvshmem", "deep_ep", "deepep"]
        .iter()
        .any(|name| lower.contains(name));
    is_program && !lower.contains("uar space")
}

/// A provider of libfabric does not have what its caller asks for. Of the verbs' devices the same number shows that the kernel has no module for them.
fn of_libfabric(lower: &str, operation: Operation, errno: Errno) -> Option<SymptomKind> {
    let is_one = || {
        ["net/ofi", "libfabric", "fi_domain", "fi_fabric"]
            .iter()
            .any(|name| lower.contains(name))
    };
    (operation == Operation::Open && errno == Errno::ENOSYS && is_one()).then_some(SymptomKind::BackendFailed)
}

/// The device of a module that copies memory between the processes of a node, and has nothing to do with RDMA.
fn of_other_file(lower: &str, operation: Operation) -> Option<SymptomKind> {
    const FILES: [&str; 3] = ["/dev/knem", "/dev/xpmem", "/dev/cma"];
    let is_one = || FILES.iter().any(|file| lower.contains(file));
    (matches!(operation, Operation::Open | Operation::Call) && is_one()).then_some(SymptomKind::Unrecognised)
}

/// The initiator of a dynamically connected transport (DCI) gets its peer with each request, so that no GID, address or MTU of a path makes
/// its transitions fail: the driver does not know what the library of another release sets.
fn initiator(lower: &str, operation: Operation, errno: Errno) -> Option<SymptomKind> {
    let is_one = || {
        ["(dci", " dci ", "dci qp", "dci:"]
            .iter()
            .any(|name| lower.contains(name))
    };
    (operation == Operation::Connect && errno == Errno::EINVAL && is_one())
        .then_some(SymptomKind::VersionMismatch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_vendor_calls_have_their_own_reasons() {
        use SymptomKind as K;
        for (line, operation, errno, expected) in [
            (
                "ibv_modify_qp(dci, rtr) failed",
                Operation::Connect,
                Errno::EINVAL,
                Some(K::VersionMismatch),
            ),
            (
                "ibv_modify_qp(dci, init) failed",
                Operation::Connect,
                Errno::EACCES,
                None,
            ),
            (
                "ibv_modify_qp(dct, rtr) failed",
                Operation::Connect,
                Errno::EINVAL,
                None,
            ),
            (
                "ibv_modify_qp(rc, rtr) failed",
                Operation::Connect,
                Errno::EINVAL,
                None,
            ),
            (
                "mlx5dv_devx_obj_create(cq) failed",
                Operation::Create,
                Errno::ENOMEM,
                Some(K::ResourceLimit),
            ),
            (
                "mlx5dv_devx_obj_create(qp) failed",
                Operation::Create,
                Errno::EINVAL,
                None,
            ),
            ("ibv_create_qp failed", Operation::Create, Errno::ENOMEM, None),
        ] {
            assert_eq!(special(line, operation, Some(errno)), expected, "{line}");
        }
    }
}
