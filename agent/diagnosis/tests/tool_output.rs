//! What users paste of tools that show the state of an adapter, of its link and of its firmware, and their sound relatives.

#![allow(missing_docs)]

mod common;

use common::{each_is, first, kinds};

#[test]
fn the_state_that_a_tool_shows_leads_to_its_cause() {
    for (text, cause) in [
        (
            "# ethtool rdma3\nSettings for rdma3:\n\tSpeed: Unknown!\n\tLink detected: no (No cable)\n",
            "port-down",
        ),
        (
            "7: rdma2: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 9000 qdisc mq state DOWN mode DEFAULT\n",
            "port-down",
        ),
        (
            "    - net type: o2ib\n      local NI(s):\n        - nid: 10.20.0.5@o2ib\n          status: down\n",
            "port-down",
        ),
        (
            "01:00.0 Ethernet controller: Mellanox Technologies MT27500 Family [ConnectX-3]\n\
             \t\tLnkCap:\tPort #8, Speed 8GT/s, Width x4, ASPM L0s\n\t\tLnkSta:\tSpeed 5GT/s (downgraded), Width x1 (downgraded)\n",
            "pci-path",
        ),
        (
            "pci/0000:17:00.0:\n  reporter fw_fatal\n    state error error 1 recover 0 auto_recover true\n",
            "device-fault",
        ),
        (
            "\tLaser rx power low alarm   (Chan 1)       : On\n",
            "link-quality",
        ),
        (
            "-E- Cable query failed, No plugged cable detected.\n",
            "link-quality",
        ),
        (
            "ERROR:  nhc:  Health check failed:  check_hw_ib:  No IB port mlx5_0:1 is ACTIVE (LinkUp 400 Gb/sec).\n",
            "port-down",
        ),
        (
            "infiniband unhealthy: only 7 port(s) are active and >=400 Gb/s, expect >=8 port(s)\n",
            "port-down",
        ),
        (
            "[W] VERBS RDMA open error verbsPort mlx5_1/1 due to port state IBV_PORT_DOWN\n\
             [E] VERBS RDMA failed to start, no valid verbsPorts defined.\n",
            "port-down",
        ),
        (
            "WARNING [Link] IBPort [default(4) / Switch: leaf1 / NA / 36]: Link went down: (Switch:leaf1)36 - (Computer:gpu12 HCA-1)1\n",
            "port-down",
        ),
    ] {
        each_is(&[(text, cause, "")]);
    }
}

#[test]
fn a_tool_or_driver_that_refuses_firmware_leads_to_its_cause() {
    for (text, cause) in [
        (
            "Preparing to flash\nError: mlxfw: Firmware flash failed: FSM component update failed, component verification failed.\n",
            "firmware-tool-refused",
        ),
        (
            "bnxt_en 0000:5e:00.0 ens3f0np0: PKG install error : Data integrity on NVM\n",
            "firmware-tool-refused",
        ),
        (
            "-E- The reset level isn't supported by the device\n",
            "firmware-tool-refused",
        ),
        ("-E- Only root user can run this tool.\n", "firmware-tool-access"),
        (
            "-E- Unable to open device 05:00.0. Exiting.\n",
            "firmware-tool-access",
        ),
        (
            "-I- Stopping Driver                         -Failed\n-E- Failed to stop driver! please stop driver manually\n",
            "modules-in-use",
        ),
        (
            "Loading new drbd-9.2.14-1ppa1~noble1 DKMS files...\nBuilding initial module for 6.14.0-28-generic\n\
             Error! Bad return status for module build on kernel: 6.14.0-28-generic (x86_64)\n",
            "kernel-module-build",
        ),
        (
            "Setting up mlnx-ofed-kernel-dkms (24.10-1) ...\nModule build for kernel 6.5.0-41-generic was skipped since the\n\
             kernel headers for this kernel do not seem to be installed.\n",
            "kernel-module-build",
        ),
    ] {
        each_is(&[(text, cause, "")]);
    }
}

#[test]
fn the_error_number_says_more_than_the_step_that_failed() {
    // The device of DPDK is there, and QEMU is not permitted to lock the memory of the machine.
    for (text, cause) in [
        (
            "mlx5_common: Failed to query device context on 0000:3b:00.0\n\
             mlx5_net: probe of PCI device 0000:3b:00.0 aborted after encountering an error: Cannot allocate memory\n\
             mlx5_common: Failed to load driver mlx5_eth\n",
            "memlock-limit",
        ),
        (
            "Failed to register local dest ram block!\n: Cannot allocate memory\n\
             qemu-system-x86_64: rdma migration: error dest registering ram blocks\n",
            "memlock-limit",
        ),
        (
            "rpc.nfsd[2211]: Unable to request RDMA services: Protocol not supported\n",
            "rdma-modules",
        ),
        (
            "4021:M 20 May 2025 10:00:00.102 # RDMA: Could not create server for 10.20.0.7:6379: RDMA: bind addr error: No such device\n",
            "addressing",
        ),
    ] {
        each_is(&[(text, cause, "")]);
    }
}

