//! The facts for and against each known cause, and the evidence that was not available.

mod assignment;
mod cluster;
mod crash;
mod dma;
mod exhausted;
mod fabric;
mod gid;
mod gpu;
mod hardware;
mod helper;
mod job;
mod layer;
mod library;
mod limits;
mod message;
mod modules;
mod network;
mod permission;
mod platform;
mod pods;
mod port;
mod refused;
mod settings;
mod transceiver;
mod unresolved;
mod view;

pub(crate) use cluster::{admission, pod_network};
pub(crate) use crash::driver_firmware;
pub(crate) use dma::{acs, gpu_address, iommu, peer_memory};
pub(crate) use fabric::guids;
pub(crate) use gid::{gid_index, gid_missing, other_namespace};
pub(crate) use gpu::gpu_program;
pub(crate) use hardware::{
    device_fault, device_present, devices_missing, gpu_fault, host_load, host_memory, pci_path, slot_power,
    software, virtual_functions,
};
pub(crate) use helper::helper;
pub(crate) use job::{
    LATE, application, device_not_given, gpu_only, logged, no_device, no_listener, peer_failed,
    shared_memory, stalled, tcp_connection, userspace,
};
pub(crate) use layer::{ethernet_only, infiniband_member, infiniband_only};
pub(crate) use library::gpu_initiated;
pub(crate) use limits::{memlock, resources};
pub(crate) use message::{IWARP, backend, in_use, module_build, peer_settings, storage_access, unsupported};
pub(crate) use modules::modules;
pub(crate) use network::{addressing, fabric, link_quality, mtu};
pub(crate) use permission::permission;
pub(crate) use platform::{device_assignment, firmware_file, firmware_tool, tool_access};
pub(crate) use port::port_down;
pub(crate) use settings::settings;

use std::net::Ipv6Addr;

use rdma_health_node::{
    DeviceEvent, Function, Node, Port, infiniband::Hca, kmsg::EventKind, model, process::Process,
};
use rdma_health_rules::Evidence;

use crate::{
    log::Log,
    symptom::{Family, Gpu, Symptom, SymptomKind},
};

/// Points of a fact that shows a cause itself, is consistent with it, makes it less likely, or contradicts it.
const SHOWN: i32 = 4;
const FITS: i32 = 2;
const DOUBTFUL: i32 = -1;
const AGAINST: i32 = -4;

/// The available evidence: the node, the symptoms and the log.
pub(crate) struct Case<'a> {
    pub(crate) node: &'a Node,
    /// The symptoms that are evidence for a cause.
    pub(crate) symptoms: Vec<&'a Symptom>,
    pub(crate) log: Option<&'a Log>,
    /// A node of which nothing is known, if the log may be from another one than `node`.
    pub(crate) unknown: Option<&'a Node>,
    /// Whether the job may run in a container.
    pub(crate) containers: bool,
}

