//! Command lines and their arguments without what could identify a user or contain a secret.
//!
//! Listed arguments are shown, with those parts of their values that are numbers or listed words. All else is hidden.

use super::{EVALUATED, arguments, boolean, normal, words};

/// Replaces what is hidden.
const HIDDEN: &str = "<hidden>";

/// Arguments whose values are shown; `-` and `_` are equal. Parameters of modules are listed one by
/// one: the kernel accepts any name after the name of a module.
const HARMLESS: &str = "\
    amd_iommu amd_iommu_dump amd_iommu_intr amd_pstate apparmor audit boot_image cgroup_disable cgroup_enable \
    cgroup_no_v1 clocksource console crashkernel default_hugepagesz efi enforcing fips hpet hugepages hugepagesz idle \
    init_on_alloc init_on_free intel_idle.max_cstate intel_iommu intel_pstate iommu iommu.forcedac iommu.passthrough \
    iommu.strict irqaffinity isolcpus loglevel mem mem_encrypt memmap mitigations modprobe.blacklist module_blacklist \
    net.ifnames nohz nohz_full nr_cpus numa numa_balancing panic pci pcie_acs_override pcie_aspm pcie_port_pm pcie_ports \
    processor.max_cstate rcu_nocbs selinux swiotlb transparent_hugepage tsc \
    ib_core.netns_mode ib_core.recv_queue_size ib_core.send_queue_size ib_ipoib.recv_queue_size ib_ipoib.send_queue_size \
    ionic_rdma irdma.limits_sel irdma.resource_profile irdma.roce_ena kvm.ignore_msrs kvm.nx_huge_pages \
    mlx4_core.debug_level mlx4_core.enable_sys_tune mlx4_core.log_mtts_per_seg mlx4_core.log_num_mgm_entry_size \
    mlx4_core.log_num_mtt mlx4_core.log_num_qp mlx4_core.msi_x mlx4_core.num_vfs mlx4_core.port_type_array \
    mlx4_core.probe_vf mlx5_core.debug_mask mlx5_core.prof_sel nvme_core.default_ps_max_latency_us nvme_core.io_timeout \
    nvme_core.multipath nvidia.nvreg_enablegpufirmware nvidia.nvreg_enablemsi \
    nvidia.nvreg_enablepcierelaxedorderingmode nvidia.nvreg_enablestreammemops nvidia.nvreg_nvlinkdisable \
    nvidia.nvreg_openrmenableunsupportedgpus nvidia.nvreg_preservevideomemoryallocations \
    nvidia.nvreg_restrictprofilingtoadminusers nvidia.nvreg_usepageattributetable nvidia_drm.fbdev nvidia_drm.modeset \
    nvidia_peermem.peerdirect_support nvidia_peermem.persistent_api_support \
    vfio_iommu_type1.allow_unsafe_interrupts vfio_iommu_type1.dma_entry_limit vfio_pci.disable_idle_d3 \
    vfio_pci.disable_vga vfio_pci.enable_sriov vfio_pci.ids";

/// Arguments without a value that are shown, in addition to [`HARMLESS`].
const BARE: &str = "\
    debug efi_no_storage_paranoia ignore_loglevel intremap kexec_jump_back_entry nmi_watchdog noacpi noapic nofb nofpu \
    nohibernate nohlt noibpb noibrs nokaslr nolapic nomce nomodeset nopcid nopti nopv noresume norandmaps nortsched nosmap \
    nosmep nosmp nosmt nosoftlockup nospectre_v1 nospectre_v2 nosplash notsc nowatchdog nox2apic noxsave nvme_load \
    plymouth pti quiet rhgb ro rootwait rw single skew_tick splash threadirqs verbose vga";

/// Words of the values of [`HARMLESS`], in the kernel's spelling. A digit is written as `#`, any number of digits as well.
const VALUES: &str = "\
    acpi acpi_pm active all allowdac always amd amdgpu assign-busses ast auto aws azure big_root_window biomerge bios \
    boot bnxt_re cfs config_acs conf# conservative cpu cpuset cpu_no_drain crit dbg deferred debug default dma domain \
    domain_size downstream earlydump efa efi efifb el# enable enabled el#_# disable disabled disable_acs_redir exactmap \
    fc# firmware flush fullflush fc force force_enable force_isolation forcedac generic gcp gpt# guided gke halt hd# \
    high hpet hfi# hpbussize hpiosize hpmemsize hpmmiosize hpmmioprefsize hugetlb hvc# hwp i#iw i#e ib_core ib_ipoib \
    ib_uverbs id igb igfx_off io irdma irtcachedis ixgbe kernel low lowlatency madvise managed_irq mce memaper memory \
    merge migrate mana_ib mlx#_core mlx#_en mlx#_ib multifunction n never native no noacs noaer noaperture noats \
    noautogroup nobios nocrs nodev nodomains noforce nohugepages nohwp nohz nomerge nommconf nomsi nomwait none nopanic \
    nopt nosmt nosoftreserve notsc nouveau nouveau.modeset nowatchdog nvidia nvidiafb nvidia_drm nvidia_peermem \
    nvidia_uvm nv_peer_mem off offline offset old_map on once only_hwp oracle panic passive pcie_bus_peer#peer \
    pcie_bus_perf pcie_bus_safe pcie_bus_tune_off pcie_scan_all per_cpu_perf_limits performance pgtbl_v# pids pmem poll \
    powersave powersupersave preempt prefer privatemem pt qedr radeon rdma_rxe realloc reliable rdma_cm rdma_ucm \
    resource_alignment rivafb rt runtime siw skx sm_off sm_on snd_hda_intel soft sp_off strict support_hwp swap \
    tboot_noforce tdx trusted tsc tty# ttyAMA# ttyS# undefined unstable use_crs use_e# v#_pgsizes_only vmlinuz x#_# y \
    yes";

