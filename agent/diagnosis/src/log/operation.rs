//! The verbs or connection-manager operation that a line is about, whatever the program that wrote it.

mod meaning;
mod object;
mod place;
mod undo;
mod vendor;

use std::sync::LazyLock;

pub(crate) use self::meaning::failed_operations;
use self::place::{is_longer, is_place, is_source, names_argument};
pub(super) use self::{object::creates_handle, undo::ends_object, vendor::special};
use super::{
    grade::provider::refusal,
    phrases::{Occurrence, Phrases},
};

/// What a program tried to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Register memory.
    Register,
    /// Create a queue pair, a completion queue or what they need.
    Create,
    /// Move a queue pair to RTR or RTS, or create an address handle.
    Connect,
    /// List or open devices.
    Open,
    /// Open the device of `rdma_cm`.
    CmOpen,
    /// Find the RDMA device for an address, or bind to it.
    CmAddress,
    /// Find the route to a peer.
    CmRoute,
    /// Connect through `rdma_cm`.
    CmConnect,
    /// Post a work request to a queue.
    Post,
    /// Ask a device what it supports.
    Query,
    /// Query a GID.
    Gid,
    /// Find a partition key.
    Pkey,
    /// Map the adapter's doorbells or queues into a GPU.
    GpuDoorbell,
    /// Any other call of libibverbs.
    Call,
    /// Cleaning up, or an optional feature: its failure has no consequence of its own.
    Harmless,
}

