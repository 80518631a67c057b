//! An Ethernet cable between two machines.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// One of the two ends of a cable, for [`Options::cables`](super::Options::cables) of one machine.
///
/// Each frame is a datagram between two Unix sockets. So the machines may boot in any order, and one may end before the other:
/// frames to a machine that does not run are lost, as on a real cable.
#[derive(Clone, Debug)]
pub struct CableEnd {
    sockets: Arc<TempDir>,
    /// 1 or 2.
    number: u8,
}

impl CableEnd {
    /// Both ends of a new cable.
    ///
    /// # Errors
    /// If the directory of its sockets cannot be made.
    pub fn pair() -> Result<(Self, Self)> {
        let sockets = tempfile::Builder::new().prefix("cable-").tempdir();
        let sockets = Arc::new(sockets.context("a directory for the sockets of a cable")?);
        let end = |number| Self {
            sockets: Arc::clone(&sockets),
            number,
        };
        Ok((end(1), end(2)))
    }

    /// The options of QEMU that plug this end into a network interface; `place` is that of the cable in its machine.
    pub(super) fn arguments(&self, place: usize) -> [String; 4] {
        let (own, other) = (self.socket(self.number), self.socket(3 - self.number));
        let (own, other) = (own.display(), other.display());
        // Both machines would give their interfaces the same addresses.
        let mac = format!("52:54:00:77:{place:02x}:{:02x}", self.number);
        [
            "-netdev".to_owned(),
            format!(
                "dgram,id=cable{place},local.type=unix,local.path={own},remote.type=unix,remote.path={other}"
            ),
            "-device".to_owned(),
            format!("virtio-net-pci,netdev=cable{place},mac={mac},romfile=,bus=pcie.0"),
        ]
    }

    fn socket(&self, number: u8) -> PathBuf {
        self.sockets.path().join(number.to_string())
    }
}
