//! The module that a function needs, and what keeps it from being loaded or from working.

use rdma_health_node::{Function, Node, boot::Available, modprobe::Line, modules::KNOWN, platform::Cluster};

use crate::{Remedy, remedy::kernel_argument};

use super::{
    LOAD_ON_A_HOST, RDMA_MODULES_MISSING,
    kernel_module::{
        allow, blacklisted, configured_off, given_up, module_of, modules_of, on_foreign_core, outdated,
        refused, unsigned, unsupported,
    },
    load_here,
};

/// The module that should have made the RDMA device of a function, and what kept it from that.
pub(super) struct Module<'a> {
    /// `None` if it is not known which one.
    pub(super) name: Option<&'static str>,
    pub(super) loaded: Option<bool>,
    /// The module that drives the function and that the first one needs, if it is another one and no driver holds the function.
    pub(super) core: Option<&'static str>,
    pub(super) core_loaded: Option<bool>,
    /// The lines of the configuration of modprobe that keep one of them from being loaded.
    pub(super) off: Vec<&'a Line>,
    /// The line of the kernel log that says that it refuses modules because of their signature.
    pub(super) unsigned: Option<&'a str>,
    /// The list of the modules of the running kernel, if it does not have the one that is not loaded.
    pub(super) without_file: Option<&'a Available>,
    /// The argument of the kernel command line that keeps it from being loaded.
    pub(super) blacklisted: Option<String>,
    /// The line of the kernel log that says why the kernel did not accept it.
    pub(super) refused: Option<&'a str>,
    /// The line of the kernel log that says that the function has no RDMA.
    pub(super) unsupported: Option<&'a str>,
    /// The line of the kernel log that says that the firmware of the function is too old for its driver.
    pub(super) outdated: Option<&'a str>,
    /// What its driver logged when it failed on an RDMA core that is not the one that it was built for.
    pub(super) foreign: Option<&'a str>,
    /// What the driver of the function logged last when it gave the function up.
    pub(super) given_up: Option<&'a str>,
    /// Whether the node is a virtual machine, in which an adapter can be neither reset nor updated.
    is_guest: bool,
    /// Whether the module that should hold the function, or make its RDMA device, is loaded.
    is_loaded: bool,
    /// Whether no driver holds the function.
    is_unbound: bool,
}

impl<'a> Module<'a> {
    pub(super) fn of(node: &'a Node, function: &Function<'_>) -> Self {
        let (core, name) = match function.driver {
            Some(driver) => (None, module_of(driver)),
            None => modules_of(function.ids()).map_or((None, None), |(core, name)| (core, Some(name))),
        };
        let has = |name: Option<&str>| name.and_then(|name| node.modules.has(name));
        let (core_loaded, loaded) = (has(core), has(name));
        // Without its driver, the reason for that comes first.
        let first = if core_loaded.is_some() { core } else { name };
        let is_missing = core_loaded.or(loaded) == Some(false);
        let missing = first.filter(|_| is_missing);
        let blacklisted = first
            .filter(|_| is_missing || loaded.is_none())
            .and_then(|name| blacklisted(node, name));
        let off = missing.map_or_else(Vec::new, |name| configured_off(node, name));
        let refused = missing.and_then(|name| refused(node, name));
        let is_loaded = core_loaded.or(loaded) == Some(true);
        let is_explained = blacklisted.is_some() || !off.is_empty() || refused.is_some();
        Self {
            name,
            loaded,
            core,
            core_loaded,
            without_file: missing
                .filter(|_| !is_explained)
                .and_then(|name| without_file(node, name)),
            unsigned: missing.filter(|_| !is_explained).and_then(|_| unsigned(node)),
            blacklisted,
            off,
            refused,
            unsupported: name
                .filter(|_| is_loaded)
                .and_then(|name| unsupported(node, name, function.address)),
            outdated: outdated(node, function.address).filter(|_| is_loaded),
            foreign: name
                .filter(|_| is_loaded)
                .and_then(|name| on_foreign_core(node, name)),
            given_up: given_up(node, function.address).filter(|_| is_loaded),
            is_guest: node.is_virtual_machine(),
            is_loaded,
            is_unbound: function.driver.is_none(),
        }
    }

    /// Whether the configuration keeps it from being loaded.
    pub(super) fn is_off(&self) -> bool {
        self.blacklisted.is_some() || !self.off.is_empty()
    }