/// Longest number in a value: more digits could be anything.
const MAX_DIGITS: usize = 12;

/// A command line without values that could identify a user or contain a secret (`root=UUID=…`, `ip=…`, passwords). It
/// hides all arguments that are not on a list of harmless ones, except for the names of those with a value, all parts of
/// values that are not numbers or listed words, and all arguments for init. It is idempotent.
pub fn without_secrets(cmdline: &str) -> String {
    let mut shown: Vec<String> = arguments(cmdline).map(argument).collect();
    if words(cmdline).any(|word| word == "--") {
        shown.push(format!("-- {HIDDEN}"));
    }
    shown.join(" ")
}

/// One argument as it is shown. [`super::IommuArguments`] evaluates it as before.
pub(super) fn argument(argument: &str) -> String {
    let Some((key, found)) = argument.split_once('=') else {
        let normal = normal(argument);
        let listed = || HARMLESS.split_whitespace().chain(BARE.split_whitespace());
        let is_shown = !argument.starts_with('"') && listed().any(|bare| bare == normal);
        return if is_shown { argument } else { HIDDEN }.to_owned();
    };
    let normal = normal(key);
    let is_evaluated = EVALUATED.contains(&normal.as_str());
    // With a quote before it, the kernel evaluates it and `IommuArguments` does not.
    if !is_argument_name(key) || is_evaluated && key.starts_with('"') {
        return HIDDEN.to_owned();
    }
    let name = key.trim_start_matches('"');
    if is_evaluated || !key.starts_with('"') && HARMLESS.split_whitespace().any(|harmless| normal == harmless)
    {
        return format!("{name}={}", value(&normal, found));
    }
    // The end of a secret in Base64 looks like an argument without a value.
    if found.trim_start_matches('=').is_empty() {
        return HIDDEN.to_owned();
    }
    format!("{name}={HIDDEN}")
}