/// Phrases in lower case, the most specific first.
const PHRASES: &[(&str, Operation)] = {
    use Operation::{
        Call, CmAddress, CmConnect, CmOpen, CmRoute, Connect, Create, Gid, GpuDoorbell, Harmless, Open, Post,
        Query, Register,
    };
    &[
        // Optional features, and calls of the way out.
        ("query_ece", Harmless),
        ("set_ece", Harmless),
        ("fork_init", Harmless),
        ("close_device", Harmless),
        ("dealloc_", Harmless),
        ("dereg_mr", Harmless),
        ("ibv_destroy_", Harmless),
        ("rdma_destroy_", Harmless),
        ("advise_mr", Harmless),
        ("unregister mem", Harmless),
        ("unregister mr", Harmless),
        ("unregister local mem", Harmless),
        ("unregister the mem", Harmless),
        ("unregister chunk", Harmless),
        ("destroy completion", Harmless),
        ("destroy the completion", Harmless),
        ("destroy cq", Harmless),
        ("destroy qp", Harmless),
        ("destroy queue pair", Harmless),
        ("deallocate protection domain", Harmless),
        ("deregister mem", Harmless),
        ("deregister mr", Harmless),
        ("deregister the mem", Harmless),
        ("qp to err", Harmless),
        ("qp->err", Harmless),
        ("qp to reset", Harmless),
        // Over which port of a bond, or by which path of the network, a queue pair sends: it sends in any case.
        ("modify_qp_lag_port", Harmless),
        ("modify_qp_udp_sport", Harmless),
        ("close device", Harmless),
        ("set_rnr_timer", Harmless),
        ("post_send", Post),
        ("fi_write", Post),
        ("fi_read", Post),
        ("fi_send", Post),
        ("fi_tsend", Post),
        ("fi_inject", Post),
        ("fi_recv", Post),
        ("fi_trecv", Post),
        ("posting rdma", Post),
        ("posting send", Post),
        ("posting recv", Post),
        ("posting a", Post),
        ("post a send", Post),
        ("post a recv", Post),
        ("post a receive", Post),
        ("post a request", Post),
        ("post_recv", Post),
        ("post_srq", Post),
        ("post srq", Post),
        ("post to srq", Post),
        ("post send", Post),
        ("post recv", Post),
        // Registration of memory.
        ("ibv_reg_", Register),
        ("ibv_exp_reg_", Register),
        ("reg_mr", Register),
        ("mr_reg", Register),
        ("mem_reg", Register),
        ("ucp_mem_map", Register),
        ("reg mr", Register),
        ("mr mr", Register),
        ("mr registration", Register),
        ("registration of mr", Register),
        ("registering mr", Register),
        ("buffer registration", Register),
        ("registering buffer", Register),
        ("register mr", Register),
        ("register memory", Register),
        ("register the memory", Register),
        ("register gpu", Register),
        ("register dma", Register),
        ("register buffer", Register),
        ("register region", Register),
        ("registering memory", Register),
        ("register local memory", Register),
        ("memory registration", Register),
        ("mem registration", Register),
        ("registration of memory", Register),
        ("allocate mr", Register),
        ("allocating mr", Register),
        ("create mr", Register),
        ("create an mr", Register),
        ("creating an mr", Register),
        ("register rdma memory", Register),
        ("alloc_mr", Register),
        ("memory region failed", Register),
        ("memory region error", Register),
        ("cxil_map", Register),
        ("lock pages", Register),
        ("pin pages", Register),
        ("pin memory", Register),
        ("pinning memory", Register),
        ("register_memory", Register),
        ("registermemory", Register),
        ("register local buffer", Register),
        ("memoryregion failed", Register),
        ("registerrdma", Register),
        ("fi_mr_reg", Register),
        ("fi_mr_bind", Register),
        ("fi_mr_enable", Register),
        ("fi_mr_refresh", Register),
        // libfabric binds a region to an endpoint and enables it, where a provider asks for it.
        ("bind mr", Register),
        ("binding mr", Register),
        ("enable mr", Register),
        ("enabling mr", Register),
        // Connection of a queue pair.
        ("modify_qp", Connect),
        ("modifyqp", Connect),
        ("->rtr", Connect),
        ("->rts", Connect),
        ("-> rtr", Connect),
        ("-> rts", Connect),
        ("modify qp", Connect),
        ("modify the qp", Connect),
        ("modify queue pair", Connect),
        ("qp to state", Connect),
        ("modifying qp", Connect),
        ("attributes of a queue pair", Connect),
        ("create_ah", Connect),
        ("create ah", Connect),
        ("address handle", Connect),
        ("init2rtr", Connect),
        ("rtr2rts", Connect),
        ("to rtr", Connect),
        ("to rts", Connect),
        ("qp to init", Connect),
        ("init qp", Connect),
        ("initialize qp", Connect),
        ("connect the hca", Connect),
        ("connect qp", Connect),
        // IBGDA: the doorbells of the adapter in the address space of the GPU.
        ("devx_uar", GpuDoorbell),
        ("devx_alloc_uar", GpuDoorbell),
        ("ibgda_nic_handler", GpuDoorbell),
        // NVIDIA's DOCA, which NCCL and NVSHMEM use for communication that the GPU starts.
        ("doca_verbs_qp_modify", Connect),
        ("doca_verbs_qp_create", Create),
        ("doca_verbs_cq_create", Create),
        ("doca_verbs_srq_create", Create),
        ("doca_gpu_verbs_create", Create),
        ("doca_uar_create", GpuDoorbell),
        ("doca_umem_gpu_create", GpuDoorbell),
        // libfabric resolves the address of a peer.
        ("into address vector", Connect),
        ("av_insert", Connect),
        ("insert remote address", Connect),
        // librdmacm looks for the device of the address first.
        ("rdma_create_ep", CmAddress),
        // Queues.
        ("create_qp", Create),
        ("create_cq", Create),
        ("create_srq", Create),
        ("create_dct", Create),
        ("create_comp_channel", Create),
        ("create comp channel", Create),
        ("completion channel failed", Create),
        ("resize completion queue", Create),
        ("resize_cq", Create),
        ("adjust_cq", Create),
        ("alloc_pd", Create),
        ("alloc_td", Create),
        ("devx_obj_create", Create),
        ("devx_create_event_channel", Create),
        ("devx_umem_reg", Create),
        ("create a queue pair", Create),
        ("create queue pair", Create),
        ("create qp", Create),
        ("create rc qp", Create),
        ("create ud qp", Create),
        ("create dc qp", Create),
        ("create uc qp", Create),
        ("create srd qp", Create),
        ("create xrc", Create),
        ("create tm xrq", Create),
        ("create xrq", Create),
        ("create_xrq", Create),
        ("create dci", Create),
        ("creating qp", Create),
        ("creating rdma queue", Create),
        ("create cq", Create),
        ("create send cq", Create),
        ("create recv cq", Create),
        ("creating cq", Create),
        ("create srq", Create),
        ("create shared receive queue", Create),
        ("resize the completion queue", Create),
        ("create dct", Create),
        ("create completion queue", Create),
        ("allocate protection domain", Create),
        ("new protection domain", Create),
        ("allocate pd", Create),
        ("alloc pd", Create),
        ("create_ep", Create),
        // libfabric's objects over queues.
        ("open av", Create),
        ("open cq", Create),
        ("open eq", Create),
        ("open ep", Create),
        ("open endpoint", Create),
        ("allocate endpoint", Create),
        ("allocate a new endpoint", Create),
        ("create endpoint", Create),
        ("enable ep", Create),
        ("enable endpoint", Create),
        ("bind ep", Create),
        ("bind endpoint", Create),
        ("binding endpoint", Create),
        ("address vector", Create),
        ("fi_endpoint", Create),
        ("fi_scalable_ep", Create),
        ("fi_av_open", Create),
        ("fi_cq_open", Create),
        ("fi_enable", Create),
        ("fi_ep_bind", Create),
        ("creating new endpoint", Create),
        // rdma_cm.
        ("rdma_create_event_channel", CmOpen),
        ("rdma_create_id", CmOpen),
        ("event channel failed", CmOpen),
        ("infiniband/rdma_cm", CmOpen),
        ("rdma_resolve_addr", CmAddress),
        ("rdma_bind_addr", CmAddress),
        // SPDK's wrappers of librdmacm; targets of the kernel.
        ("rdma_cm_bind_addr", CmAddress),
        // The examples of librdmacm.
        ("bind address failed", CmAddress),
        ("rdma_cm_listen", CmAddress),
        ("rdma_cm_resolve_addr", CmAddress),
        ("rdma_cm_create_event_channel", CmOpen),
        ("rdma_cm_get_devices", Open),
        ("binding cm id", CmAddress),
        ("binding rdma/cm id", CmAddress),
        ("bind rdma addr", CmAddress),
        ("rdma listen", CmAddress),
        ("bind network portal", CmAddress),
        ("rdma_getaddrinfo", CmAddress),
        ("resolve addr", CmAddress),
        ("resolving addr", CmAddress),
        ("address resolution", CmAddress),
        ("rdma_resolve_route", CmRoute),
        ("resolve route", CmRoute),
        ("route resolution", CmRoute),
        ("rdma_connect", CmConnect),
        // Sockets over RDMA (rsockets), whose calls begin with an r.
        ("rconnect:", CmConnect),
        ("rconnect()", CmConnect),
        ("rpcrdma_ep_connect", CmConnect),
        ("rdma_accept", CmConnect),
        ("rdma_listen", CmAddress),
        ("rdma listen", CmAddress),
        ("rdma connect", CmConnect),
        ("rdma connection", CmConnect),
        ("connect to remote", CmConnect),
        // GIDs.
        ("query_gid", Gid),
        ("query gid", Gid),
        ("get gid", Gid),
        ("gid index", Gid),
        ("gid_index", Gid),
        ("find gid", Gid),
        ("rocegetversionnum", Gid),
        ("roce_get_version_num", Gid),
        // Devices.
        ("open_device", Open),
        ("open device", Open),
        ("open the device", Open),
        ("open ib device", Open),
        ("opening device", Open),
        ("open rdma device", Open),
        ("context for the device", Open),
        ("infiniband/uverbs", Open),
        ("get_device_list", Open),
        ("device list", Open),
        ("devices list", Open),
        ("list devices", Open),
        ("umad port", Open),
        ("query_port", Query),
        ("query port", Query),
        ("port_query", Query),
        ("query_device", Query),
        ("query device", Query),
        ("device attributes", Query),
        ("query global device", Query),
        ("rdma_open_hca", Open),
        ("domain_open", Open),
        ("domain_init", Open),
        ("fi_domain", Open),
        ("fi_fabric", Open),
        ("open domain", Open),
        ("open a fabric", Open),
        ("fabric access domain", Open),
        ("alloc_context", Open),
        ("assign_context", Open),
        ("userinit", Open),
        ("context_open", Open),
        ("ibv_", Call),
        ("mlx5dv_", Call),
        ("rdma_", Call),
    ]
};

