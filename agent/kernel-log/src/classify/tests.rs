use super::*;

/// The device and kind in a line, as `0000:14:00.0 adapter-health`; `-` if it is not an event.
fn event(line: &str) -> String {
    classify(line).map_or("-".to_owned(), |report| {
        format!("{} {}", report.device, report.kind.name())
    })
}

fn check(lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(event(line), *expected, "{line}");
    }
}

#[test]
fn a_guest_whose_host_does_not_serve_it_has_no_adapter() {
    check(&[
        (
            "mlx4_core 0000:00:05.0: PF is not responsive, skipping initialization",
            "0000:00:05.0 probe-failed",
        ),
        (
            "mlx4_core 0000:00:05.0: slave driver version is not supported by the master",
            "0000:00:05.0 probe-failed",
        ),
    ]);
}

/// Lines of mlx5 and what they report.
const MLX5: &[(&str, &str)] = &[
    (
        "mlx5_core 0000:d2:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count",
        "0000:d2:00.0 adapter-health",
    ),
    (
        "mlx5_core 0000:0d:00.0: print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
        "0000:0d:00.0 adapter-health",
    ),
    (
        "mlx5_core 0000:0d:00.0: print_health_info:431:(pid 0): Health issue observed, unrecognized error, severity(6) INFO:",
        "-",
    ),
    (
        "mlx5_core 0000:0d:00.0: synd 0x8: unrecoverable hardware error",
        "0000:0d:00.0 adapter-health",
    ),
    (
        "mlx5_core 0000:0d:00.0: assert_exit_ptr 0x21492f38",
        "0000:0d:00.0 adapter-health",
    ),
    (
        "mlx5_core 0000:65:00.0: poll_health: Fatal error 1 detected",
        "0000:65:00.0 adapter-health",
    ),
    (
        "mlx5_core 0000:65:00.0: mlx5_health_try_recover: health recovery failed",
        "0000:65:00.0 adapter-health",
    ),
    (
        "mlx5_core 0000:65:00.0: mlx5_health_try_recover:338:(pid 9): health recovery succeeded",
        "0000:65:00.0 started",
    ),
    (
        "infiniband (null): The device didn't send any completion for admin cmd ALLOC_PD(1) status 0 (id: 3, cq consumer: 3)",
        "infiniband command-timeout",
    ),
    (
        "infiniband rdmap79s0: Failed to allocate pd[-62]",
        "rdmap79s0 command-timeout",
    ),
    (
        "infiniband rdmap79s0: Failed to create qp [-110]",
        "rdmap79s0 command-timeout",
    ),
    (
        "[qedr_create_user_qp:1852(qedr0)]create qp: failed on rdma create qp, rc = -12",
        "qedr0 resource-limit",
    ),
    (
        "[qed_cxt_acquire_cid:944(eth0)]no CID available for protocol 2",
        "eth0 resource-limit",
    ),
    ("infiniband mlx5_0: Failed to query port -1100", "-"),
    (
        "mlx5_core 0000:65:00.0: firmware version: 28.41.1000",
        "0000:65:00.0 started",
    ),
    (
        "mlx5_core 0000:03:00.0: wait_func:1195:(pid 112): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource",
        "0000:03:00.0 command-timeout",
    ),
    (
        "mlx5_core 0000:01:00.1: wait_func_handle_exec_timeout:1112:(pid 1): cmd[0]: ACCESS_REG(0x805) No done completion",
        "0000:01:00.1 command-timeout",
    ),
    (
        "mlx5_core 0000:14:00.0 rdma0: TX timeout on queue: 5, SQ: 0x1a3, CQ: 0x5c2",
        "0000:14:00.0 tx-timeout",
    ),
    (
        "NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 0 timed out",
        "eth2 tx-timeout",
    ),
    (
        "mlx5_core 0000:14:00.0 eth2: NETDEV WATCHDOG: CPU: 3: transmit queue 5 timed out 16040 ms",
        "0000:14:00.0 tx-timeout",
    ),
    (
        "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W).",
        "0000:5c:00.0 pci-power",
    ),
    (
        "mlx5_core 0004:01:00.0: mlx5_pcie_event:294:(pid 542): PCIe slot advertised sufficient power (75W).",
        "-",
    ),
    (
        "mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature",
        "0000:5c:00.0 module-fault",
    ),
    (
        "mlx5_core 0000:5c:00.0: port_module:249:(pid 0): Port module event[error]: module 1, Cable error, Power budget exceeded",
        "0000:5c:00.0 module-fault",
    ),
    (
        "mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, One or more network ports have been powered down due to insufficient/unadvertised power on the PCIe slot",
        "0000:5c:00.0 pci-power",
    ),
    (
        "mlx5_core 0000:5c:00.0: Port module event: module 0, Cable unplugged",
        "0000:5c:00.0 module-unplugged",
    ),
    (
        "mlx5_core 0000:5c:00.0: Port module event: module 0, Cable plugged",
        "0000:5c:00.0 module-plugged",
    ),
    (
        "mlx5_core 0000:5c:00.0: temp_warn:167:(pid 0): High temperature on sensors with bit set 0x0 0x1",
        "0000:5c:00.0 adapter-temperature",
    ),
    (
        "mlx5_core 0000:61:00.0: mlx5_function_enable:1479:(pid 1): Firmware over 120000 MS in pre-initializing state, aborting",
        "0000:61:00.0 firmware-init",
    ),
    (
        "mlx5_core 0000:61:00.0: probe_one:1591:(pid 69850): mlx5_init_one failed with error code -16",
        "0000:61:00.0 probe-failed",
    ),
    (
        "mlx5_core: probe of 0000:14:00.0 failed with error -12",
        "0000:14:00.0 probe-failed",
    ),
    (
        "mlx5_core 0000:14:00.0: probe with driver mlx5_core failed with error -110",
        "0000:14:00.0 probe-failed",
    ),
    (
        "mlx5_ib.rdma: probe of mlx5_core.rdma.3 failed with error -12",
        "mlx5_core.rdma.3 probe-failed",
    ),
    ("mlx5_core: probe of 0000:14:00.0 failed with error -517", "-"),
    (
        "mlx5_core 0000:14:00.0: mlx5_pci_err_detected Device state = 1 health sensors: 1 pci_status: 1. Enter, pci channel state = 2",
        "0000:14:00.0 pci-fatal",
    ),
    (
        "mlx5_core 0000:14:00.0 enp20s0f0np0: Link down",
        "0000:14:00.0 link-down",
    ),
    (
        "mlx5_core 0000:14:00.0: mlx5_cmd_out_err:838:(pid 1441871): CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8), syndrome (0x0)",
        "0000:14:00.0 resource-limit",
    ),
];

