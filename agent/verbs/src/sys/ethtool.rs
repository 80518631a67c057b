//! The statistics of a network driver, by an ioctl: `SIOCETHTOOL` (`include/uapi/linux/ethtool.h`).
//!
//! The kernel asks the driver for the number of statistics at each call, and most versions write that many, whatever the caller has
//! room for. The number may change between two calls. So the kernel writes into a separate mapping whose end is followed by a page
//! that nothing may write to: a reply that is too long ends in `EFAULT` and not in other memory.

use std::{
    ffi::c_void,
    ptr::{NonNull, null_mut},
};

use rustix::{
    io::Errno,
    ioctl::{Opcode, Updater, ioctl},
    mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap},
    net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with},
};

use super::Error;

const SIOCETHTOOL: Opcode = 0x8946;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
/// `ETH_SS_STATS`: the names of statistics.
const STATS: u32 = 1;
/// `ETH_GSTRING_LEN`.
const NAME: usize = 32;
/// `IFNAMSIZ`.
const NETDEV: usize = 16;
/// Where the names begin in `struct ethtool_gstrings`, and the values in `struct ethtool_stats`.
const NAMES: usize = 12;
const VALUES: usize = 8;
/// The most statistics of a device; an mlx5 device with 128 channels has some ten thousand.
const MOST: usize = 65_536;

/// `struct ifreq`, as far as this ioctl uses it.
#[repr(C)]
struct Request {
    netdev: [u8; NETDEV],
    data: *mut c_void,
    /// The rest of its union.
    rest: [u64; 2],
}

/// Every statistic of the driver of a network device: its name, and its value.
///
/// # Errors
/// `EOPNOTSUPP` where the driver has none, `ENODEV` where there is no such device in this network namespace, `EINVAL` for a name that
/// no device can have, `EFAULT` where the driver has more than any, `EAGAIN` where it has another number at each question.
pub fn driver_statistics(netdev: &str) -> Result<Vec<(String, u64)>, Error> {
    read(netdev).map_err(|errno| Error {
        call: "ioctl(SIOCETHTOOL)",
        errno: errno.raw_os_error(),
    })
}

fn read(netdev: &str) -> Result<Vec<(String, u64)>, Errno> {
    let mut name = [0; NETDEV];
    if netdev.is_empty() || netdev.len() >= NETDEV || netdev.contains('\0') {
        return Err(Errno::INVAL);
    }
    name[..netdev.len()].copy_from_slice(netdev.as_bytes());
    let mut room = Room::new(NAMES + MOST * NAME)?;

    // The header, a mask of the sets in 64 bits, and then the number for each.
    room.clear(24);
    room.put(0, GSSET_INFO);
    room.put(8, 1 << STATS);
    room.ask(name)?;
    let number = match room.number(8)? {
        0 => return Err(Errno::OPNOTSUPP),
        _ => room.number(16)?,
    };

    room.put(0, GSTRINGS);
    room.put(4, STATS);
    room.put(8, number);
    room.ask(name)?;
    let length = count(number)?;
    if room.number(8)? != number {
        return Err(Errno::AGAIN);
    }
    let names = room.bytes(NAMES, length * NAME)?;

    room.put(0, GSTATS);
    room.put(4, number);
    room.ask(name)?;
    if room.number(4)? != number {
        return Err(Errno::AGAIN);
    }
    let values = room.bytes(VALUES, length * size_of::<u64>())?;
    Ok(paired(&names, &values))
}

/// A number of statistics that there is room for.
fn count(number: u32) -> Result<usize, Errno> {
    let number = usize::try_from(number).map_err(|_| Errno::FAULT)?;
    if number > MOST {
        Err(Errno::FAULT)
    } else {
        Ok(number)
    }
}

/// Names, each of 32 bytes that end with a zero if it is shorter, with values of 8 bytes.
fn paired(names: &[u8], values: &[u8]) -> Vec<(String, u64)> {
    let (names, _) = names.as_chunks::<NAME>();
    let (values, _) = values.as_chunks();
    let pair = |(name, value): (&[u8; NAME], &[u8; 8])| {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME);
        (
            String::from_utf8_lossy(&name[..end]).trim().to_owned(),
            u64::from_ne_bytes(*value),
        )
    };
    names.iter().zip(values).map(pair).collect()
}

/// A mapping for a reply, with a page behind it that nothing may write to.
struct Room {
    start: NonNull<u8>,
    /// Its length in bytes, and that of the whole mapping.
    length: usize,
    mapped: usize,
}

impl Room {
    /// At least `length` bytes, all zero.
    fn new(length: usize) -> Result<Self, Errno> {
        let page = rustix::param::page_size();
        let length = length.checked_next_multiple_of(page).ok_or(Errno::NOMEM)?;
        let mapped = length.checked_add(page).ok_or(Errno::NOMEM)?;
        // SAFETY: without an address, the kernel maps what nothing else uses.
        let start = unsafe { mmap_anonymous(null_mut(), mapped, ProtFlags::empty(), MapFlags::PRIVATE) }?;
        let room = Self {
            start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?,
            length,
            mapped,
        };
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: `length` bytes of the mapping, which only this value knows.
        unsafe { mprotect(start, length, access) }?;
        Ok(room)
    }

