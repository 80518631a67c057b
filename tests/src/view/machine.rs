//! The machine around the RDMA devices: PCI functions, IOMMU groups and limits.

use rdma_health_node::{
    Fact,
    iommu::{DomainType, Group},
    limits::{Limits, Memlock, Runtime},
    pci::{Acs, Capabilities, Function, Link, Role, Sriov},
};

use super::{known, unread};

pub(super) fn address(n: u64) -> String {
    format!("0000:41:{n:02x}.0")
}

pub(super) fn group(n: u64) -> Group {
    Group {
        domain: if n == 0 {
            Fact::Known(DomainType::Lazy)
        } else {
            Fact::Known(DomainType::Identity)
        },
        devices: Fact::Known(vec![address(n)]),
    }
}

pub(super) fn function(role: Role) -> Function {
    Function {
        role,
        vendor: Fact::Known(0x15b3),
        device: Fact::Known(0x1021),
        class: Fact::Known(0x02_0700),
        driver: known("mlx5_core"),
        numa_node: Fact::Known(1),
        bridges: vec!["0000:40:01.0".into()],
        link: Link {
            speed: Fact::Known(16_000),
            max_speed: Fact::Known(32_000),
            width: Fact::Known(8),
            max_width: Fact::Known(16),
        },
        capabilities: Fact::Known(Capabilities {
            complete: true,
            max_read_request: Some(512),
            max_payload: Some(256),
            acs: Some(Acs {
                capability: 0x1f,
                control: 0x1d,
            }),
            port_type: None,
        }),
        sriov: Fact::Known(Sriov {
            active: 2,
            possible: 16,
            ..Sriov::default()
        }),
        physical_function: Fact::Absent,
        aer: Fact::Absent,
        slot: Fact::Absent,
        aperture: Fact::Known(128 << 30),
        netdevs: Fact::Absent,
        masters: Vec::new(),
        subsystem: Fact::Absent,
    }
}

pub(super) fn limits() -> Limits {
    let memlock = |soft, hard| Fact::Known(Memlock { soft, hard });
    let runtime = |name: &str, pid, memlock| Runtime {
        name: name.into(),
        pid,
        memlock,
    };
    Limits {
        own: memlock(Some(8 << 20), None),
        runtimes: Fact::Known(vec![
            runtime("containerd", 1, memlock(None, None)),
            runtime("containerd", 2, memlock(Some(8 << 20), Some(8 << 20))),
            runtime("kubelet", 3, unread()),
        ]),
        crio_default: Fact::Absent,
    }
}