#[test]
fn distress_of_mlx5_is_recognised() {
    check(MLX5);
}

#[test]
fn what_is_harmless_is_no_event() {
    check(&[
        (
            "mlx5_core 0000:14:00.0: mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x305684), err(-22)",
            "-",
        ),
        (
            "pcieport 0000:00:01.0: AER: Correctable error message received from 0000:01:00.0",
            "-",
        ),
        (
            "pcieport 0000:00:01.0: AER: Multiple Corrected error received: id=00e5",
            "-",
        ),
        (
            "mlx5_core 0000:14:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
            "-",
        ),
        (
            "bnxt_en 0000:3b:00.0 p1p1: Firmware non-fatal reset event received, max wait time 6000 msec",
            "-",
        ),
        ("bnxt_en 0000:3b:00.0 p1p1: Unable to read VPD", "-"),
        (
            "bnxt_en 0000:3b:00.0 p1p1: hwrm req_type 0x190 seq id 0x6 error 0xffff",
            "-",
        ),
        (
            "mlx5_core 0000:14:00.0: E-Switch: Total vports 10, per vport: max uc(1024) max mc(16384)",
            "-",
        ),
        (
            "mlx5_core 0000:14:00.0: mlx5_query_mcia:406:(pid 1441871): query_mcia_reg failed: status: 0x3",
            "-",
        ),
        ("DMAR: DRHD: handling fault status reg 2", "-"),
        ("DMAR: IOMMU enabled", "-"),
        ("iommu: Default domain type: Passthrough", "-"),
    ]);
}

