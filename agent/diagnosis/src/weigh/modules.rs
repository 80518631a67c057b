//! Modules of the kernel that are not loaded.

use super::{Case, Scales, message};
use crate::{
    log::services,
    origin::is_without_adapter,
    symptom::{Symptom, SymptomKind},
};

pub(crate) fn modules(case: &Case<'_>, scales: &mut Scales) {
    const MISSING: [SymptomKind; 2] = [SymptomKind::ModuleMissing, SymptomKind::CmUnavailable];
    // Each driver of a network card, and its RDMA part.
    const PARTS: [(&str, &str); 5] = [
        ("mlx5_core", "mlx5_ib"),
        ("mlx4_core", "mlx4_ib"),
        ("bnxt_en", "bnxt_re"),
        ("ice", "irdma"),
        ("qede", "qedr"),
    ];
    let without = PARTS.iter().find(|(card, rdma)| {
        case.node.modules.has(card) == Some(true) && case.node.modules.has(rdma) == Some(false)
    });
    if let Some((card, rdma)) = without.filter(|_| case.node.hcas().next().is_none()) {
        scales.next_step = Some(format!(
            "Load the RDMA module of the adapter: modprobe {rdma}. If it fails, check dmesg and that the \
            module belongs to the running kernel."
        ));
        return scales.shows("/proc/modules", format!("{card} is loaded, {rdma} is not"));
    }
    if let Some(lent) = lent(case) {
        let Lent { address, driver, .. } = lent;
        scales.insisted_step = Some(format!(
            "Bind {address} to its own driver, unless a virtual machine is to have it: it is bound to {driver}, so that it has no RDMA device. On the host: echo {address} > \
            /sys/bus/pci/devices/{address}/driver/unbind; echo > /sys/bus/pci/devices/{address}/driver_override; echo {address} > /sys/bus/pci/drivers_probe. \
            ls /sys/bus/pci/devices/{address}/infiniband must then name a device. driverctl list-overrides and /etc/modprobe.d (vfio-pci ids=) show what binds it at each start. DPDK's mlx5 needs \
            mlx5_core, too."
        ));
        return scales.shows(format!("/sys/bus/pci/devices/{address}/driver"), driver);
    }
    if message::unbound(case, scales) {
        return;
    }
    if case.seen(&MISSING).next().is_none() && is_without_adapter(case.node) {
        return scales.doubts("/sys/bus/pci/devices", "no adapter that a module could serve");
    }
    if let Some(symptom) = case
        .seen(&[SymptomKind::NoDevice])
        .next()
        .filter(|_| case.log.is_some_and(|log| log.marks.lists_adapter))
    {
        return scales.fits(
            &symptom.source,
            "lspci lists the adapter, and it has no RDMA device",
        );
    }
    let closed = || {
        case.seen(&[SymptomKind::OpenFailed])
            .find(|symptom| is_of_management(&symptom.text.to_ascii_lowercase()))
    };
    if let Some(symptom) = case.seen(&MISSING).next().or_else(closed) {
        if let Some(driver) = missing_driver(case) {
            scales.shows(
                &symptom.source,
                format!("the driver {driver} of the adapter is missing"),
            );
        }
        return reported(case, symptom, scales);
    }
    match (
        case.node.modules.has("ib_uverbs"),
        case.node.modules.loaded.unread(),
    ) {
        (Some(true), _) if !scales.supported() => scales.against("/proc/modules", "ib_uverbs is loaded"),
        (_, Some(unread)) => scales.unseen(format!("loaded modules: {unread}")),
        _ => {}
    }
}

/// A PCI function whose RDMA device a program misses, and that is handed to a virtual machine or to user space.
pub(super) struct Lent<'a> {
    /// What the log shows.
    pub(super) symptom: &'a Symptom,
    pub(super) address: &'a str,
    pub(super) driver: &'a str,
}

/// Such a function that the log names.
pub(super) fn lent<'a>(case: &Case<'a>) -> Option<Lent<'a>> {
    const MISSED: [SymptomKind; 3] = [
        SymptomKind::NoDevice,
        SymptomKind::DeviceAbsent,
        SymptomKind::OpenFailed,
    ];
    let functions = case.node.functions();
    let mut missed = case.symptoms.iter().copied();
    missed.find_map(|symptom| {
        let address = symptom.named.function.as_deref();
        let address = address.filter(|_| MISSED.contains(&symptom.kind))?;
        let function = functions.iter().find(|function| function.address == address)?;
        Some(Lent {
            symptom,
            address,
            driver: function.driver.filter(|_| function.lent_to.is_some())?,
        })
    })
}