#[test]
fn sound_devices_in_the_same_tools_show_nothing() {
    for text in [
        "Settings for rdma3:\n\tSpeed: 400000Mb/s\n\tLink detected: yes\n",
        "Settings for eno3:\n\tSpeed: Unknown!\n\tLink detected: no\n",
        "4: docker0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc noqueue state DOWN\n",
        "pci/0000:17:00.0:\n  reporter fw_fatal\n    state healthy error 0 recover 0\n",
        "        - nid: 10.20.0.5@o2ib\n          status: up\n",
        "\tLaser rx power low alarm   (Chan 1)       : Off\n\tModule temperature high alarm : Off\n",
        "DEV\tPORT\tINDEX\tGID\nmlx5_0\t1\t0\tfe80::1\nn_gids_found=1\n",
        "-I- Stopping Driver                         -Done\n-I- FW was loaded successfully.\n",
        "Loading new mlnx-ofed-kernel-24.10 DKMS files...\nModule build for kernel 6.5.0-41-generic was skipped since the\n\
         Building initial module for 6.8.0-45-generic\nDone.\n",
        "testpmd: Flow tunnel offload support might be limited or unavailable on port 0\n",
    ] {
        assert_eq!(kinds(text), [], "{text}");
        assert_eq!(first(text).0, "", "{text}");
    }
}

#[test]
fn a_state_without_an_error_line_is_read_and_a_sound_one_is_not() {
    let two_ports = "hca_id: mlx4_0\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n\t\tport:\t2\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n";
    let both_down = "hca_id: mlx4_0\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n\t\tport:\t2\n\t\t\tstate:\t\t\tPORT_DOWN (1)\n";
    assert!(kinds(two_ports).is_empty());
    each_is(&[
        (both_down, "port-down", ""),
        (
            "Operational Info\n----------------\nState                           : Physical LinkUp\n",
            "port-down",
            "",
        ),
        ("Link detected: no (FEC sync loss)\n", "port-down", ""),
        (
            "mce0: flags=8843<UP,RUNNING> metric 0 mtu 1500\n\tstatus: no carrier (FEC sync loss)\n",
            "port-down",
            "",
        ),
        (
            "i40e 0000:05:00.0: Rx/Tx is disabled on this device because an unsupported SFP module type was detected.\n",
            "link-quality",
            "list of the adapter's maker",
        ),
        (
            "ice 0000:ec:00.0: RDMA functionality is not available with the current device config\n",
            "unsupported-adapter",
            "firmware setup",
        ),
    ]);
}

#[test]
fn old_adapters_and_short_resources_have_steps_of_their_own() {
    let refused = "-E- Cannot open Device: 07:00.0. Operation not supported. MFE_CR_ERROR\n";
    let old = "07:00.0 InfiniBand: Mellanox Technologies MT25204 [InfiniHost III Lx HCA] (rev a0)\n";
    each_is(&[
        (&[old, refused].concat(), "firmware-tool-access", "old release"),
        (refused, "firmware-tool-access", "lockdown"),
        (
            "Unable to create QP.\n00:06.0 Ethernet controller: Amazon.com, Inc. Elastic Fabric Adapter (EFA)\n",
            "unsupported-adapter",
            "SRD",
        ),
        (
            "Failed to allocate hugepages. Please configure hugepages\nfailed to create mr\n",
            "host-memory",
            "nr_hugepages",
        ),
        (
            "n1.1hfi_userinit: assign_context command failed: Interrupted system call\n",
            "communication-library",
            "profiler",
        ),
    ]);
}

#[test]
fn tools_that_go_on_report_no_fault() {
    for text in [
        "ERROR: infiniband collector failed after 0.000063s: open /sys/class/infiniband: no such file or directory\n",
        "mlx5_net: port 0 cannot read device counters: No such file or directory\n",
        "EAL:   cannot open VFIO container, error 2 (No such file or directory)\nEAL: VFIO support could not be initialized\n",
    ] {
        let cause = first(text).0;
        assert_eq!(cause, "", "{text}");
    }
}