#[test]
fn distress_of_other_adapters_is_recognised() {
    check(&[
        (
            "bnxt_en 0000:41:00.0: QPLIB: cmdq[0x4b9]=0x15 timedout (20000)msec",
            "0000:41:00.0 command-timeout",
        ),
        (
            "bnxt_en 0000:41:00.0 ens1f0np0: Error (timeout: 5000015) msg {0x20 0x17} len:0",
            "0000:41:00.0 command-timeout",
        ),
        (
            "bnxt_en 0000:41:00.0 ens1f0np0: Abandoning msg {0x20 0x17} len: 0 due to firmware status: 0x89021",
            "0000:41:00.0 adapter-health",
        ),
        (
            "bnxt_en 0000:41:00.0 ens1f0np0: Firmware fatal reset event received",
            "0000:41:00.0 adapter-health",
        ),
        (
            "bnxt_en 0000:41:00.0 ens1f0np0: Firmware heartbeat stuck, not responding",
            "0000:41:00.0 adapter-health",
        ),
        (
            "bnxt_re.rdma: probe of bnxt_en.rdma.0 failed with error -22",
            "bnxt_en.rdma.0 probe-failed",
        ),
        (
            "ice 0000:63:00.0: PE critical error detected, requesting a reset",
            "0000:63:00.0 adapter-health",
        ),
        (
            "infiniband rocep7s0f1: CQP timeout, requesting a reset",
            "rocep7s0f1 command-timeout",
        ),
        (
            "infiniband rdmap16s27: The device didn't send any completion for admin cmd CREATE_QP(6) status 0",
            "rdmap16s27 command-timeout",
        ),
        (
            "infiniband rdmap0s6: Admin queue is closed",
            "rdmap0s6 adapter-health",
        ),
        (
            "efa 0000:00:06.0: Wait for completion (polling) timeout",
            "0000:00:06.0 command-timeout",
        ),
        (
            "efa 0000:00:06.0: Device isn't ready, abort com init",
            "0000:00:06.0 firmware-init",
        ),
        (
            "efa 0000:00:06.0: Reset indication didn't turn on",
            "0000:00:06.0 adapter-health",
        ),
        ("ena 0000:00:05.0 eth0: Admin queue is closed", "-"),
        (
            "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
            "nvidia-peermem peer-memory",
        ),
    ]);
}