    /// The module that the finding is about: one that is not loaded, one that does not hold the function, or that for RDMA.
    pub(super) fn concerned(&self) -> Option<&'static str> {
        self.first_missing().or(self.core).or(self.name)
    }

    /// The module that is not loaded; the driver of the function before the module for RDMA, which waits for it.
    pub(super) fn first_missing(&self) -> Option<&'static str> {
        match (self.core, self.core_loaded) {
            (Some(core), Some(false)) => Some(core),
            (Some(_), Some(true)) => None,
            _ => self.name.filter(|_| self.loaded == Some(false)),
        }
    }

    /// Why the function has no RDMA device, as far as it is known.
    pub(super) fn why_not(&self) -> String {
        let state = match (self.first_missing(), self.is_loaded) {
            (Some(name), _) => format!("{name} is not loaded"),
            (None, true) => {
                let name = self.concerned().unwrap_or("the module");
                format!("{name} is loaded but did not bind to it")
            }
            _ => "no module bound to it".into(),
        };
        let cause = if self.without_file.is_some() {
            ", and the running kernel has no such module"
        } else if self.refused.is_some() {
            ", because the kernel refused it"
        } else if self.unsigned.is_some() {
            ", and the kernel refused a module because of its signature"
        } else if self.unsupported.is_some() {
            ", because the firmware of the adapter offers no RDMA (the driver says that it is not supported)"
        } else if self.outdated.is_some() {
            ", and the driver says that the firmware of the adapter is too old"
        } else if self.foreign.is_some() {
            ", and the RDMA core that is loaded is that of MLNX_OFED or DOCA-OFED, of which it is not a part"
        } else {
            ""
        };
        format!("{state}{cause}")
    }

    /// What to do on any node.
    pub(super) fn remedy(&self) -> Remedy {
        match self.name {
            _ if self.without_file.is_some() => WITHOUT_FILE,
            _ if self.unsigned.is_some() => UNSIGNED,
            _ if self.unsupported.is_some() => SWITCHED_OFF,
            _ if self.is_loaded => match self.outdated {
                Some(_) => OUTDATED,
                None if self.foreign.is_some() => FOREIGN_CORE,
                None if self.is_unbound && self.is_guest => match self.given_up {
                    Some(_) => GIVEN_UP_IN_A_GUEST,
                    None => NO_DRIVER_BOUND_IN_A_GUEST,
                },
                None if self.is_unbound && self.given_up.is_some() => GIVEN_UP,
                None if self.is_unbound => NO_DRIVER_BOUND,
                None if self.name == Some("habanalabs_ib") => GAUDI_DID_NOT_BIND,
                None => DID_NOT_BIND,
            },
            _ if self.refused.is_some() => REFUSED,
            Some("mlx5_ib" | "mlx4_ib") if self.first_missing().is_some() => Remedy {
                any: LOAD_OF_OTHERS.any,
                ..RDMA_MODULES_MISSING.remedy
            },
            None | Some("mlx5_ib" | "mlx4_ib") => RDMA_MODULES_MISSING.remedy,
            _ => LOAD_OF_OTHERS,
        }
    }

    /// What to do on this node, with its commands; `None` if that is not known or no command helps.
    pub(super) fn remedy_here(&self, node: &Node) -> Option<String> {
        if let Some(argument) = &self.blacklisted {
            let commands = kernel_argument::remove(argument, node.platform());
            return Some(format!(
                "Remove {argument} from the kernel command line, if RDMA is wanted here: it keeps the module from being loaded.\n{commands}"
            ));
        }
        if self.refused.is_some() || self.unsigned.is_some() || self.without_file.is_some() {
            return None;
        }
        let missing = self.first_missing()?;
        let name = self.name.unwrap_or(missing);
        if !self.off.is_empty() {
            let allowed = allow(&self.off, missing);
            return load_here(node, &allowed, &["ib_uverbs", name]).or(Some(allowed));
        }
        if missing == "mlx4_core" && node.modules.is_ofed() == Some(true) {
            return Some(WITHOUT_MLX4.to_owned());
        }
        let mut any = LOAD_OF_OTHERS.any.replace("MODULE", missing);
        if name.starts_with("mlx") && node.platform().cluster != Some(Cluster::Host) {
            any.push_str(
                " If a pod of the NVIDIA Network Operator manages OFED, check that pod, because it unloads the modules of the kernel first.",
            );
        }
        load_here(node, &any, &["ib_uverbs", name])
    }
}

