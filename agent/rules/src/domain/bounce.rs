//! DMA through bounce buffers.

use rdma_health_node::{Node, kmsg::EventKind};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Writer,
    domain::logged::{Part, faults},
    remedy::kernel_argument,
};

/// `dma-bounce-full`.
pub static BOUNCE_FULL: Rule = Rule {
    id: "dma-bounce-full",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::WARNING),
    title: "The bounce buffers for DMA (SWIOTLB) of an adapter are full",
    explanation: "A device that cannot reach the memory of the host itself, in an encrypted (confidential) virtual machine or because of short DMA \
        addresses, transfers through a fixed area, from which the kernel copies: SWIOTLB. The driver of the adapter found no room there: \
        queues cannot be created, packets are dropped, and the adapter may not start.",
    remedy: Remedy {
        any: ANY,
        host: "grep -i swiotlb /proc/cmdline; grep . /sys/kernel/debug/swiotlb/*; journalctl -k -b | grep -i -e swiotlb -e 'Memory Encryption'",
        ..Remedy::all("")
    },
    false_alarms: "Only what the kernel logged about RDMA adapters counts. The size of the area does not change until the next boot, so an old message counts, too.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Job],
    judge: |node: &Node, _: &Expectations| {
        faults(
            node,
            &BOUNCE_FULL,
            Part::Adapters,
            &[EventKind::BounceFull],
            |_, finding| {
                let remedy = kernel_argument::added(node, ANY, "swiotlb=524288");
                Some(finding.written_remedy(remedy))
            },
        )
    },
};

const ANY: &str = "Enlarge the area with the kernel argument swiotlb=N, in slots of 2 KiB: swiotlb=524288 is 1 GiB. On a machine that is not encrypted, \
    remove swiotlb=force and iommu=off from the command line instead, so that the device reaches the memory itself.";