/// What a program says of an operation that it has not tried yet.
const MAY_FAIL: [&str; 3] = [" may fail", " might fail", " could fail"];

static OPERATIONS: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::new(PHRASES.iter().map(|(phrase, _)| *phrase)));

/// The operation in a line in lower case, and where its name begins.
pub(super) fn operation(lower: &str) -> Option<(Operation, usize)> {
    // The name of the function in which a provider refused its caller is not what failed.
    if refusal(lower).is_some() {
        return None;
    }
    // `… failed (22); GPU memory registration may fail` says what may come.
    let lower = match lower.rsplit_once(';') {
        Some((before, after)) if MAY_FAIL.iter().any(|words| after.contains(words)) => before,
        _ => lower,
    };
    let is_name = |found: &Occurrence| {
        // `hibv_` is not a call.
        let is_prefix = PHRASES
            .get(found.index)
            .is_some_and(|(phrase, _)| phrase.ends_with('_'));
        let before = found
            .start
            .checked_sub(1)
            .and_then(|before| lower.as_bytes().get(before));
        // `sgid_index=3` is a value in a description, `fails with the default GID index` names what was in use.
        let is_value = PHRASES
            .get(found.index)
            .is_some_and(|(phrase, _)| phrase.ends_with("index"))
            && (lower[found.end..].starts_with('=')
                || [" with", " default"]
                    .iter()
                    .any(|word| lower[..found.start].trim_end().ends_with(word)));
        !(is_prefix && before.is_some_and(u8::is_ascii_alphanumeric)
            || is_value
            || PHRASES
                .get(found.index)
                .is_some_and(|(phrase, _)| is_longer(phrase, &lower[found.end..]))
            || is_source(lower, *found))
    };
    // A part of the end of an object, or of what does not matter, fails with it.
    let is_harmless = |found: &Occurrence| {
        let is_one = PHRASES
            .get(found.index)
            .is_some_and(|(_, operation)| *operation == Operation::Harmless);
        is_one && is_place(lower, *found)
    };
    if let Some(found) = OPERATIONS.find(lower).filter(is_name).find(is_harmless) {
        return Some((Operation::Harmless, found.start));
    }
    let found = OPERATIONS
        .find(lower)
        .filter(is_name)
        .min_by_key(|found| (is_place(lower, *found), found.index, found.start));
    let found = found.filter(|found| !(is_place(lower, *found) && names_argument(lower, found.end)));
    let named = found.and_then(|found| {
        let is_undone = undo::is_undone(lower, found.start, found.end);
        let operation = PHRASES.get(found.index)?.1;
        Some((
            if is_undone { Operation::Harmless } else { operation },
            found.start,
        ))
    });
    let named = match named {
        // The beginning of a name says less than the words of the rest.
        None | Some((Operation::Call, _)) => object::find(lower).or(named),
        named => named,
    };
    named.map(|(operation, at)| {
        let ends = operation == Operation::Connect && undo::ends_queue(lower);
        (if ends { Operation::Harmless } else { operation }, at)
    })
}