/// The list of the modules of the running kernel, if a module is neither in it nor built in.
fn without_file<'a>(node: &'a Node, module: &str) -> Option<&'a Available> {
    let available = node.boot.available.known()?;
    (KNOWN.contains(&module) && !available.names.contains(module)).then_some(available)
}

/// What to do where the running kernel does not have the module.
const WITHOUT_FILE: Remedy = Remedy {
    any: "Install MODULE for the kernel that runs (uname -r), which does not have it: modprobe cannot load it. It is in the package with the rest of the kernel's modules, or in the driver package of the vendor, which DKMS builds for each kernel if its headers are installed. A live or minimal image may have neither. Then load it: modprobe MODULE.",
    kubernetes: "If a pod builds the driver on the node (NVIDIA Network Operator), check its log.",
    host: "Ubuntu: apt install linux-modules-extra-$(uname -r); RHEL, Fedora: dnf install kernel-modules-extra-$(uname -r); others: dkms status; dkms autoinstall -k         $(uname -r); then depmod -a; modinfo -n MODULE",
    ..Remedy::all("")
};

/// What to do where the module of an adapter by another vendor than NVIDIA is not loaded.
const LOAD_OF_OTHERS: Remedy = Remedy {
    any: "Load MODULE, and read what the driver logs: journalctl -k | grep ADDRESS. If modprobe finds no such module, install the one for the kernel \
        that runs (uname -r).",
    openshift: "Load MODULE at boot with a MachineConfig that writes /etc/modules-load.d/rdma-MODULE.conf.",
    host: LOAD_ON_A_HOST,
    ..Remedy::all("")
};

/// What to do where the module is loaded and its adapter has no RDMA device.
const DID_NOT_BIND: Remedy = Remedy {
    any: "Read why MODULE did not bind: journalctl -k | grep -e ADDRESS -e MODULE. RDMA may be disabled for the function: \
        devlink dev param show pci/ADDRESS name enable_rdma (for RoCE: name enable_roce). If it is enabled, drain the node, because \
        this ends the connections of all its adapters, then unload and load the module.",
    host: "modprobe -r MODULE; modprobe MODULE",
    ..Remedy::all("")
};

/// The same for a Gaudi, whose functions have no parameters for RDMA.
const GAUDI_DID_NOT_BIND: Remedy = Remedy {
    any: "Read why MODULE did not bind: journalctl -k | grep -e ADDRESS -e habanalabs. Check that the card answers: hl-smi. If it does, drain the node, \
        then unload and load the module. If it does not, restart the node.",
    host: "hl-smi; modprobe -r MODULE; modprobe MODULE",
    ..Remedy::all("")
};

/// What to do where the driver of a function is loaded and does not hold it.
const NO_DRIVER_BOUND: Remedy = Remedy {
    any: "Read why MODULE did not take the adapter (journalctl -k | grep -e ADDRESS -e MODULE), then let it try again. If MODULE does not know the \
        adapter (modinfo MODULE | grep alias), update it. If it fails again, update or reset the firmware of the adapter; a power cycle (not a reboot) also resets it.",
    host: "echo ADDRESS > /sys/bus/pci/drivers_probe; cat /sys/bus/pci/devices/ADDRESS/driver_override",
    ..Remedy::all("")
};

/// What to do where its driver gave the function up, and logged why.
const GIVEN_UP: Remedy = Remedy {
    any: "MODULE gave the adapter up and logged REASON. Read the messages before that one (journalctl -k | grep -e ADDRESS -e MODULE), then let it try again. If \
        it fails again, update MODULE, and update or reset the firmware of the adapter; a power cycle (not a reboot) also resets it.",
    ..NO_DRIVER_BOUND
};

/// The same in a virtual machine.
const GIVEN_UP_IN_A_GUEST: Remedy = Remedy {
    any: "MODULE gave the adapter up and logged REASON. Read the messages before that one (journalctl -k | grep -e ADDRESS -e MODULE), then let it try again. If \
        it fails again, use a MODULE that fits the kernel, or stop and start the instance (a reboot keeps it on the same host).",
    ..NO_DRIVER_BOUND
};

