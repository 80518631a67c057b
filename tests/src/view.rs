//! Views for tests of publishers: one that has a bit of everything, and one of which nothing could be read.

mod devices;
mod empty;
mod machine;
mod netlink;
mod remembered;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rdma_health_diagnosis::diagnose;
use rdma_health_kernel::Facts;
use rdma_health_node::{
    Fact, Node, SourceStatus, Unread, UnreadKind,
    cmdline::IommuArguments,
    fact::Errno,
    host::Host,
    iommu::Iommu,
    kmsg,
    modules::{Module, Modules},
    nvidia::NvidiaDriver,
    pci::{Pci, Role},
};
use rdma_health_rules::{Expectations, judge};
use rdma_health_view::{ReadErrors, View};

pub use self::empty::empty;
use self::{
    devices::{hca, verbs},
    machine::{address, function, group, limits},
    netlink::with_netlink,
    remembered::{observe, past, probes},
};

fn unread<T>() -> Fact<T> {
    Unread {
        source: "/sys/x".into(),
        kind: UnreadKind::Errno(Errno::INVAL),
        detail: "Invalid argument".into(),
    }
    .into()
}

fn known(text: &str) -> Fact<String> {
    Fact::Known(text.to_owned())
}

/// A counter of a port: its directory and its file.
pub type CounterFile = (&'static str, &'static str);

/// A view of a node with `devices` devices that report everything, and with these counters on each port.
pub fn rich(devices: u64, counters: &[CounterFile]) -> View {
    let hcas: BTreeMap<_, _> = (0..devices)
        .map(|n| (format!("mlx5_{n}").into(), Arc::new(hca(n, counters))))
        .collect();
    let mut functions: BTreeMap<_, _> = (0..devices).map(|n| (address(n), function(Role::Rdma))).collect();
    functions.insert("0000:40:01.0".into(), function(Role::Bridge));
    functions.insert("0000:c1:00.0".into(), function(Role::Gpu));
    let groups = (0_u32..).zip((0..devices).map(group));
    let mut node = Node::new(Facts {
        time: 1_790_000_000,
        live: true,
        host: Arc::new(Host {
            hostname: known("node-1"),
            kernel: known("6.1.0-37-amd64"),
            boot_id: known("b"),
            cmdline: known("quiet iommu=pt"),
            iommu_arguments: Fact::Known(IommuArguments::parse("quiet iommu=pt iommu.strict=0")),
            virtual_machine: Fact::Known(false),
            encryption_flags: Fact::Absent,
            uptime: Fact::Known(86_400),
        }),
        iommu: Arc::new(Iommu {
            groups: Fact::Known(groups.collect()),
            units: Fact::Known(vec!["dmar0".into()]),
        }),
        modules: Arc::new(Modules {
            loaded: Fact::Known(BTreeMap::from([(
                "mlx_compat".into(),
                Module {
                    version: known("24.10"),
                    users: Vec::new(),
                },
            )])),
            user_verbs: Fact::Known(true),
            ..Modules::default()
        }),
        pci: Arc::new(Pci {
            functions: Fact::Known(functions),
            left_out: Vec::new(),
            others: BTreeSet::new(),
            nvidia_driver: Fact::Known(NvidiaDriver {
                version: "570.124.06".into(),
                open: true,
            }),
        }),
        limits: Arc::new(limits()),
        kernel_log: Arc::new(Fact::Known(kmsg::Log {
            events: vec![kmsg::Event {
                kind: kmsg::EventKind::LinkDown,
                device: kmsg::Device::Named("mlx5_9".into()),
                driver: "mlx5_core".into(),
                count: 2,
                first: Some(1),
                last: Some(2),
                message: "x".into(),
                order: 0,
            }],
            ..kmsg::Log::default()
        })),
        hcas: Fact::Known(hcas),
        sources: sources(),
        ..Facts::not_read_yet()
    });
    with_netlink(&mut node, devices);
    node.verbs = Fact::Known(Arc::new(
        (0..devices).map(|n| (format!("mlx5_{n}"), verbs(n))).collect(),
    ));
    node.probes = probes();
    node.history = Some(Arc::new(past(&node)));
    let verdict = Arc::new(judge(&node, &Expectations::default()));
    let diagnosis = Arc::new(diagnose(&node, &verdict.findings, None));
    observe(&mut node, &verdict, &diagnosis);
    View {
        node,
        verdict,
        diagnosis,
        read_errors: vec![ReadErrors {
            source: "infiniband".into(),
            kind: UnreadKind::Errno(Errno::INVAL),
            count: 3,
        }],
        reader_threads: 2,
        revision: 1,
        generation: 1,
    }
}

fn sources() -> BTreeMap<Arc<str>, Arc<SourceStatus>> {
    let status = |time| {
        Arc::new(SourceStatus {
            time,
            seconds: 0.000_25,
            stale: time.is_none(),
            unread: Vec::new(),
        })
    };
    BTreeMap::from([
        ("host".into(), status(Some(1_790_000_000))),
        ("infiniband/mlx5_0".into(), status(None)),
    ])
}