    /// Sets the first bytes to zero.
    fn clear(&mut self, length: usize) {
        // SAFETY: within the writable part, which only this value knows and of which no reference exists.
        unsafe { self.start.write_bytes(0, length.min(self.length)) };
    }

    /// Puts a number of 4 bytes at `offset`, if there is room.
    fn put(&mut self, offset: usize, number: u32) {
        let bytes = number.to_ne_bytes();
        if offset
            .checked_add(bytes.len())
            .is_some_and(|end| end <= self.length)
        {
            // SAFETY: within the writable part, as above; bytes have no alignment.
            unsafe { self.start.add(offset).cast::<[u8; 4]>().write_unaligned(bytes) };
        }
    }

    /// The number of 4 bytes at `offset`.
    fn number(&self, offset: usize) -> Result<u32, Errno> {
        let bytes = self.bytes(offset, 4)?;
        let bytes = bytes.first_chunk().ok_or(Errno::FAULT)?;
        Ok(u32::from_ne_bytes(*bytes))
    }

    /// A copy of a part of it.
    fn bytes(&self, offset: usize, length: usize) -> Result<Vec<u8>, Errno> {
        let end = offset.checked_add(length).filter(|end| *end <= self.length);
        end.ok_or(Errno::FAULT)?;
        // SAFETY: within the readable part, which is initialised (zero at first); nothing writes to it while it is borrowed, because
        // `ask` needs it exclusively and the kernel writes only during that call.
        let part = unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), length) };
        Ok(part.to_vec())
    }

    /// Makes the ioctl with the question in this room. The reply takes its place.
    fn ask(&mut self, netdev: [u8; NETDEV]) -> Result<(), Errno> {
        // Any socket will do; a filter may refuse those of IP.
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::GENERIC),
        )?;
        let mut request = Request {
            netdev,
            data: self.start.as_ptr().cast(),
            rest: [0; 2],
        };
        // SAFETY: the opcode takes a `struct ifreq` of 40 bytes, which `Request` is. For the three commands of this file the kernel
        // reads from and writes to where `data` points, upwards: into this mapping, or, if it has more to say, it stops at the page
        // behind it.
        unsafe { ioctl(&socket, Updater::<SIOCETHTOOL, Request>::new(&mut request)) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no reference into it outlives a method. A failure leaves the mapping where it is.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, mem::ManuallyDrop};

    use super::*;

    fn errno(netdev: &str) -> i32 {
        driver_statistics(netdev).unwrap_err().errno
    }

    /// Every network device of the machine that runs this, whatever its driver is.
    #[test]
    fn each_driver_of_this_machine_has_statistics_with_names_or_says_that_it_has_none() {
        let devices = fs::read_dir("/sys/class/net").unwrap();
        for netdev in devices.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
            match driver_statistics(&netdev) {
                Ok(found) => {
                    assert!(!found.is_empty(), "{netdev}");
                    for (name, _) in found {
                        assert!(!name.is_empty() && name.is_ascii(), "{netdev}: {name:?}");
                    }
                }
                Err(error) => assert_eq!(error.errno, Errno::OPNOTSUPP.raw_os_error(), "{netdev}"),
            }
        }
        assert_eq!(errno("lo"), Errno::OPNOTSUPP.raw_os_error());
    }

    #[test]
    fn what_is_no_device_is_refused() {
        assert_eq!(errno("nosuchdevice0"), Errno::NODEV.raw_os_error());
        for name in ["", "a\0b", "sixteen-letters-"] {
            assert_eq!(errno(name), Errno::INVAL.raw_os_error(), "{name:?}");
        }
    }

    /// As the kernel writes if a driver has more statistics than there is room for.
    #[test]
    fn a_reply_that_is_too_long_stops_at_the_end() {
        const GLINK: u32 = 0x0a;
        let mut lo = [0; NETDEV];
        lo[..2].copy_from_slice(b"lo");
        let mut whole = Room::new(1).unwrap();
        whole.put(0, GLINK);
        whole.ask(lo).unwrap();
        assert_eq!(whole.number(4), Ok(1), "lo has a link");
        // The answer has 8 bytes.
        for (left, answer) in [(8, Ok(())), (4, Err(Errno::FAULT))] {
            // SAFETY: within the mapping.
            let start = unsafe { whole.start.add(whole.length - left) };
            let mut end = ManuallyDrop::new(Room {
                start,
                length: left,
                mapped: 0,
            });
            end.put(0, GLINK);
            assert_eq!(end.ask(lo), answer);
        }
    }

    #[test]
    fn names_without_an_end_are_cut() {
        let names = [
            [b'x'; NAME],
            *b"rx_discards_phy\0garbage.........."[..NAME]
                .first_chunk()
                .unwrap(),
        ]
        .concat();
        let values = [7_u64.to_ne_bytes(), 9_u64.to_ne_bytes()].concat();
        let found = paired(&names, &values);
        assert_eq!(found, [("x".repeat(32), 7), ("rx_discards_phy".into(), 9)]);
        assert_eq!(paired(&names, &values[..8]).len(), 1);
        assert_eq!(count(u32::try_from(MOST).unwrap() + 1), Err(Errno::FAULT));
    }
}