#[test]
fn errors_of_gpus_are_told_from_those_of_their_applications() {
    check(&[
        (
            "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "0000:18:00.0 gpu-failed",
        ),
        (
            "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
            "0000:18:00.0 gpu-failed",
        ),
        (
            "NVRM: GPU 0000:3a:00.0: RmInitAdapter failed! (0x62:0xffff:2477)",
            "0000:3a:00.0 gpu-failed",
        ),
        (
            "[12.3] NVRM: Xid (PCI:0000:9A:00): 119, pid=77, name=python3, Timeout after 6s of waiting for RPC response from GPU0 GSP!",
            "0000:9a:00.0 gpu-failed",
        ),
        (
            "NVRM: Xid (PCI:0000:18:00): 74, pid=1, NVLink: fatal error detected on link 6",
            "0000:18:00.0 gpu-link-error",
        ),
        (
            "NVRM: Xid (PCI:0000:18:00): 31, pid=4711, name=python3, Ch 00000008, intr 10000000. MMU Fault: ENGINE GRAPHICS",
            "0000:18:00.0 gpu-error",
        ),
        (
            "NVRM: Xid (PCI:0000:18:00): 999, pid=1, name=x, from the future",
            "0000:18:00.0 gpu-error",
        ),
        // The end of an application's work, because of an error before it.
        (
            "NVRM: Xid (PCI:0000:18:00): 45, pid=1, name=python3, Ch 00000001 caused by previous Xid 149",
            "0000:18:00.0 gpu-link-error",
        ),
        (
            "NVRM: Xid (PCI:0000:18:00): 45, pid=1, name=python3, Ch 00000001 caused by previous Xid 43",
            "0000:18:00.0 gpu-error",
        ),
        (
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F) returned from rmStatus @ kernel_ce_gv100.c:106",
            "nvidia gpu-failed",
        ),
        (
            "NVRM: _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 76!",
            "-",
        ),
        // What a process is called does not count.
        (
            "NVRM: Xid (PCI:0000:18:00): 43, pid=1, name=79, fallen off, Ch 8",
            "0000:18:00.0 gpu-error",
        ),
        (
            "NVRM: Xid (PCI:0000:18:00): 154, pid=1, name=x, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            "0000:18:00.0 gpu-failed",
        ),
        (
            "NVRM: Xid (PCI:0000:18:00): 154, pid=1, name=x, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
            "0000:18:00.0 started",
        ),
        ("NVRM: GPU at PCI:0000:18:00: GPU-7f0c", "-"),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15", "-"),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 32 egress non-posted PRIV error",
            "0000:c1:00.0 gpu-link-error",
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32",
            "0000:c1:00.0 gpu-error",
        ),
        (
            "amdgpu 0000:43:00.0: amdgpu: GPU reset begin!. Source:  1",
            "0000:43:00.0 gpu-failed",
        ),
        (
            "amdgpu 0000:43:00.0: amdgpu: GPU reset(2) succeeded!",
            "0000:43:00.0 started",
        ),
        (
            "amdgpu 0000:43:00.0: amdgpu: socket: 0, die: 0 2 uncorrectable hardware errors detected in umc block",
            "0000:43:00.0 gpu-failed",
        ),
        (
            "amdgpu 0000:43:00.0: amdgpu: socket: 0 3 correctable hardware errors detected in total in umc block",
            "-",
        ),
        (
            "amdgpu 0000:43:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=9261",
            "0000:43:00.0 gpu-error",
        ),
        (
            "amdgpu 0000:43:00.0: amdgpu: RAS: optional ras ta ucode is not available",
            "-",
        ),
        ("NVRM: Xid (PCI:nonsense): 79, x", "-"),
        ("python3[7]: NVRM: Xid (PCI:0000:18:00): 79, x", "-"),
    ]);
}

#[test]
fn pcie_errors_name_the_function_behind_the_port() {
    check(&[
        (
            "pcieport 0000:12:00.0: AER: Uncorrected (Fatal) error message received from 0000:14:00.0",
            "0000:14:00.0 pci-fatal",
        ),
        (
            "pcieport 0000:12:00.0: AER: Uncorrectable (Fatal) error message received from 0000:14:00.0",
            "0000:14:00.0 pci-fatal",
        ),
        (
            "pcieport 0000:00:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:03:00.0",
            "0000:03:00.0 pci-fatal",
        ),
        (
            "pcieport 0000:00:03.0: AER: Uncorrected (Non-Fatal) error received: 0000:03:00.0",
            "0000:03:00.0 pci-nonfatal",
        ),
        (
            "mlx5_core 0000:14:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
            "0000:14:00.0 pci-fatal",
        ),
        (
            "mlx5_core 0000:14:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer",
            "0000:14:00.0 pci-nonfatal",
        ),
        (
            "pcieport 0000:a9:10.0: DPC: containment event, status:0x2009 source:0x0000",
            "0000:a9:10.0 pci-fatal",
        ),
        (
            "pcieport 0000:00:01.0: DPC: containment event, status:0x000d, ERR_FATAL received from 0000:02:00.0",
            "0000:02:00.0 pci-fatal",
        ),
        (
            "pcieport 0000:00:01.0: pciehp: Slot(3): Link Down",
            "0000:00:01.0 pci-fatal",
        ),
        (
            "mlx5_core 0000:14:00.0: Unable to change power state from D3cold to D0, device inaccessible",
            "0000:14:00.0 pci-fatal",
        ),
        (
            "xhci_hcd 0000:97:00.0: AER: can't recover (no error_detected callback)",
            "0000:97:00.0 pci-fatal",
        ),
    ]);
}

