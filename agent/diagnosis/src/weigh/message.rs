//! Causes that the message itself shows, and what the remedy depends on.

use rdma_health_protocol::Errno;

use super::{Case, Scales};
use crate::symptom::{Software, Symptom, SymptomKind};

/// The program asks for what the adapter does not have. EFA has no RC queue pairs.
pub(crate) fn unsupported(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::UnsupportedAdapter]).next() {
        if symptom.text.to_ascii_lowercase().contains("verbs nic") {
            scales.next_step = Some(
                "PSM3 cannot use this adapter, or may not open it. Choose another provider of libfabric: FI_PROVIDER=\"verbs;ofi_rxm\", or tcp \
                where the adapter has no RC queue pairs (fi_info lists the providers and their devices). If PSM3 is intended, check ls -l \
                /dev/infiniband where the job runs, and name an adapter that it supports: PSM3_NIC."
                    .into(),
            );
        }
        return scales.fits(&symptom.source, &symptom.text);
    }
    let created = [SymptomKind::CreateRefused, SymptomKind::CreateUnexplained];
    let Some(symptom) = case.seen(&created).next() else {
        return;
    };
    let is_of_efa = matches!(symptom.software, Some(Software::Libfabric));
    if case.is_efa() && !is_of_efa {
        scales.next_step = Some(
            "Use a transport for EFA: libfabric's provider efa (fi_info -p efa lists its devices), with NCCL the plugin aws-ofi-nccl. \
            perftest needs --connection=SRD and a build with EFA; fi_pingpong -p efa tests the path between two nodes."
                .into(),
        );
        scales.shows(
            &symptom.source,
            format!("{}: EFA has no RC queue pairs", symptom.text),
        );
        return;
    }
    // These calls exist for one vendor's adapters only: driver or firmware do not support them.
    let is_of_vendor = ["mlx5dv_", "devx"].iter().any(|name| symptom.text.contains(name));
    let unsupported = [Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EPROTONOSUPPORT];
    if symptom
        .named
        .errno
        .is_some_and(|errno| unsupported.contains(&errno) && !is_of_vendor)
    {
        scales.fits(&symptom.source, &symptom.text);
    }
}

/// The namespace mode that a plugin needs: the device plugin for shared devices and rdma-cni need opposite ones.
pub(crate) fn pod_network(case: &Case<'_>, scales: &mut Scales) {
    let Some(symptom) = case.seen(&[SymptomKind::NetworkAttachFailed]).next() else {
        return;
    };
    scales.fits(&symptom.source, &symptom.text);
    let text = symptom.text.to_ascii_lowercase();
    // k8s-rdma-shared-dev-plugin compares the mode with "shared".
    if text.contains("incorrect rdma subsystem network namespace") {
        scales.next_step = Some(
            "The device plugin for shared RDMA devices needs the shared mode: rdma system set netns shared, before any pod uses a device, and at \
            boot options ib_core netns_mode=1 in /etc/modprobe.d. If this node's pods shall have RDMA devices of their own (rdma-cni, \
            exclusive mode), remove the shared device plugin from it instead."
                .into(),
        );
    } else if ["exclusive", "namespace mode", "failed to move rdma"]
        .iter()
        .any(|words| text.contains(words))
    {
        scales.next_step = Some(
            "rdma-cni needs the exclusive mode: rdma system set netns exclusive, before any pod uses a device, and at boot options ib_core \
            netns_mode=0 in /etc/modprobe.d. The device plugin for shared RDMA devices does not work in this mode."
                .into(),
        );
    }
}

/// What does not load, and what the remedy is where the message names it.
pub(crate) fn backend(case: &Case<'_>, scales: &mut Scales) {
    let Some(symptom) = case.seen(&[SymptomKind::BackendMissing]).next() else {
        return scales.unseen("the library's own log of the failure");
    };
    scales.fits(&symptom.source, &symptom.text);
    let text = symptom.text.to_ascii_lowercase();
    if ["cuda", "rocm", "gdr_copy", "gpu(s)", "memory is detected"]
        .iter()
        .any(|word| text.contains(word))
        && symptom.software == Some(Software::Ucx)
    {
        scales.next_step = Some(
            "Run ucx_info -d | grep -i -e cuda -e rocm where the job runs. If it lists nothing, install a UCX that was built for the GPUs \
            (--with-cuda, --with-rocm), with its modules (libuct_cuda, libuct_rocm). If it lists them, UCX_TLS leaves them out: unset it or add \
            them."
                .into(),
        );
    } else if text.contains("glibc") {
        scales.next_step = Some(
            "The library was built for a newer C library than the image has (ldd --version). Use an image with at least the version that the \
            message names, or a build of the library for this image."
                .into(),
        );
    }
}

/// The step where a package of modules could not be built on the node.
pub(super) fn build_step(symptom: &Symptom) -> Option<&'static str> {
    let text = symptom.text.to_ascii_lowercase();
    let is_build = symptom.kind == SymptomKind::ModuleMismatch
        && [
            "dkms",
            "installation failed",
            "failed to install",
            "failed to build",
            "add_kernel_support",
        ]
        .iter()
        .any(|words| text.contains(words));
    is_build.then_some(
        "Read why the build failed: /var/lib/dkms/PACKAGE/VERSION/build/make.log, or the log that the installer names. Install the headers of the \
        running kernel (linux-headers-$(uname -r), kernel-devel-$(uname -r)) and the compiler that built it, or a release of the driver package that \
        supports this kernel. Then build again (dkms autoinstall, or install the package again), and restart.",
    )
}

/// DPDK found a function without an RDMA device. Returns whether it did.
pub(super) fn unbound(case: &Case<'_>, scales: &mut Scales) -> bool {
    let found = case.seen(&[SymptomKind::NoDevice]).find(|symptom| {
        symptom
            .text
            .to_ascii_lowercase()
            .contains("are kernel drivers loaded")
    });
    let Some(symptom) = found else { return false };
    let function = symptom.named.function.as_deref().unwrap_or("ADDRESS");
    scales.fits(&symptom.source, &symptom.text);
    scales.next_step = Some(format!(
        "On the host, show the driver of the function: ls -l /sys/bus/pci/devices/{function}/driver. DPDK's mlx5 works through the kernel's driver, \
        not vfio-pci: bind the function to mlx5_core (echo {function} > /sys/bus/pci/drivers/mlx5_core/bind), and load mlx5_ib and ib_uverbs. Then \
        ls /sys/bus/pci/devices/{function}/infiniband names the RDMA device. In a container, the program also needs /dev/infiniband."
    ));
    true
}
