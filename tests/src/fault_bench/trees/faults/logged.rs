//! What the kernel logged: events of adapters, GPUs and transceivers, full bounce buffers and refused accesses.

use anyhow::Result;

use super::super::Change;
use super::{harmless, tree};
use crate::tree::Tree;

/// Every change, one fault each.
pub(super) const CHANGES: &[Change] = &[
    Change {
        fault: tree(
            "t-health",
            "the driver of mlx5_0 found its firmware dead",
            "adapter-failed",
            &[],
        ),
        make: |tree| {
            logged(
                tree,
                "poll_health:825:(pid 0): device's health compromised - reached miss count",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-command-timeout",
            "the firmware of mlx5_0 did not answer a command",
            "adapter-timeout",
            &[],
        ),
        make: |tree| {
            logged(
                tree,
                "wait_func:1195:(pid 141181): CREATE_DCT(0x710) timeout. Will cause a leak of a command resource",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-firmware-init",
            "the firmware of mlx5_0 did not start",
            "adapter-not-started",
            &[],
        ),
        make: |tree| {
            logged(
                tree,
                "mlx5_function_enable:1479:(pid 1): Firmware over 120000 MS in pre-initializing state, aborting",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-pci-fatal",
            "mlx5_0 reported a fatal PCIe error",
            "pci-fault-logged",
            &[],
        ),
        make: |tree| {
            logged(
                tree,
                "PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)",
            )
        },
        config: "",
    },
    Change {
        fault: tree("t-gpu-lost", "a GPU has fallen off the bus", "gpu-failed", &[]),
        make: |tree| {
            tree.write(
                "dev/kmsg",
                "3,400,2591000000000,-;NVRM: Xid (PCI:0000:19:00): 79, GPU has fallen off the bus.\n",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-module-refused",
            "the kernel refused ko2iblnd, which was built for other RDMA modules",
            "kernel-module-refused",
            &[],
        ),
        make: |tree| {
            tree.write(
                "dev/kmsg",
                "3,400,2591000000000,-;ko2iblnd: disagrees about version of symbol __ib_alloc_pd\n",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-module-crashed",
            "the kernel crashed in mlx5_ib",
            "kernel-module-crashed",
            &[],
        ),
        make: |tree| {
            tree.write(
                "dev/kmsg",
                "1,400,2591000000000,-;BUG: kernel NULL pointer dereference, address: 0000000000000070\n\
                 4,401,2591000000100,-;RIP: 0010:mlx5_ib_dereg_mr+0x29/0x110 [mlx5_ib]\n",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-module-hung",
            "a task hangs in mlx5_core",
            "kernel-module-hung",
            &[],
        ),
        make: |tree| {
            tree.write(
                "dev/kmsg",
                "3,400,2591000000000,-;INFO: task python3:4711 blocked for more than 122 seconds.\n\
                 6,401,2591000000100,-; cmd_exec+0x3c9/0x8b0 [mlx5_core]\n",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-module-hot",
            "the transceiver of mlx5_0 is too hot",
            "port-module-fault",
            &[],
        ),
        make: |tree| {
            logged(
                tree,
                "Port module event[error]: module 0, Cable error, High Temperature",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-unplugged",
            "the cable of mlx5_0 was unplugged",
            "port-cable-unplugged",
            &[],
        ),
        make: |tree| logged(tree, "Port module event: module 0, Cable unplugged"),
        config: "",
    },
    Change {
        fault: tree(
            "t-slot-power",
            "the slot of mlx5_0 offers 27 W",
            "pci-slot-power",
            &[],
        ),
        make: |tree| {
            logged(
                tree,
                "mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W).",
            )
        },
        config: "",
    },
    Change {
        fault: harmless(
            "t-refused-registers",
            "1000 refused reads of registers of a restricted function, as monitoring causes them",
        ),
        make: |tree| {
            let lines = (400..1400).map(|n| {
                format!("3,{n},{n}000000,-;mlx5_core 0000:18:00.0: mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x305684), err(-22)\n")
            });
            tree.write("dev/kmsg", lines.collect::<String>())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-bounce-full",
            "the driver of mlx5_0 found no room in the bounce buffers",
            "dma-bounce-full",
            &[],
        ),
        make: |tree| {
            logged(
                tree,
                "swiotlb buffer is full (sz: 65536 bytes), total 32768 (slots), used 32742 (slots)",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-selinux",
            "SELinux denies a container the device node of mlx5_0",
            "device-access-denied",
            &[],
        ),
        make: |tree| {
            tree.write(
                "dev/kmsg",
                "5,400,2591000000000,-;audit: type=1400 audit(1732300000.001:41): avc:  denied  { read write } for  pid=88123 \
                 comm=\"python3\" path=\"/dev/infiniband/uverbs0\" dev=\"devtmpfs\" ino=711 scontext=system_u:system_r:container_t:s0 \
                 tcontext=system_u:object_r:infiniband_device_t:s0 tclass=chr_file permissive=0\n",
            )
        },
        config: "",
    },
];

/// The kernel logged this about the function of the first adapter a quarter of an hour ago.
fn logged(tree: &mut Tree, message: &str) -> Result<()> {
    tree.write(
        "dev/kmsg",
        format!("3,400,2591000000000,-;mlx5_core 0000:18:00.0: {message}\n"),
    )
}