/// The driver of an adapter that the log names as missing: no device can be there without it.
pub(super) fn missing_driver<'a>(case: &Case<'a>) -> Option<&'a str> {
    const DRIVERS: [&str; 16] = [
        "mlx4_ib",
        "mlx5_ib",
        "mlx4_core",
        "mlx5_core",
        "irdma",
        "i40iw",
        "bnxt_re",
        "qedr",
        "hfi1",
        "efa",
        "mana_ib",
        "ionic_rdma",
        "erdma",
        "iw_cxgb4",
        "rdma_rxe",
        "siw",
    ];
    let missing = &case.log?.missing_modules;
    missing
        .iter()
        .map(String::as_str)
        .find(|name| DRIVERS.contains(name))
}

/// What a message reports of a module that is not loaded, and where to get it from.
fn reported(case: &Case<'_>, symptom: &Symptom, scales: &mut Scales) {
    scales.fits(&symptom.source, &symptom.text);
    let text = symptom.text.to_ascii_lowercase();
    if ["unclaimed", "no kernel driver in use"]
        .iter()
        .any(|words| text.contains(words))
    {
        scales.next_step = Some(UNBOUND.to_owned());
        return;
    }
    let absent = case.log.map(|log| &log.missing_modules);
    let option = symptom
        .text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .find(|word| word.starts_with("CONFIG_"));
    if let Some(option) = option.filter(|_| text.contains(" is not enabled")) {
        scales.next_step = Some(format!(
            "Boot a kernel that is built with {option}: grep {option} /boot/config-$(uname -r) shows whether the running one is. No module can be loaded for it. Until then, \
            leave RDMA out (for a mount, without the option rdma)."
        ));
        return;
    }
    let refused = text
        .split_once("failed loading kernel module ")
        .and_then(|(_, rest)| rest.split([':', ' ', '[']).next())
        .filter(|name| !name.is_empty());
    if let Some(module) = refused {
        scales.next_step = Some(format!(
            "Load the module by hand and read why the kernel refuses it: modprobe {module}; dmesg | tail. Symbols that are unknown or disagree show modules of \
            two packages: unload those of the other one (lsmod | grep ib_core shows what uses it) or build the driver package for this kernel again, then \
            restart openibd or the driver container."
        ));
        return;
    }
    if let Some(service) = services::loader(&text) {
        scales.next_step = Some(format!(
            "Read why the service could not load the modules of RDMA: journalctl -b -u {service}; dmesg | grep -i -e symbol -e 'version magic' -e mlx -e infiniband. \
            Modules of another kernel or of two packages do not load: build the driver package for this kernel again (dkms autoinstall, depmod -a), or \
            remove it and use the kernel's own. Then restart the service."
        ));
        return;
    }
    if let Some(absent) = absent.filter(|absent| !absent.is_empty()) {
        let names: Vec<_> = absent.iter().map(String::as_str).collect();
        let (what, them) = match names.as_slice() {
            [name] => (format!("module {name}"), "it"),
            names => (format!("modules {}", names.join(", ")), "them"),
        };
        // Kernels of clouds leave them out.
        let is_software = names.iter().any(|name| ["rdma_rxe", "siw"].contains(name));
        let without = if is_software {
            " If no package of this kernel has it (grep -e RXE -e SIW /boot/config-$(uname -r)), boot another one: kernels made for a cloud leave it out."
        } else {
            ""
        };
        scales.next_step = Some(format!(
            "Install the package that contains the {what} for the running kernel (linux-modules-extra, kernel-modules-extra, or the \
            RDMA driver package built with it), run depmod -a, and load {them}: modprobe -a {}.{without}",
            names.join(" ")
        ));
        return;
    }
    if text.contains("/sys/kernel/config/") {
        scales.next_step = Some(OF_CONFIGFS.to_owned());
        return;
    }
    if ["rdma resources for", "rdma is required in"]
        .iter()
        .any(|words| text.contains(words))
    {
        scales.next_step = Some(OF_DRIVER.to_owned());
        return;
    }
    if text.contains("rdma device \"issm\"") || text.contains("missing rdma device spec") {
        scales.next_step = Some(OF_PLUGIN.to_owned());
        return;
    }
    let module = module_of(symptom, &text);
    scales.next_step = Some(if module == "ib_umad" {
        "Load the module on the node: modprobe ib_umad, and add its name to a file in /etc/modules-load.d. The tools of the fabric need \
        /dev/infiniband/umad*, which only root may open: run them as root, and in a container mount /dev/infiniband."
            .into()
    } else {
        format!(
            "Load the module on the node: modprobe {module}, and add its name to a file in /etc/modules-load.d. Then restart what reported it."
        )
    });
    if case.node.modules.has(module) == Some(true) {
        scales.doubts("/proc/modules", format!("{module} is loaded now"));
        if text.contains("/dev/infiniband") {
            scales.next_step = Some(OF_FILES.to_owned());
        }
    }
}

