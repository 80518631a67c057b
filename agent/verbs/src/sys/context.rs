//! An open device, its attributes and those of its ports.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
    ptr::NonNull,
    sync::Arc,
};

use rdma_sys::{
    ibv_close_device, ibv_context, ibv_device_attr, ibv_port_attr, ibv_query_device, ibv_query_port,
};

use super::{Error, device::until_nul, ffi};

/// An open device (`struct ibv_context`). Clones share it; it closes with the last clone and the last object that depends on
/// it.
#[derive(Debug, Clone)]
pub struct Context(Arc<Open>);

#[derive(Debug)]
struct Open(NonNull<ibv_context>);

// SAFETY: verbs on a context may be called from any thread, at the same time (`ibv_open_device`(3) and the
// libibverbs documentation: "fully thread-safe"). Objects whose providers may leave their locks out (queues) are not
// `Send` nor `Sync` themselves.
unsafe impl Send for Open {}
// SAFETY: as above; and nothing here hands out a reference into the structure.
unsafe impl Sync for Open {}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: the context is open, and this is its last owner: every object made from it holds a clone of the
        // `Arc`. The result is of no use: there is nothing left to undo.
        let _ = unsafe { ibv_close_device(self.0.as_ptr()) };
    }
}

/// The result of `ibv_query_device`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// Firmware version; empty if the driver reports none.
    pub firmware: String,
    /// Node GUID in host byte order.
    pub node_guid: u64,
    /// Largest memory region in bytes.
    pub max_mr_size: u64,
    /// PCI vendor id as the driver reports it.
    pub vendor_id: u32,
    /// Vendor's part id.
    pub vendor_part_id: u32,
    /// Number of ports; port numbers start at 1.
    pub ports: u8,
}

/// The result of `ibv_query_port`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortAttributes {
    /// `ibv_port_state`: 4 is ACTIVE.
    pub state: u32,
    /// Physical state: 5 is LinkUp.
    pub phys_state: u8,
    /// 1 InfiniBand, 2 Ethernet, 0 unspecified (InfiniBand).
    pub link_layer: u8,
    /// `ibv_mtu` code of the active path MTU: 1 is 256 bytes, 5 is 4096.
    pub active_mtu: u32,
    /// `ibv_mtu` code of the largest path MTU.
    pub max_mtu: u32,
    /// Base LID; 0 on Ethernet.
    pub lid: u16,
    /// LID of the subnet manager.
    pub sm_lid: u16,
    /// Size of the GID table in entries.
    pub gid_table_len: u32,
    /// Largest message in bytes.
    pub max_message: u32,
    /// `IBV_QPF_GRH_REQUIRED`: addresses must carry a global route header even on InfiniBand (virtual functions).
    pub grh_required: bool,
}

impl PortAttributes {
    /// Whether the port is Ethernet (RoCE or iWARP).
    pub fn is_ethernet(&self) -> bool {
        self.link_layer == LINK_LAYER_ETHERNET
    }
}

impl Context {
    /// Takes over an open context.
    ///
    /// # Safety
    /// `raw` came from `ibv_open_device`, is open, and no other code closes it.
    pub(super) unsafe fn own(raw: NonNull<ibv_context>) -> Self {
        Self(Arc::new(Open(raw)))
    }

    /// The pointer, for calls made while this context is borrowed or owned.
    pub(super) fn raw(&self) -> *mut ibv_context {
        self.0.0.as_ptr()
    }

    /// The descriptor on which asynchronous events arrive.
    pub(super) fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open, and the library sets `async_fd` at open and never changes it.
        let fd = unsafe { (*self.raw()).async_fd };
        // SAFETY: the library keeps the descriptor open until the context closes, which the borrow prevents.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// The device's attributes.
    ///
    /// # Errors
    /// `EIO` or `ENODEV` if the device has disappeared, or any other error of the driver.
    pub fn attributes(&self) -> Result<DeviceAttributes, Error> {
        let mut attributes = MaybeUninit::<ibv_device_attr>::zeroed();
        // SAFETY: the context is open, and the place is as large as the structure the call fills.
        let result = unsafe { ibv_query_device(self.raw(), attributes.as_mut_ptr()) };
        Error::check("ibv_query_device", result)?;
        // SAFETY: the structure was zeroed first, and all its members are integers.
        let attributes = unsafe { attributes.assume_init() };
        Ok(DeviceAttributes {
            firmware: until_nul(&attributes.fw_ver),
            node_guid: u64::from_be(attributes.node_guid),
            max_mr_size: attributes.max_mr_size,
            vendor_id: attributes.vendor_id,
            vendor_part_id: attributes.vendor_part_id,
            ports: attributes.phys_port_cnt,
        })
    }

    /// The attributes of a port; port numbers start at 1.
    ///
    /// # Errors
    /// `EINVAL` if the port does not exist, `EIO` or `ENODEV` if the device has disappeared.
    pub fn port(&self, number: u8) -> Result<PortAttributes, Error> {
        let mut attributes = MaybeUninit::<ibv_port_attr>::zeroed();
        let place = attributes.as_mut_ptr();
        // SAFETY: the context is open.
        let extended = unsafe { ffi::query_port_op(self.raw()) };
        let result = match extended {
            // SAFETY: the context is open, and the place is as large as is said.
            Some(query) => unsafe { query(self.raw(), number, place, size_of::<ibv_port_attr>()) },
            // SAFETY: the context is open; the legacy symbol writes the older, shorter structure, which is a prefix
            // of this one. What it does not write stays zero.
            None => unsafe { ibv_query_port(self.raw(), number, place.cast()) },
        };
        Error::check("ibv_query_port", result)?;
        // SAFETY: the structure was zeroed first, and all its members are integers.
        let attributes = unsafe { attributes.assume_init() };
        Ok(PortAttributes {
            state: attributes.state,
            phys_state: attributes.phys_state,
            link_layer: attributes.link_layer,
            active_mtu: attributes.active_mtu,
            max_mtu: attributes.max_mtu,
            lid: attributes.lid,
            sm_lid: attributes.sm_lid,
            gid_table_len: u32::try_from(attributes.gid_tbl_len).unwrap_or(0),
            max_message: attributes.max_msg_sz,
            grh_required: extended.is_some() && attributes.flags & QPF_GRH_REQUIRED != 0,
        })
    }
}

/// `IBV_LINK_LAYER_ETHERNET` in `verbs.h`.
const LINK_LAYER_ETHERNET: u8 = 2;

/// `IBV_QPF_GRH_REQUIRED` in `verbs.h`.
const QPF_GRH_REQUIRED: u8 = 1;

impl AsFd for Context {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.async_fd()
    }
}
