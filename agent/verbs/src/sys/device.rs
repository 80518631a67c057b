//! The device list.

use std::{ffi::CStr, marker::PhantomData, ptr::NonNull};

use rdma_sys::{
    ibv_device, ibv_free_device_list, ibv_get_device_guid, ibv_get_device_list, ibv_get_device_name,
    ibv_open_device, ibv_transport_type,
};

use super::{Context, Error};
use crate::nodes;

/// The devices that libibverbs finds (`ibv_get_device_list`); the library rereads them for each list.
#[derive(Debug)]
pub struct DeviceList {
    list: NonNull<*mut ibv_device>,
    len: usize,
}

impl DeviceList {
    /// Reads the list.
    ///
    /// # Errors
    /// `ENOSYS` if the kernel has no uverbs (`ib_uverbs` is not loaded), `ENOMEM`, `EPERM`.
    pub fn read() -> Result<Self, Error> {
        let mut count = 0;
        // SAFETY: `count` is a valid place to write to for the time of the call.
        let list = unsafe { ibv_get_device_list(&raw mut count) };
        let list = NonNull::new(list).ok_or_else(|| Error::last("ibv_get_device_list"))?;
        Ok(Self {
            list,
            len: usize::try_from(count).unwrap_or(0),
        })
    }

    /// The devices, in the library's order.
    pub fn iter(&self) -> impl Iterator<Item = Device<'_>> {
        // SAFETY: the library returned an array of `len` pointers (and a null behind them), which stays valid
        // until `drop`.
        let devices = unsafe { std::slice::from_raw_parts(self.list.as_ptr(), self.len) };
        devices.iter().filter_map(|&raw| {
            Some(Device {
                raw: NonNull::new(raw)?,
                list: PhantomData,
            })
        })
    }

    /// The device with this name.
    pub fn find(&self, name: &str) -> Option<Device<'_>> {
        self.iter().find(|device| device.name() == name)
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `ibv_get_device_list` and is freed once; no `Device` outlives the list, and
        // open contexts hold the library's own reference to their device.
        unsafe { ibv_free_device_list(self.list.as_ptr()) }
    }
}

/// A device in a [`DeviceList`].
#[derive(Debug, Clone, Copy)]
pub struct Device<'list> {
    raw: NonNull<ibv_device>,
    list: PhantomData<&'list DeviceList>,
}

impl Device<'_> {
    /// The kernel's name for it, as in `/sys/class/infiniband`.
    pub fn name(&self) -> String {
        // SAFETY: the device lives as long as its list.
        let name = unsafe { ibv_get_device_name(self.raw.as_ptr()) };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: the name is a C string inside the device, which lives as long as its list.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// The name of its device node, as in `/dev/infiniband` and `/sys/class/infiniband_verbs` (`uverbs0`).
    pub fn uverbs(&self) -> String {
        // SAFETY: the device lives as long as its list, and no code writes to it.
        let name = unsafe { &(*self.raw.as_ptr()).dev_name };
        until_nul(name)
    }

    /// Whether it speaks iWARP, whose queue pairs only a connection manager can connect.
    pub fn is_iwarp(&self) -> bool {
        // SAFETY: the device lives as long as its list, and no code writes to it.
        let transport = unsafe { (*self.raw.as_ptr()).transport_type };
        transport == ibv_transport_type::IBV_TRANSPORT_IWARP
    }

    /// The node GUID in host byte order.
    pub fn node_guid(&self) -> u64 {
        // SAFETY: the device lives as long as its list.
        u64::from_be(unsafe { ibv_get_device_guid(self.raw.as_ptr()) })
    }

    /// Opens it.
    ///
    /// # Errors
    /// `EACCES`, `ENOENT` or `ENODEV` for the device node, `ENOMEM`, or any other error of the provider.
    pub fn open(&self) -> Result<Context, Error> {
        // SAFETY: the device lives as long as its list; the context takes its own reference.
        let raw = unsafe { ibv_open_device(self.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let error = Error::last("ibv_open_device");
            // If opening the node is not permitted, the library searches for another path and reports that the node is
            // missing.
            let errno = nodes::why_closed(&self.uverbs()).unwrap_or(error.errno);
            Error { errno, ..error }
        })?;
        // SAFETY: the context was just opened and has no other owner.
        Ok(unsafe { Context::own(raw) })
    }
}

/// The text in a C character array, up to its first NUL or its end.
pub(super) fn until_nul(array: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = array
        .iter()
        .map(|c| c.to_ne_bytes()[0])
        .take_while(|&b| b != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::until_nul;

    #[test]
    fn a_c_array_ends_at_its_nul_or_at_its_end() {
        let array = b"20.1\0junk".map(|b| std::ffi::c_char::from_ne_bytes([b]));
        assert_eq!(until_nul(&array), "20.1");
        assert_eq!(until_nul(&array[..2]), "20");
    }
}