#[test]
fn faults_of_every_iommu_name_the_requester() {
    check(&[
        (
            "DMAR: [DMA Read NO_PASID] Request device [18:00.0] fault addr 0xfe000000 [fault reason 0x06] PTE Read access is not set",
            "0000:18:00.0 iommu-fault",
        ),
        (
            "DMAR: [DMA Write] Request device [0000:3b:00.1] PASID ffffffff fault addr 0 [fault reason 05]",
            "0000:3b:00.1 iommu-fault",
        ),
        (
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x000e address=0x0 flags=0x0070]",
            "0000:41:00.0 iommu-fault",
        ),
        (
            "mlx5_core 0000:c1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 address=0x1000 flags=0x0020]",
            "0000:c1:00.0 iommu-fault",
        ),
        (
            "arm-smmu-v3 arm-smmu-v3.5.auto: event: F_TRANSLATION client: 0001:06:00.0 sid: 0x20600 ssid: 0x0 iova: 0xff9bc000 ipa: 0x0",
            "0001:06:00.0 iommu-fault",
        ),
        (
            "arm-smmu-v3 arm-smmu-v3.5.auto: event: F_TRANSLATION client: (unassigned sid) sid: 0x20600 ssid: 0x0",
            "SMMU stream 0x20600 iommu-fault",
        ),
        (
            "arm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000010000000010",
            "SMMU stream 0x100 iommu-fault",
        ),
        (
            "arm-smmu-v3 arm-smmu-v3.0.auto: 0x00000180 00000010",
            "SMMU stream 0x180 iommu-fault",
        ),
        ("arm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000020000000000", "-"),
        ("arm-smmu-v3 arm-smmu-v3.0.auto: \t0x00000000ffffe010", "-"),
        (
            "arm-smmu 12c00000.iommu: Unhandled context fault: fsr=0x402, iova=0x0, fsynr=0x1, cbfrsynra=0x401, cb=3",
            "SMMU stream 0x401 iommu-fault",
        ),
        (
            "[    0.938401] kernel: DMAR: [DMA Read NO_PASID] Request device [0x5e:0x00.0] fault addr 0x70ad5000",
            "0000:5e:00.0 iommu-fault",
        ),
        (
            "DMAR: [DMA Read PASID 0x2] Request device [6a:01.0] fault addr 0x7fe0c9943000 [fault reason 0x3a] SM",
            "0000:6a:01.0 iommu-fault",
        ),
        ("DMAR: [DMA Read] Request device [nonsense] fault addr 0", "-"),
    ]);
}

#[test]
fn the_name_of_a_process_is_not_what_the_kernel_says() {
    check(&[
        (
            "DMAR: [DMA Read[7]: segfault at 0 ip 0 sp 0 error 4 in x] Request device [18:00.0] fault addr[55+1]",
            "-",
        ),
        (
            "python3[7]: segfault at 0 in DMAR: [DMA Read] Request device [18:00.0] fault addr[55+1]",
            "-",
        ),
        ("mlx5_core 0000:14:00.0 net1: renamed from fatal", "-"),
        ("mlx5_core (4711): fatal", "-"),
        ("x y: AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0]", "-"),
        ("efa 00:06.0: page allocation failure: fatal", "-"),
        ("python3[7]: kernel: mlx5_core 0000:14:00.0: fatal", "-"),
    ]);
}

#[test]
fn a_line_of_a_journal_is_recognised() {
    check(&[
        (
            "Sep 22 09:59:09 n1 kernel: mlx5_core 0000:14:00.0: handling bad device here",
            "0000:14:00.0 adapter-health",
        ),
        (
            "[52.1] mlx5_core 0000:14:00.0 rdma0: TX timeout detected",
            "0000:14:00.0 tx-timeout",
        ),
        (
            "3,302,863990000301,-;mlx5_core 0000:14:00.0 rdma0: TX timeout detected",
            "0000:14:00.0 tx-timeout",
        ),
    ]);
}

#[test]
fn a_device_that_the_core_could_not_set_up_did_not_start() {
    check(&[
        (
            "infiniband ionic_0: Couldn't create ib_mad QP1",
            "ionic_0 probe-failed",
        ),
        ("infiniband hns_2: Couldn't open port 1", "hns_2 probe-failed"),
        (
            "infiniband bnxt_re0: Couldn't change QP1 state to INIT: -110",
            "bnxt_re0 command-timeout",
        ),
        ("infiniband mlx5_3: Couldn't start port", "mlx5_3 probe-failed"),
        ("infiniband mlx5_3: Couldn't close port 1 for agents", "-"),
        ("usb 1-1: Couldn't open port 1", "-"),
    ]);
}