/// Whether this looks like the name of a kernel argument; other text could contain anything.
fn is_argument_name(name: &str) -> bool {
    let name = name.trim_start_matches('"');
    (1..=40).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// The value of a listed argument. What is hidden of an evaluated one does not change its meaning.
fn value(key: &str, value: &str) -> String {
    if matches!(key, "iommu.passthrough" | "iommu.strict" | "mem_encrypt") {
        return match boolean(value) {
            Some(_) if is_part(value) => value,
            Some(true) => "1",
            Some(false) => "0",
            None => HIDDEN,
        }
        .to_owned();
    }
    let parts = value
        .split(',')
        .map(|part| if is_part(part) { part } else { HIDDEN });
    parts.collect::<Vec<_>>().join(",")
}

/// Whether a part of a list consists of numbers and listed words (`4G@8G`, `1-3`, `memaper=3`, `/boot/vmlinuz-5.15.0`,
/// `0000:41:00.0`).
fn is_part(part: &str) -> bool {
    let is_separator = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let is_known_separator = |c: char| "-.:@/=!$+()".contains(c);
    part.chars().all(|c| !is_separator(c) || is_known_separator(c))
        && (is_value(part)
            || part
                .split(is_separator)
                .all(|word| word.is_empty() || is_value(word)))
}

/// A number (`64`, `0x1f`, `16G`, `115200n8`, a PCI identifier), or a word of [`VALUES`].
fn is_value(word: &str) -> bool {
    let is_hex = |digits: &str| digits.len() <= MAX_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(digits) = word.strip_prefix("0x") {
        return is_hex(digits);
    }
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let unit = &word[digits..];
    let is_unit = matches!(unit, "" | "K" | "M" | "G" | "T" | "k" | "m" | "g" | "n8" | "n8r");
    // Bus, device and vendor numbers have up to four digits.
    if digits > 0 && digits <= MAX_DIGITS && is_unit || word.len() <= 4 && digits > 0 && is_hex(word) {
        return true;
    }
    let shape = shape(word);
    VALUES
        .split_whitespace()
        .any(|known| known == word || known == shape)
}

/// The word with each run of digits replaced by `#`.
fn shape(word: &str) -> String {
    let mut shape = String::new();
    for c in word.chars() {
        match c {
            '0'..='9' if shape.ends_with('#') => {}
            '0'..='9' => shape.push('#'),
            _ => shape.push(c),
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::IommuArguments, *};

    #[test]
    fn values_that_could_identify_a_user_or_contain_a_secret_are_hidden() {
        let cmdline = "BOOT_IMAGE=/vmlinuz root=UUID=1f2e quiet ip=10.1.2.3::10.1.2.1 rd.luks.key=hunter2 \
            \"ignition.config.url=http://a b/?token=x\" intel_iommu=on mlx5_core.debug_mask=1 iommu=pt -- --password p";
        assert_eq!(
            without_secrets(cmdline),
            "BOOT_IMAGE=/vmlinuz root=<hidden> quiet ip=<hidden> rd.luks.key=<hidden> ignition.config.url=<hidden> \
             intel_iommu=on mlx5_core.debug_mask=1 iommu=pt -- <hidden>"
        );
    }

    #[test]
    fn a_word_that_is_not_a_name_and_a_parameter_that_is_not_listed_are_hidden() {
        let cmdline = "password:hunter2 alice@host /home/alice mlx5_core.password=hunter2 \
            nvidia.NVreg_RegistryDwords=\"PW=hunter2;x\" vfio-pci.ids=10de:1234 pci=\"hunter2;x\" \
            \"iommu=hunter2 pt\" memmap=4G@8G";
        assert_eq!(
            without_secrets(cmdline),
            "<hidden> <hidden> <hidden> mlx5_core.password=<hidden> nvidia.NVreg_RegistryDwords=<hidden> \
             vfio-pci.ids=10de:1234 pci=<hidden> <hidden> memmap=4G@8G"
        );
    }

    #[test]
    fn what_is_not_listed_is_hidden_also_in_a_listed_argument() {
        for (cmdline, shown) in [
            ("quiet hunter2pw ro iommu=pt", "quiet <hidden> ro iommu=pt"),
            (
                "rd.luks.key=a\\ secret x",
                "rd.luks.key=<hidden> <hidden> <hidden>",
            ),
            ("c2VjcmV0cGFzcw== token=", "<hidden> <hidden>"),
            ("intel_iommu=on,SECRET", "intel_iommu=on,<hidden>"),
            ("iommu.passthrough=1=SECRET", "iommu.passthrough=1"),
            ("mem_encrypt=offSECRET", "mem_encrypt=0"),
            ("console=ttyS0,115200n8,X", "console=ttyS0,115200n8,<hidden>"),
            ("BOOT_IMAGE=/boot/vmlinuz-SECRET", "BOOT_IMAGE=<hidden>"),
            ("pci=realloc=on,SECRET@x", "pci=realloc=on,<hidden>"),
            (
                "modprobe.blacklist=nouveau,alice",
                "modprobe.blacklist=nouveau,<hidden>",
            ),
            ("hugepages=8;x", "hugepages=<hidden>"),
        ] {
            assert_eq!(without_secrets(cmdline), shown);
        }
        for cmdline in [
            "BOOT_IMAGE=(hd0,gpt2)/boot/vmlinuz-5.15.0-1052-nvidia ro quiet splash",
            "BOOT_IMAGE=/boot/vmlinuz-5.14.0-427.13.1.el9_4.x86_64 crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M",
            "isolcpus=managed_irq,domain,1-7 nohz_full=1-7 console=tty0 console=ttyS0,115200n8 memmap=4G!8G",
            "iommu=memaper=3,pt intel_iommu=on,sm_on amd_iommu=pgtbl_v2 iommu.strict=0 pci=disable_acs_redir=0000:41:00.0",
            "transparent_hugepage=never mitigations=auto,nosmt pcie_aspm=off nvidia_drm.modeset=1 vfio-pci.ids=10de:2330",
        ] {
            assert_eq!(without_secrets(cmdline), cmdline);
        }
    }

    proptest! {
        #[test]
        fn hiding_keeps_the_iommu_arguments_and_is_idempotent(cmdline in "((iommu=|root=|-- |\"|[a-z =,.-]){0,9} ?){0,9}") {
            let hidden = without_secrets(&cmdline);
            prop_assert_eq!(without_secrets(&hidden), hidden.clone());
            prop_assert_eq!(IommuArguments::parse(&hidden), IommuArguments::parse(&cmdline));
        }
    }
}
