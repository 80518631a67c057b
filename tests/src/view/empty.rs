//! A node of which nothing could be read, or that has nothing.

use std::{collections::BTreeSet, sync::Arc};

use rdma_health_diagnosis::diagnose;
use rdma_health_node::{
    Fact, dcb::Dcb, devlink::Devlink, drivers::Drivers, ethtool::Links, host::Host, interfaces::Interfaces,
    iommu::Iommu, limits::Limits, lldp::Lldp, modules::Modules, neighbours::Neighbours, pci::Pci,
    rdma::Subsystem, transceiver::Transceivers,
};
use rdma_health_rules::{Expectations, judge};
use rdma_health_view::View;

use super::{rich, unread};

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
        others: BTreeSet::new(),
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
        optional_values: fact(absent),
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
