//! Declarations that are missing or wrong in `rdma-sys`, and checks of the layouts that this crate relies on.

use std::mem::{offset_of, size_of};

use rdma_sys::{ibv_context, ibv_gid_entry, ibv_port_attr, verbs_context};

unsafe extern "C" {
    /// `verbs.h`: fills up to `max_entries` entries in use, of all ports of the device, and returns how many, or
    /// a negative errno. `flags` must be 0. Falls back on sysfs by itself where the kernel has no such call.
    pub(super) fn _ibv_query_gid_table(
        context: *mut ibv_context,
        entries: *mut ibv_gid_entry,
        max_entries: usize,
        flags: u32,
        entry_size: usize,
    ) -> isize;
}

/// The type of `verbs_context.query_port`.
pub(super) type QueryPort = unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> i32;

/// `verbs_get_ctx_op(context, query_port)` of `verbs.h`.
///
/// `rdma-sys` 0.3 has this inline function too, but compares the marker with `u32::MAX` in place of
/// `UINTPTR_MAX`: on 64-bit machines it never matches, and its `ibv_query_port` is then the legacy symbol, which
/// leaves `flags` and `port_cap_flags2` unset.
///
/// # Safety
/// `context` points to a context that `ibv_open_device` returned and that is still open.
pub(super) unsafe fn query_port_op(context: *mut ibv_context) -> Option<QueryPort> {
    // SAFETY: the caller vouches for `context`.
    if unsafe { (*context).abi_compat }.addr() != usize::MAX {
        return None;
    }
    // SAFETY: the marker says that `context` is the last member of a `verbs_context`, so that the outer structure
    // starts this many bytes before it, in the same allocation.
    let outer = unsafe { context.byte_sub(offset_of!(verbs_context, context)) }.cast::<verbs_context>();
    // The structure grows at its front: `sz` says how much of it the library has. (No reference is made to it:
    // its front may not exist.)
    let needed = size_of::<verbs_context>() - offset_of!(verbs_context, query_port);
    // SAFETY: `sz` stands right before `context`, in every version of the structure.
    if unsafe { (*outer).sz } < needed {
        return None;
    }
    // SAFETY: `sz` has just said that the member exists.
    unsafe { (*outer).query_port }
}

// The layouts of verbs.h on 64-bit Linux; a test below compares them and more with a C compiler's.
const _: () = {
    assert!(size_of::<ibv_gid_entry>() == 32);
    assert!(offset_of!(ibv_gid_entry, gid_index) == 16);
    assert!(offset_of!(ibv_gid_entry, ndev_ifindex) == 28);
    assert!(size_of::<ibv_port_attr>() == 52);
    assert!(offset_of!(ibv_port_attr, link_layer) == 46);
    assert!(offset_of!(ibv_port_attr, flags) == 47);
    assert!(size_of::<rdma_sys::ibv_wc>() == 48);
    assert!(size_of::<rdma_sys::ibv_send_wr>() == 128);
    assert!(size_of::<rdma_sys::ibv_sge>() == 16);
    assert!(size_of::<rdma_sys::ibv_ah_attr>() == 32);
    assert!(size_of::<rdma_sys::ibv_qp_attr>() == 144);
    assert!(size_of::<rdma_sys::ibv_async_event>() == 16);
};

#[cfg(test)]
mod tests {
    use std::{fmt::Write as _, io::Write as _, process};

    use super::*;

    /// Lines of C that fail to compile where `verbs.h` and the Rust side disagree.
    macro_rules! asserts {
        ($($t:ident { $($f:ident)* })*) => {{
            let mut c = String::from("#include <stddef.h>\n#include <infiniband/verbs.h>\n");
            $(
                let name = stringify!($t);
                let size = size_of::<rdma_sys::$t>();
                writeln!(c, "_Static_assert(sizeof(struct {name}) == {size}, \"{name}\");").unwrap();
                $(
                    let (field, at) = (stringify!($f), offset_of!(rdma_sys::$t, $f));
                    writeln!(c, "_Static_assert(offsetof(struct {name}, {field}) == {at}, \"{name}.{field}\");")
                        .unwrap();
                )*
            )*
            c
        }};
    }

    #[test]
    fn layouts_agree_with_the_c_header() {
        let source = asserts! {
            ibv_gid_entry { gid gid_index port_num gid_type ndev_ifindex }
            ibv_port_attr { state gid_tbl_len max_msg_sz lid sm_lid phys_state link_layer flags port_cap_flags2 }
            ibv_device_attr { fw_ver node_guid max_mr_size vendor_id vendor_part_id phys_port_cnt }
            ibv_wc { wr_id status opcode vendor_err byte_len qp_num wc_flags dlid_path_bits }
            ibv_sge { addr length lkey }
            ibv_send_wr { wr_id next sg_list num_sge opcode send_flags wr qp_type }
            ibv_global_route { dgid flow_label sgid_index hop_limit traffic_class }
            ibv_ah_attr { grh dlid sl src_path_bits static_rate is_global port_num }
            ibv_qp_attr { qp_state path_mtu rq_psn dest_qp_num qp_access_flags ah_attr port_num timeout rate_limit }
            ibv_qp_init_attr { send_cq recv_cq cap qp_type sq_sig_all }
            ibv_async_event { element event_type }
            ibv_mr { lkey rkey }
            ibv_device { node_type transport_type name dev_name }
            ibv_context { async_fd abi_compat }
            verbs_context { query_port sz context }
        };
        // A missing compiler is a failure: without it nothing compares the Rust side with the header.
        let mut compiler = process::Command::new("cc")
            .args(["-xc", "-fsyntax-only", "-"])
            .stdin(process::Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("the C compiler cc cannot be run ({error}): install gcc (make setup)")
            });
        let mut input = compiler.stdin.take().unwrap();
        input.write_all(source.as_bytes()).unwrap();
        drop(input);
        assert!(
            compiler.wait().unwrap().success(),
            "verbs.h of libibverbs-dev is missing or differs from the Rust side (see the compiler's errors):\n{source}"
        );
    }
}