impl<'a> Case<'a> {
    /// The process of the job, if one was named.
    pub(crate) fn job(&self) -> Option<&'a Process> {
        self.node.job.as_deref()
    }

    /// The devices of this node that symptoms name, or whose GID they name as the local one; empty if no symptom names one.
    fn named(&self) -> Vec<&'a Hca> {
        let node = self.node;
        let has_gid = |symptom: &Symptom, hca: &Hca| {
            let gid = symptom
                .named
                .local_gid
                .as_ref()
                .filter(|_| !symptom.named.has_other_gids);
            let place = gid.and_then(|gid| place(node, gid.parse().ok()?));
            place.is_some_and(|port| port.hca.name == hca.name)
        };
        let named = |hca: &&Hca| {
            self.symptoms
                .iter()
                .any(|symptom| symptom.named.device.as_ref() == Some(&hca.name) || has_gid(symptom, hca))
        };
        self.node.hcas().map(AsRef::as_ref).filter(named).collect()
    }

    /// The devices to consider: those that symptoms name, otherwise all.
    fn devices(&self) -> Vec<&'a Hca> {
        let named = self.named();
        if named.is_empty() {
            self.node.hcas().map(AsRef::as_ref).collect()
        } else {
            named
        }
    }

    /// The ports of the devices to consider.
    fn ports(&self) -> Vec<Port<'a>> {
        let node = self.node;
        let of = |hca: &'a Hca| node.ports_of(hca).collect::<Vec<_>>();
        self.devices().into_iter().flat_map(of).collect()
    }

    fn seen(&self, kinds: &[SymptomKind]) -> impl Iterator<Item = &Symptom> {
        let symptoms: Vec<_> = self
            .symptoms
            .iter()
            .filter(|s| kinds.contains(&s.kind))
            .copied()
            .collect();
        symptoms.into_iter()
    }

    /// The family of the adapters that the failure is about, if it is not NVIDIA's: the symptoms name a device of it, the log speaks of it,
    /// or the node has no others.
    pub(crate) fn family(&self) -> Option<Family> {
        let names: Vec<&str> = self
            .symptoms
            .iter()
            .filter_map(|symptom| symptom.named.device.as_deref())
            .collect();
        let of_names = names.iter().find_map(|name| Family::of(name));
        if of_names.is_some() || names.iter().any(|name| name.starts_with("mlx")) {
            return of_names;
        }
        let of_node = || {
            let drivers = self
                .devices()
                .into_iter()
                .map(|hca| hca.driver.known().map(String::as_str));
            let mut families = drivers.map(|driver| driver.and_then(Family::of));
            let first = families.next()??;
            families.all(|family| family == Some(first)).then_some(first)
        };
        // The plugin works over the providers of other networks, too.
        let may_be_efa = self.node.hcas().next().is_none() || of_node() == Some(Family::Efa);
        let is_named = |symptom: &&Symptom| {
            let text = symptom.text.to_ascii_lowercase();
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
            words.any(|word| word == "efa") || text.contains("net/ofi") && may_be_efa
        };
        if self.symptoms.iter().any(is_named) {
            return Some(Family::Efa);
        }
        self.log.and_then(|log| log.marks.family).or_else(of_node)
    }

    /// Whether the failure is about an Elastic Fabric Adapter.
    fn is_efa(&self) -> bool {
        self.family() == Some(Family::Efa)
    }

    /// Whether the log shows that its ports are InfiniBand.
    fn logs_infiniband(&self) -> bool {
        self.log.is_some_and(|log| log.marks.layers.is_infiniband())
    }

    /// Whether the log shows that its ports are Ethernet.
    fn logs_ethernet(&self) -> bool {
        self.log.is_some_and(|log| log.marks.layers.is_ethernet())
    }

    /// A failed registration of GPU memory, as far as the log shows.
    fn gpu_registration(&self) -> Option<&'a Symptom> {
        self.symptoms.iter().copied().find(|symptom| {
            let is_registration = matches!(
                symptom.kind,
                SymptomKind::RegMrFailed | SymptomKind::RegMrNoMemory
            );
            is_registration && symptom.named.gpu.is_some()
        })
    }

    /// Whether the job uses AMD's GPUs: the log shows it, or the node has no others.
    pub(crate) fn is_amd(&self) -> bool {
        let vendor = |gpu: Function<'_>| gpu.pci.and_then(|pci| pci.vendor.known().copied());
        let only_amd = || self.gpus() > 0 && self.node.gpus().all(|gpu| vendor(gpu) == Some(model::AMD));
        let registered = || {
            self.gpu_registration()
                .is_some_and(|symptom| symptom.named.gpu == Some(Gpu::Amd))
        };
        self.log.is_some_and(|log| log.marks.amd) || only_amd() || registered()
    }

    /// Whether nothing shows that a GPU takes part, and the program registers memory of the host only.
    fn is_without_gpu(&self) -> bool {
        let is_of_host = |log: &Log| log.marks.host_memory && !log.names_gpu;
        self.log.is_some_and(is_of_host)
            && self.gpus() == 0
            && self.symptoms.iter().all(|symptom| symptom.named.gpu.is_none())
    }

    fn gpus(&self) -> usize {
        self.node.gpus().count()
    }

    /// What the kernel logged about the devices to consider.
    fn events(&self, kinds: &[EventKind]) -> Vec<DeviceEvent<'a>> {
        let names: Vec<_> = self.devices().iter().map(|hca| hca.name.as_str()).collect();
        let is_considered = |found: &DeviceEvent<'_>| {
            let function = found.function.as_ref();
            function.is_some_and(|function| function.names.iter().any(|name| names.contains(name)))
        };
        let mut events = self.node.device_events();
        events.retain(|found| kinds.contains(&found.event.kind) && is_considered(found));
        events
    }

    /// The first line of the kernel log about an adapter that contains one of these phrases.
    fn kernel_line(&self, words: &[&str]) -> Option<&str> {
        let mut lines = self.node.kernel_lines().iter();
        let line = lines.find(|line| words.iter().any(|word| line.contains(word)))?;
        Some(line)
    }
}