#[test]
fn power_handles_pcie_errors_by_itself() {
    check(&[
        (
            "PCI 0030:01:00.0#fd: EEH: Invoking mlx5_core->error_detected(IO frozen)",
            "0030:01:00.0 pci-fatal",
        ),
        (
            "EEH: PE#800000 (PCI 0384:80:00.0): Invoking mlx5_core->error_detected(IO frozen)",
            "0384:80:00.0 pci-fatal",
        ),
        (
            "PCI 0030:01:00.0#fd: EEH: mlx5_core driver reports: 'disconnect'",
            "0030:01:00.0 pci-fatal",
        ),
        (
            "PCI 0030:01:00.0#fd: EEH: Invoking mlx5_core->resume()",
            "0030:01:00.0 started",
        ),
        ("PCI 0030:01:00.0#fd: EEH: Invoking mlx5_core->slot_reset()", "-"),
        ("EEH: Notify device drivers to shutdown", "-"),
        ("EEH: Frozen PHB#28-PE#10000 detected", "0028:01:00.0 pci-fatal"),
        ("EEH: Frozen PHB#0-PE#1 detected", "0000:00:00.0 pci-fatal"),
        ("EEH: Frozen PE#fd on PHB#1 detected", "0001:00:00.0 pci-fatal"),
        (
            "EEH: Fenced PHB#2 detected, location: N/A",
            "0002:00:00.0 pci-fatal",
        ),
        (
            "EEH: PHB#0 failure detected, location: N/A",
            "0000:00:00.0 pci-fatal",
        ),
        (
            "EEH: Unable to recover from failure from PHB#28-PE#10000.",
            "0028:01:00.0 pci-fatal",
        ),
        ("EEH: PE location: N/A, PHB location: N/A", "-"),
        ("EEH: This PCI device has failed 1 times in the last hour", "-"),
    ]);
}

#[test]
fn a_pcie_error_ends_with_its_recovery() {
    check(&[
        (
            "pcieport 0000:10:01.0: AER: device recovery successful",
            "0000:10:01.0 started",
        ),
        (
            "pcieport 0000:10:01.0: AER: device recovery failed",
            "0000:10:01.0 pci-fatal",
        ),
        (
            "mlx5_core 0000:14:00.0: AER: aer_uncor_severity: 0x00463010",
            "0000:14:00.0 pci-nonfatal",
        ),
        (
            "mlx5_core 0000:14:00.0: AER: aer_status: 0x00001000, aer_mask: 0x00006000",
            "-",
        ),
    ]);
}

#[test]
fn a_gpu_without_an_address_range_does_not_work() {
    check(&[
        (
            "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:69:00.0)",
            "0000:69:00.0 gpu-failed",
        ),
        ("NVRM: BAR1 is 131072M @ 0x20000000000 (PCI:0000:69:00.0)", "-"),
    ]);
}

#[test]
fn an_error_of_a_driver_that_is_not_known_is_reported_as_such() {
    check(&[
        (
            "3,1,1,-;mlx5_core 0000:14:00.0: a sentence from the future",
            "0000:14:00.0 driver-error",
        ),
        ("6,1,1,-;mlx5_core 0000:14:00.0: a sentence from the future", "-"),
        ("mlx5_core 0000:14:00.0: a sentence from the future", "-"),
    ]);
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_panic(line in ".{0,200}", tail in "[0-9a-fx:. \\[\\],;=-]{0,80}") {
        let _ = classify(&line);
        for prefix in ["NVRM: Xid (PCI:0000:18:00): ", "amdgpu 0000:18:00.0: ", "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): ", "arm-smmu-v3 x: ", "arm-smmu-v3 x: 0x", "DMAR: Request device [", "mlx5_core ", "3,1,1,-;mlx5_core 0000:14:00.0: ", "pcieport 0000:00:03.0: AER: Uncorrected (Fatal) error received: ", "NETDEV WATCHDOG: ", "mlx5_core: probe of "] {
            let _ = classify(&format!("{prefix}{line}{tail}"));
            let _ = classify(&format!("{prefix}{tail}{line}"));
        }
    }
}
