//! PCI functions and their IOMMU groups.

use rdma_health_node::{
    Fact, Function, Node,
    iommu::DomainType,
    pci::{self, Role, Sriov},
};

use super::text;
use crate::table::{Labelled, Samples, table};

pub(crate) const NOTE: &str = "PCI functions are those of RDMA devices, GPUs, the bridges above them, and network functions \
    that could do RDMA. IOMMU groups are those of RDMA functions and GPUs, except for functions that vfio-pci holds for a \
    virtual machine. `device` is the RDMA device on a function; it is empty on a GPU.";

table! {
    /// Families of each RDMA function and GPU that the host itself uses, where its IOMMU group is known.
    IOMMU_GROUPS {"pci_address", "device", "role"}: IommuGroup<'_>;

    Gauge "rdma_iommu_group_info" [""] {"group", "type"}
        "IOMMU group of an RDMA function or GPU, and its type: identity is passthrough, DMA-FQ and DMA are translated."
        => samples(|group, samples| samples.info([&group.number, group.domain.as_str()]));
    Gauge "rdma_iommu_group_translated" [""] {}
        "Whether the IOMMU translates the DMA addresses of an RDMA function or GPU."
        => value(|group| group.domain.is_recognised().then(|| group.domain.is_translated()));
}

table! {
    /// Families of each PCI function that matters to RDMA.
    FUNCTIONS {"pci_address", "role"}: PciFunction<'_>;

    Gauge "rdma_pci_function_info" [""] {"vendor", "device_id", "driver", "physical_function"}
        "A PCI function that matters to RDMA; role is" one_of &Role::NAMES
        => samples(|function, samples| info(function.pci, samples));
    Gauge "rdma_pci_numa_node" [""] {}
        "NUMA node of a PCI function."
        => value(|function| function.pci.numa_node.known().copied());
    Gauge "rdma_pci_link_speed_transfers_per_second" ["transfers/s and lane"] {}
        "Current speed of a PCIe link in transfers per second and lane."
        => value(|function| function.pci.link.speed.known().copied().map(transfers));
    Gauge "rdma_pci_link_best_speed_transfers_per_second" ["transfers/s and lane"] {}
        "Highest speed that both ends of a PCIe link support, in transfers per second and lane."
        => value(|function| function.best_speed.map(transfers));
    Gauge "rdma_pci_link_width_lanes" ["lanes"] {}
        "Current width of a PCIe link in lanes."
        => value(|function| function.pci.link.width.known().copied());
    Gauge "rdma_pci_link_best_width_lanes" ["lanes"] {}
        "Largest width that both ends of a PCIe link support, in lanes."
        => value(|function| function.best_width);
    Gauge "rdma_pci_max_read_request_bytes" ["bytes"] {}
        "Maximum read request size of a PCI function in bytes."
        => value(|function| function.pci.capabilities.known()?.max_read_request);
    Gauge "rdma_pci_max_payload_bytes" ["bytes"] {}
        "Maximum payload size of a PCI function in bytes."
        => value(|function| function.pci.capabilities.known()?.max_payload);
    Gauge "rdma_pci_gpu_aperture_bytes" ["bytes"] {}
        "Size of the largest memory region of a GPU in bytes (BAR1 of NVIDIA's): as much of its memory as GPUDirect can map at once."
        => value(|function| function.pci.aperture.known().copied());
    Gauge "rdma_pci_acs_redirect" [""] {}
        "Whether ACS redirects peer-to-peer traffic of a PCI function to the root complex; only for functions with ACS."
        => value(|function| Some(function.pci.capabilities.known()?.acs?.redirects()));
}

table! {
    /// Families of each PCI function that can have virtual functions.
    SRIOV {"pci_address"}: &Sriov;

    Gauge "rdma_pci_virtual_functions" [""] {}
        "Number of SR-IOV virtual functions that are enabled on a physical function."
        => value(|sriov| Some(sriov.active));
    Gauge "rdma_pci_virtual_functions_possible" [""] {}
        "Maximum number of SR-IOV virtual functions of a physical function."
        => value(|sriov| Some(sriov.possible));
}

/// The IOMMU group of one RDMA device's function, or of a GPU.
pub(crate) struct IommuGroup<'a> {
    number: String,
    domain: &'a DomainType,
}

/// One PCI function that could be read.
pub(crate) struct PciFunction<'a> {
    pci: &'a pci::Function,
    /// In megatransfers per second.
    best_speed: Option<u32>,
    /// In lanes.
    best_width: Option<u32>,
}

/// The groups of those of the node's functions whose DMA the host relies on. Several RDMA devices may share a function.
pub(crate) fn iommu_groups<'a>(functions: &'a [Function<'a>]) -> Vec<Labelled<IommuGroup<'a>>> {
    let mut groups = Vec::new();
    for function in functions.iter().filter(|function| function.is_dma_of_host()) {
        let (Some(number), Some(domain)) = (function.group, function.dma) else {
            continue;
        };
        let names: &[&str] = if function.names.is_empty() {
            &[""]
        } else {
            &function.names
        };
        for device in names {
            let labels = [function.address, device, function.role.name()];
            let number = number.to_string();
            groups.push(IOMMU_GROUPS.labelled(&labels, IommuGroup { number, domain }));
        }
    }
    groups
}

/// The functions that could be read.
pub(crate) fn functions<'a>(node: &'a Node, functions: &'a [Function<'a>]) -> Vec<Labelled<PciFunction<'a>>> {
    let subject = |function: &Function<'a>| {
        let pci = function.pci?;
        let (best_speed, best_width) = node.pci.best_link(pci);
        let of = PciFunction {
            pci,
            best_speed,
            best_width,
        };
        Some(FUNCTIONS.labelled(&[function.address, function.role.name()], of))
    };
    functions.iter().filter_map(subject).collect()
}

/// The functions that can have virtual functions.
pub(crate) fn sriov<'a>(functions: &'a [Function<'a>]) -> Vec<Labelled<&'a Sriov>> {
    let subject = |function: &Function<'a>| {
        let sriov = function.pci?.sriov.known()?;
        Some(SRIOV.labelled(&[function.address], sriov))
    };
    functions.iter().filter_map(subject).collect()
}

fn info(pci: &pci::Function, samples: &mut Samples<'_, '_, 4>) {
    let id = |id: &Fact<u16>| id.known().map_or(String::new(), |id| format!("{id:#06x}"));
    let (vendor, device) = (id(&pci.vendor), id(&pci.device));
    samples.info([&vendor, &device, text(&pci.driver), text(&pci.physical_function)]);
}

/// Transfers per second, from the reader's megatransfers.
fn transfers(speed: u32) -> u64 {
    u64::from(speed) * 1_000_000
}
