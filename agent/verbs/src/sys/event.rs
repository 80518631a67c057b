//! Asynchronous events.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
};

use rdma_sys::{ibv_ack_async_event, ibv_async_event, ibv_get_async_event};
use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
};

use super::{Context, Error};

/// The stream of a context's asynchronous events. Reading never waits; `poll(2)` on its descriptor does.
#[derive(Debug)]
pub struct AsyncEvents(Context);

/// One event (`struct ibv_async_event`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawEvent {
    /// `ibv_event_type` as a number, because kernels have more of them than the header.
    pub kind: u32,
    /// The port number for events of a port; meaningless for other events.
    pub port: i32,
}

impl AsyncEvents {
    /// Makes the context's event descriptor non-blocking.
    ///
    /// # Errors
    /// What `fcntl`(2) fails with.
    pub fn new(context: Context) -> Result<Self, Error> {
        let fd = context.async_fd();
        let set = fcntl_getfl(fd).and_then(|flags| fcntl_setfl(fd, flags | OFlags::NONBLOCK));
        set.map_err(|errno| Error {
            call: "fcntl",
            errno: errno.raw_os_error(),
        })?;
        Ok(Self(context))
    }

    /// The next event; `None` if none is pending. It is acknowledged at once, because closing a context waits for
    /// unacknowledged events.
    ///
    /// # Errors
    /// `EIO` or `ENODEV` if the device has disappeared.
    pub fn next(&self) -> Result<Option<RawEvent>, Error> {
        let mut event = MaybeUninit::<ibv_async_event>::zeroed();
        // SAFETY: the context is open, and the place is as large as the structure the call fills.
        if unsafe { ibv_get_async_event(self.0.raw(), event.as_mut_ptr()) } != 0 {
            let error = Error::last("ibv_get_async_event");
            let none = [Errno::AGAIN, Errno::INTR].map(Errno::raw_os_error);
            return if none.contains(&error.errno) {
                Ok(None)
            } else {
                Err(error)
            };
        }
        let place = event.as_mut_ptr();
        // `event_type` is a Rust enum in `rdma-sys`, so an unknown type must not be read as one.
        // SAFETY: the member lies within the structure, is initialised, and has the size of a C `int`.
        let kind = unsafe { (&raw const (*place).event_type).cast::<u32>().read() };
        // SAFETY: the union was zeroed as a whole, and every bit pattern is an integer.
        let port = unsafe { (*place).element.port_num };
        // SAFETY: the event came from `ibv_get_async_event` on a context that is still open, and is acknowledged
        // once. Where it names a queue, that queue exists: destroying one waits for the acknowledgement of what was
        // read, and the kernel drops what was not.
        unsafe { ibv_ack_async_event(place) };
        Ok(Some(RawEvent { kind, port }))
    }
}

impl AsFd for AsyncEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.async_fd()
    }
}