/// The evidence for and against one cause.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scales {
    pub(crate) supports: Vec<Evidence>,
    pub(crate) contradicts: Vec<Evidence>,
    pub(crate) unseen: Vec<String>,
    pub(crate) score: i32,
    /// The next step, if the evidence shows a more specific one than the cause's own.
    pub(crate) next_step: Option<String>,
    /// The next step in place of every other, because the software that failed has its own settings.
    pub(crate) insisted_step: Option<String>,
    /// Whether it does not explain the symptom as it stands here, and is not worth a word.
    pub(crate) is_excluded: bool,
    /// The symptoms that the cause usually explains.
    pub(crate) often: &'static [SymptomKind],
}

fn evidence(source: impl Into<String>, value: impl Into<String>) -> Evidence {
    Evidence {
        source: source.into(),
        value: value.into(),
    }
}

impl Scales {
    /// A fact that shows the cause itself.
    fn shows(&mut self, source: impl Into<String>, value: impl Into<String>) {
        self.score += SHOWN;
        self.supports.push(evidence(source, value));
    }

    /// A fact that is consistent with the cause.
    fn fits(&mut self, source: impl Into<String>, value: impl Into<String>) {
        self.score += FITS;
        self.supports.push(evidence(source, value));
    }

    /// A fact that contradicts the cause.
    fn against(&mut self, source: impl Into<String>, value: impl Into<String>) {
        self.score += AGAINST;
        self.contradicts.push(evidence(source, value));
    }

    /// A fact that makes the cause less likely but does not contradict it.
    fn doubts(&mut self, source: impl Into<String>, value: impl Into<String>) {
        self.score += DOUBTFUL;
        self.contradicts.push(evidence(source, value));
    }

    /// Evidence that would be decisive but was not available.
    fn unseen(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.unseen.contains(&what) {
            self.unseen.push(what);
        }
    }

    fn supported(&self) -> bool {
        !self.supports.is_empty()
    }
}

/// The first symptom, if all come from probes, whose traffic does not leave the adapter.
fn only_probed<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let first = case.symptoms.first().copied()?;
    let all = case.symptoms.iter().all(|symptom| symptom.line.is_none());
    all.then_some(first)
}

/// The port that has a GID. A link-local one of InfiniBand or of a MAC address is of one port only, and so is an address.
pub(crate) fn place(node: &Node, gid: Ipv6Addr) -> Option<Port<'_>> {
    let has = |port: &Port<'_>| {
        port.gids()
            .is_some_and(|gids| gids.iter().any(|own| own.gid == gid))
    };
    let mut with: Vec<_> = node
        .ports()
        .filter(|port| !gid.is_unspecified() && has(port))
        .collect();
    let first = with.pop();
    first.filter(|_| with.is_empty())
}

pub(crate) fn nothing(_: &Case<'_>, _: &mut Scales) {}

/// Whether probes ran and none failed.
fn probes_passed(case: &Case<'_>) -> bool {
    let probes = || case.node.loopbacks();
    let passed = probes().any(|probe| probe.report.failure.is_none());
    passed && probes().all(|probe| probe.failure().is_none())
}