/// What to do in a virtual machine where the driver of a function is loaded and does not hold it.
const NO_DRIVER_BOUND_IN_A_GUEST: Remedy = Remedy {
    any: "Read why MODULE did not take the adapter (journalctl -k | grep -e ADDRESS -e MODULE), then let it try again. If MODULE does not know the \
        adapter (modinfo MODULE | grep alias), or was built for another kernel (modinfo -F vermagic MODULE; uname -r), update it. If it fails again, stop and \
        start the instance (a reboot keeps it on the same host).",
    ..NO_DRIVER_BOUND
};

/// What to do where the RDMA core is one for which a driver was not built.
pub(in super::super) const FOREIGN_CORE: Remedy = Remedy {
    any: "Use one RDMA stack: the RDMA core that is loaded (ib_core) is that of MLNX_OFED or DOCA-OFED, and MODULE is not part of that package, so it could not start there: it \
        logged REASON. Where no adapter of NVIDIA needs the package, remove it (ofed_uninstall.sh, or its packages), install the driver of the adapter's vendor again \
        (on EC2: the EFA installer) and restart. Otherwise build MODULE against the core of the package. The adapter is not faulty.",
    host: "modinfo -n ib_core MODULE; lsmod | grep mlx_compat; dkms status; journalctl -k | grep -e MODULE -e ADDRESS",
    ..Remedy::all("")
};

/// What to do where the driver asks for newer firmware.
const OUTDATED: Remedy = Remedy {
    any: "Update the firmware of the adapter to a release that its driver supports, because the driver says that it is too old, then reboot. Loading \
        MODULE again does not help.",
    host: "journalctl -k | grep ADDRESS; NVIDIA: mstflint -d ADDRESS query, mlxfwmanager -d ADDRESS; others: the tool of the vendor",
    ..Remedy::all("")
};

/// What to do where the firmware of the adapter offers no RDMA.
const SWITCHED_OFF: Remedy = Remedy {
    any: "RDMA is switched off in the settings of the adapter's firmware (NVM), or its firmware does not offer it: switch it on and update the \
        firmware, then power-cycle the node. Loading MODULE again does not help.",
    host: "Broadcom: niccli -i 1 nvm -getoption support_rdma (bnxtnvm with older packages), set it to 1; Intel: update the NVM and the DDP package (ice), and \
        check the port option: devlink port show; NVIDIA: mlxconfig -d ADDRESS query; all: devlink dev info pci/ADDRESS",
    ..Remedy::all("")
};

/// What to do where the kernel refused the module.
const REFUSED: Remedy = Remedy {
    any: "MODULE was built for other RDMA modules or another kernel than those that run. Reinstall the package that it comes from for this kernel \
        (dkms autoinstall, or the installer of the vendor; MLNX_OFED: mlnxofedinstall --add-kernel-support), run depmod -a, write the initramfs again, and reboot. Compare where the modules \
        come from (modinfo -n MODULE ib_core).",
    kubernetes: "If the NVIDIA Network Operator manages OFED, restart its OFED pod, which builds the modules for the kernel that runs.",
    host: "uname -r; dkms status; modinfo MODULE | grep -e filename -e vermagic",
    ..Remedy::all("")
};

/// What to do where MLNX_OFED or DOCA-OFED is too new for the adapter.
const WITHOUT_MLX4: &str = "This adapter (ConnectX-3 or older) needs mlx4_core and mlx4_ib, which MLNX_OFED since 5.1 and DOCA-OFED do not have: remove \
    that package and use the modules of the kernel (modprobe mlx4_ib), or install MLNX_OFED 4.9 LTS.";

/// What to do where the kernel accepts only signed modules.
const UNSIGNED: Remedy = Remedy {
    any: "With Secure Boot, the kernel accepts only modules that are signed with a key that it trusts, and MODULE is not loaded. Enrol the key of the \
        driver package (mokutil --import KEY.der, restart, and confirm it in the menu of the firmware), or install its signed packages, or \
        switch Secure Boot off. Then load the module: modprobe MODULE.",
    host: "mokutil --sb-state; modinfo MODULE | grep -e filename -e sig; cat /sys/kernel/security/lockdown; DKMS keeps its key in \
        /var/lib/dkms/mok.pub",
    ..Remedy::all("")
};