/// What to do where a list of hardware shows an adapter that no driver has.
const UNBOUND: &str = "No driver has the adapter that the log lists. lspci -nnk -s ADDRESS names the modules that fit it. Load one, and read why it does not start the \
    adapter: modprobe mlx5_core (mlx4_core for ConnectX-3 and older), then dmesg | tail. grep -r -e blacklist -e install /etc/modprobe.d shows whether a module is kept \
    out. If no module fits, the kernel or the driver package does not know the model: install a release that does.";

/// What to do where a function has no RDMA device: a device plugin looks for the directory `infiniband` of the function.
const OF_DRIVER: &str = "Load the RDMA driver of the adapter on the node: modprobe mlx5_ib (bnxt_re, irdma, ionic_rdma for those of Broadcom, Intel and AMD). ls \
    /sys/bus/pci/devices/ADDRESS/infiniband must then list a device. If it does not, the function may be of a model without RDMA, or RDMA is off for it: \
    devlink dev param show pci/ADDRESS name enable_roce.";

/// What to do where a device plugin asks of a function for the file that only subnet managers need.
const OF_PLUGIN: &str = "Look at the function in the message: ls /sys/bus/pci/devices/ADDRESS/infiniband, then rdma link show. Only a port of InfiniBand has the file issm. A function of Ethernet, or one without an RDMA device, does not belong \
    into this resource: narrow the selector of the plugin (vendors, deviceIDs, drivers, ifNames, linkTypes). On ports of InfiniBand the module ib_umad makes the file, and lsmod | grep ib_umad shows whether it is loaded.";

/// What to do where the settings of `rdma_cm` have no directory.
const OF_CONFIGFS: &str = "Mount configfs and load the module that makes the directory: mount -t configfs none /sys/kernel/config; modprobe rdma_cm. Then ls \
    /sys/kernel/config/rdma_cm works as root, and mkdir of a device's name (rdma link show) makes its settings. In a container, run the tool on the host.";

/// What to do where a container shall have a file that the host does not have, and the module that makes it is loaded.
const OF_FILES: &str = "Give the container only files that the host has: ls -l /dev/infiniband on the host lists them. The numbers of uverbsN change when the driver \
    starts again or an adapter is missing, so start the container (or the device plugin) again after that. If the directory is empty although the module is loaded, \
    udev did not make the files: udevadm trigger --subsystem-match=infiniband_verbs.";

/// Whether a message in lower case is about the devices of management packets: it names one, or a tool that sends them reports its own port.
fn is_of_management(text: &str) -> bool {
    ["issm", "umad", "iberror: "]
        .iter()
        .any(|word| text.contains(word))
}

/// The module that a message misses; `text` is the message in lower case.
fn module_of(symptom: &Symptom, text: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["crc"]) {
        "crc32_generic"
    } else if has(&["infiniband_srp", "ib_srp "]) {
        "ib_srp"
    } else if has(&["ib_srpt"]) {
        "ib_srpt"
    } else if has(&["transport iser"]) {
        "ib_iser"
    } else if has(&["mount.lustre"]) {
        "lustre"
    } else if has(&["transport rdma", "nvme-fabrics"]) {
        "nvme-rdma"
    } else if is_of_management(text) {
        "ib_umad"
    } else if symptom.kind == SymptomKind::CmUnavailable || has(&["rdma_cm", "rdma_ucm"]) {
        "rdma_ucm"
    } else {
        "ib_uverbs"
    }
}
