//! Views for tests of publishers: one that has a bit of everything, and one of which nothing could be read.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use rdma_health_diagnosis::{Cause, Diagnosis, diagnose};
use rdma_health_kernel::Facts;
use rdma_health_node::{
    Fact, Node, SourceStatus, Unread, UnreadKind,
    cmdline::IommuArguments,
    dcb::{Bridging, Dcb, Pfc},
    devlink::{self, Devlink},
    drivers::Drivers,
    ethtool::{self, Links},
    fact::Errno,
    history::{History, Missing},
    host::Host,
    infiniband::{Counter, Guid, Hca, LinkLayer, Netdev, Port, PortCode, Rate},
    interfaces::{Interface, Interfaces, VfLink, VfSettings},
    iommu::{DomainType, Group, Iommu},
    kmsg,
    limits::{Limits, Memlock, Runtime},
    lldp::{Lldp, Neighbour},
    modules::{Module, Modules},
    neighbours::{Neighbours, Table},
    node::{Probe, VerbsDevice},
    nvidia::NvidiaDriver,
    pci::{Acs, Capabilities, Function, Link, Pci, Role, Sriov},
    rdma::{Namespaces, Subsystem},
    transceiver::{self, Lane, Measure, Transceivers},
};
use rdma_health_protocol::{
    Bandwidth, Completion, Device, Gid, GidType, HelperError, Latency, Path, Port as VerbsPort, ProbeFailure,
    ProbeReport, Stage,
};
use rdma_health_rules::{Expectations, Finding, Verdict, judge};
use rdma_health_view::{ReadErrors, View};

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
            others: std::collections::BTreeSet::new(),
            nvidia_driver: Fact::Known(NvidiaDriver {
                version: "570.124.06".into(),
                open: true,
            }),
        }),
        links: Arc::new(Links {
            netdevs: Fact::Known(
                (0..devices)
                    .map(|n| (format!("eth{n}"), ethernet_link()))
                    .collect(),
            ),
        }),
        devlink: Arc::new(Devlink {
            devices: Fact::Known((0..devices).map(|n| (address(n), devlink_device())).collect()),
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

/// A view of a node of which nothing could be read, or that has nothing.
pub fn empty(absent: bool) -> View {
    fn fact<T>(absent: bool) -> Fact<T> {
        if absent { Fact::Absent } else { unread() }
    }
    let mut view = rich(0, &[]);
    let node = &mut view.node;
    node.host = Arc::new(Host {
        hostname: fact(absent),
        kernel: fact(absent),
        boot_id: fact(absent),
        cmdline: fact(absent),
        iommu_arguments: fact(absent),
        virtual_machine: fact(absent),
        encryption_flags: fact(absent),
        uptime: fact(absent),
    });
    node.iommu = Arc::new(Iommu {
        groups: fact(absent),
        units: fact(absent),
    });
    node.kernel_log = Arc::new(fact(absent));
    node.modules = Arc::new(Modules {
        loaded: fact(absent),
        user_verbs: fact(absent),
        ..Modules::default()
    });
    node.pci = Arc::new(Pci {
        functions: fact(absent),
        left_out: Vec::new(),
        others: std::collections::BTreeSet::new(),
        nvidia_driver: fact(absent),
    });
    node.links = Arc::new(Links {
        netdevs: fact(absent),
    });
    node.devlink = Arc::new(Devlink {
        devices: fact(absent),
    });
    node.interfaces = Arc::new(Interfaces {
        netdevs: fact(absent),
    });
    node.dcb = Arc::new(Dcb {
        netdevs: fact(absent),
    });
    node.transceivers = Arc::new(Transceivers {
        netdevs: fact(absent),
    });
    node.neighbours = Arc::new(Neighbours { tables: fact(absent) });
    node.drivers = Arc::new(Drivers {
        netdevs: fact(absent),
    });
    node.lldp = Arc::new(Lldp {
        netdevs: fact(absent),
    });
    node.rdma = Arc::new(Subsystem {
        namespaces: fact(absent),
        resources: fact(absent),
        of_processes: fact(absent),
        optional_counters: fact(absent),
    });
    node.peer_memory = fact(absent);
    node.limits = Arc::new(Limits {
        own: fact(absent),
        runtimes: fact(absent),
        crio_default: Fact::Absent,
    });
    node.hcas = fact(absent);
    node.verbs = fact(absent);
    node.probes.clear();
    node.history = None;
    node.sources.clear();
    view.verdict = Arc::new(judge(&view.node, &Expectations::default()));
    view.diagnosis = Arc::new(diagnose(&view.node, &view.verdict.findings, None));
    view.read_errors.clear();
    view
}

fn ethernet_link() -> ethtool::Link {
    ethtool::Link {
        down_reason: Fact::Known(ethtool::DownReason {
            reason: "No cable".into(),
            detail: None,
        }),
        downs: Fact::Known(4),
        fec: Fact::Known(ethtool::Fec {
            mode: Some("RS".into()),
            corrected: Some(9),
            uncorrectable: Some(0),
            corrected_bits: Some(11),
        }),
        pause: Fact::Known(ethtool::Pause {
            rx: true,
            tx: true,
            rx_frames: Some(5),
            tx_frames: Some(6),
        }),
        errors: Fact::Known(BTreeMap::from([("fcs".to_owned(), 3)])),
    }
}

/// What only netlink shows of a node with so many devices.
fn with_netlink(node: &mut Node, devices: u64) {
    node.interfaces = Arc::new(Interfaces {
        netdevs: Fact::Known((0..devices).map(|n| (format!("eth{n}"), interface())).collect()),
    });
    node.dcb = Arc::new(Dcb {
        netdevs: Fact::Known((0..devices).map(|n| (format!("eth{n}"), bridging())).collect()),
    });
    let statistics = [
        "rx_discards_phy",
        "outbound_pci_stalled_wr",
        "rx_prio3_pause",
        "rx_prio3_pause_duration",
    ];
    let statistics: BTreeMap<_, _> = statistics.iter().map(|name| ((*name).to_owned(), 7)).collect();
    node.drivers = Arc::new(Drivers {
        netdevs: Fact::Known(
            (0..devices)
                .map(|n| (format!("eth{n}"), statistics.clone()))
                .collect(),
        ),
    });
    let neighbour = Neighbour {
        switch: "leaf-3".into(),
        port: "Ethernet12/1".into(),
        ..Neighbour::default()
    };
    node.lldp = Arc::new(Lldp {
        netdevs: Fact::Known(
            (0..devices)
                .map(|n| (format!("eth{n}"), neighbour.clone()))
                .collect(),
        ),
    });
    node.transceivers = Arc::new(Transceivers {
        netdevs: Fact::Known((0..devices).map(|n| (format!("eth{n}"), transceiver())).collect()),
    });
    node.neighbours = Arc::new(Neighbours {
        tables: Fact::Known(BTreeMap::from([("arp_cache".to_owned(), TABLE)])),
    });
    node.rdma = Arc::new(Subsystem {
        namespaces: Fact::Known(Namespaces::Shared),
        resources: Fact::Known(
            (0..devices)
                .map(|n| (format!("mlx5_{n}"), BTreeMap::from([("qp".to_owned(), 5)])))
                .collect(),
        ),
        ..Subsystem::default()
    });
}

const TABLE: Table = Table {
    entries: 20,
    soft_limit: 512,
    limit: 1024,
    overflows: Some(0),
};

fn interface() -> Interface {
    Interface {
        vfs: vec![VfSettings {
            trust: Some(true),
            link_state: VfLink::Disable,
            ..VfSettings::default()
        }],
        bond: Fact::Absent,
    }
}

fn bridging() -> Bridging {
    Bridging {
        pfc: Some(Pfc {
            on: vec![3],
            sent: vec![0, 0, 0, 7, 0, 0, 0, 0],
            received: vec![0, 0, 0, 8, 0, 0, 0, 0],
        }),
        dscp: BTreeMap::from([(26, 3)]),
        ..Bridging::default()
    }
}

fn transceiver() -> transceiver::Module {
    let measure = |value, low, high| {
        Some(Measure {
            value,
            low: Some(low),
            high: Some(high),
        })
    };
    transceiver::Module {
        form: "OSFP".into(),
        vendor: Some("NVIDIA".into()),
        part: Some("MMS4X00-NM".into()),
        temperature: measure(45_500, -5000, 75_000),
        voltage: measure(3_300_000, 3_000_000, 3_600_000),
        lanes: vec![Lane {
            rx_power: measure(900_000, 50_000, 4_000_000),
            tx_power: measure(1_200_000, 100_000, 4_000_000),
            bias: measure(40_000, 5000, 90_000),
        }],
    }
}

fn devlink_device() -> devlink::Device {
    let reporter = |name: &str, port| devlink::Reporter {
        name: name.into(),
        port,
        in_error: name == "tx",
        errors: 3,
        recoveries: 2,
    };
    let versions = |version: &str| BTreeMap::from([("fw".to_owned(), version.to_owned())]);
    devlink::Device {
        reporters: vec![
            reporter("fw", None),
            reporter("tx", Some(1)),
            reporter("tx", Some(2)),
        ],
        firmware: Fact::Known(devlink::Firmware {
            running: versions("28.39.3560"),
            stored: versions("28.41.1000"),
        }),
    }
}

/// The history of the node: an earlier boot, and an earlier probe of each port.
fn past(node: &Node) -> History {
    let mut history = History::default();
    let mut earlier = node.clone();
    let host = Arc::make_mut(&mut earlier.host);
    host.boot_id = known("a");
    host.kernel = known("6.1.0-36-amd64");
    for probe in &mut earlier.probes {
        Arc::make_mut(probe).time -= 7200;
    }
    history.record(&earlier, node.time - 7200);
    history.record(node, node.time);
    history
}

/// Remembers the findings and causes, as the agent does.
fn observe(node: &mut Node, verdict: &Verdict, diagnosis: &Diagnosis) {
    let findings = verdict.findings.iter().map(Finding::key);
    let keys = findings.chain(diagnosis.causes.iter().map(Cause::key)).collect();
    let now = node.time - 3600;
    if let Some(history) = &mut node.history {
        Arc::make_mut(history).observe(&keys, Missing::Over, now);
    }
}

fn address(n: u64) -> String {
    format!("0000:41:{n:02x}.0")
}

fn group(n: u64) -> Group {
    Group {
        domain: if n == 0 {
            Fact::Known(DomainType::Lazy)
        } else {
            Fact::Known(DomainType::Identity)
        },
        devices: Fact::Known(vec![address(n)]),
    }
}

fn function(role: Role) -> Function {
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
    }
}

fn hca(n: u64, files: &[CounterFile]) -> Hca {
    let counters = |directory: &str| {
        let mut all: Vec<Counter> = files
            .iter()
            .filter(|(of, _)| *of == directory)
            .map(|(_, file)| counter(file, Fact::Known(7 + n)))
            .collect();
        all.push(counter("zz_unread", unread()));
        all
    };
    let mut hw_counters = counters("hw_counters");
    hw_counters.push(counter("sent_pkts", Fact::Known(11)));
    hw_counters.push(counter("active_qps", Fact::Known(12)));
    let code = |code, name: &str| {
        Fact::Known(PortCode {
            code,
            name: name.into(),
        })
    };
    let port = Port {
        link_layer: Fact::Known(LinkLayer::Ethernet),
        state: code(4, "ACTIVE"),
        phys_state: code(5, "LinkUp"),
        rate: Fact::Known(Rate {
            bits_per_second: 400_000_000_000,
            lanes: Some(4),
            speed: Some("NDR".into()),
        }),
        lid: Fact::Known(12),
        sm_lid: Fact::Known(1),
        netdev: Fact::Known(Netdev {
            name: format!("eth{n}"),
            index: Fact::Known(3),
            mtu: Fact::Known(4092),
            operstate: known("up"),
            admin_up: Fact::Known(true),
            carrier_ups: Fact::Known(2),
            carrier_downs: Fact::Known(1),
            address: Fact::Absent,
        }),
        counters: counters("counters"),
        hw_counters,
        gids: Fact::Absent,
        partition_keys: Fact::Absent,
    };
    Hca {
        name: format!("mlx5_{n}"),
        pci_address: Fact::Known(address(n)),
        parent_netdev: Fact::Absent,
        driver: known("mlx5_core"),
        firmware: known("28.39.3560"),
        board_id: known("MT_\"00\\838\n"),
        hca_type: known("MT4129"),
        node_guid: Fact::Known(Guid(0x9c63_c003_00e0_5c2a)),
        system_image_guid: unread(),
        node_type: known("1: CA"),
        numa_node: Fact::Known(0),
        physical_function: Fact::Absent,
        ports: BTreeMap::from([(1, Box::new(port))]),
    }
}

fn counter(name: &str, value: Fact<u64>) -> Counter {
    Counter {
        name: name.into(),
        value,
    }
}

fn verbs(n: u64) -> VerbsDevice {
    if n == 1 {
        return VerbsDevice::Error(HelperError {
            device: Some("mlx5_1".into()),
            call: "ibv_open_device".into(),
            errno: 13,
        });
    }
    let gid = |index, kind| Gid {
        index,
        gid: Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped(),
        kind,
        netdev_index: Some(3),
        netdev: None,
    };
    VerbsDevice::Device(Device {
        name: format!("mlx5_{n}"),
        node_guid: 1,
        firmware: String::new(),
        vendor_id: 0x15b3,
        vendor_part_id: 1,
        max_mr_size: 1 << 40,
        ports: vec![VerbsPort {
            number: 1,
            state: 4,
            phys_state: 5,
            link_layer: 2,
            active_mtu: 1024,
            max_mtu: 4096,
            lid: 0,
            sm_lid: 0,
            gid_table_len: 256,
            gids: vec![gid(2, GidType::RoceV1), gid(3, GidType::RoceV2)],
        }],
    })
}

fn limits() -> Limits {
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

/// One probe of each outcome, on a device each.
fn probes() -> Vec<Arc<Probe>> {
    let report = |n: u64, stage, failure: Option<ProbeFailure>| {
        let worked = failure.is_none();
        Arc::new(Probe {
            time: 1_790_000_000,
            report: ProbeReport {
                path: Path::loopback(format!("mlx5_{n}"), 1),
                stage,
                failure,
                gid: worked.then_some(Gid {
                    index: 3,
                    gid: Ipv6Addr::LOCALHOST,
                    kind: GidType::RoceV2,
                    netdev_index: None,
                    netdev: None,
                }),
                numa_node: None,
                bandwidth: worked.then_some(Bandwidth {
                    bytes: 1 << 28,
                    seconds: 0.01,
                    bytes_per_second: 25e9,
                    message_size: 65536,
                    queue_pairs: 4,
                }),
                latency: worked.then_some(Latency {
                    samples: 1000,
                    min: 0.000_001,
                    median: 0.000_001_5,
                    p99: 0.000_003,
                }),
                elapsed_us: 20_000,
            },
        })
    };
    let completion = ProbeFailure::Completion(Completion {
        status: 4,
        name: "IBV_WC_LOC_PROT_ERR".into(),
        vendor_error: 0x81,
    });
    vec![
        report(0, Stage::Done, None),
        report(1, Stage::Poll, Some(completion)),
        report(
            2,
            Stage::BusyCheck,
            Some(ProbeFailure::Busy { bytes_per_second: 1 }),
        ),
    ]
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
