//! Changes the tree that the agent reads: devices come and go, files hold what no kernel writes.

use std::{fs, io, path::Path, thread::sleep, time::Duration};

use anyhow::Result;
use rdma_health_tests::fleet::{DEVICES, Layout, write};

use super::{Run, dice::Dice};

/// Between two changes.
const PAUSE: Duration = Duration::from_millis(20);
/// After so many changes, the whole tree is written again.
const RENEWED: usize = 200;

/// Attacks until the run is over; returns the number of changes.
pub(crate) fn attack(run: &Run, root: &Path, mut dice: Dice) -> u64 {
    let mut changes = 0;
    run.repeat(|| {
        changes += 1;
        if changes % RENEWED == 0 {
            let _ = fs::remove_dir_all(root.join("sys/class/infiniband"));
            write(root, Layout::Hardware)?;
        }
        change(root, &mut dice)?;
        sleep(PAUSE);
        Ok(())
    })
}

/// One change. What it changes may be gone already.
fn change(root: &Path, dice: &mut Dice) -> Result<()> {
    let class = root.join("sys/class/infiniband");
    let number = dice.below(usize::try_from(DEVICES)?);
    let device = class.join(format!("mlx5_{number}"));
    let port = device.join("ports/1");
    let file = dice.pick(&[
        "ports/1/state",
        "ports/1/phys_state",
        "ports/1/rate",
        "ports/1/link_layer",
        "ports/1/counters/symbol_error",
        "ports/1/counters/port_xmit_data",
        "ports/1/hw_counters/out_of_buffer",
        "fw_ver",
        "board_id",
        "node_guid",
        "ports/1/gids/0",
        "ports/1/gid_attrs/types/0",
    ]);
    let file = device.join(file);
    let done = match dice.below(10) {
        0 => fs::rename(&device, class.join(format!("away_{number}"))),
        1 => fs::rename(class.join(format!("away_{number}")), &device),
        2 => fs::remove_dir_all(&device),
        3 => fs::remove_dir_all(port.join(dice.pick(&["counters", "hw_counters", "gids"]))),
        4 => {
            let name = dice.pick(&["\u{1b}]0;x", "a\"b\\", "x\ny", "{}", "ä", "mlx5_0 "]);
            fs::create_dir_all(class.join(name).join("ports/1/counters"))
        }
        // The agent remembers every port that it saw, up to a limit: with 300 more for each device, it needs 16.1 MB.
        5 => fs::create_dir_all(
            device
                .join("ports")
                .join(dice.pick(&["0", "2", "255", "256", "-1", "x"])),
        ),
        6 => fs::remove_file(&file),
        7 => {
            let length = 1 << dice.below(21);
            write_into(&file, &dice.bytes(length))
        }
        8 => write_into(&file, b"18446744073709551616\n"),
        _ => {
            let text = dice.pick(&[
                "4: ACTIVE\n",
                "1: DOWN\n",
                "5: LinkUp\n",
                "",
                "\0\0\0",
                "-1\n",
                "0\n",
            ]);
            write_into(&file, text.as_bytes())
        }
    };
    match done {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::AlreadyExists
                    | io::ErrorKind::DirectoryNotEmpty
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::NotADirectory
            ) =>
        {
            Err(error.into())
        }
        _ => Ok(()),
    }
}

fn write_into(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, bytes)
}
