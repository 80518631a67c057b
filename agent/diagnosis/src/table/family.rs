//! What to do with adapters other than those that the table speaks of: their tools and settings have other names.

use crate::symptom::Family;

/// The next step of the cause with this id with adapters of this family; `None` if it is the same.
pub(crate) fn next_step(family: Family, id: &str) -> Option<&'static str> {
    match family {
        Family::Gaudi => gaudi(id),
        Family::Ascend => ascend(id),
        Family::Efa => efa(id),
        Family::Ionic => ionic(id),
        Family::Broadcom => broadcom(id),
    }
}

fn gaudi(id: &str) -> Option<&'static str> {
    Some(match id {
        "port-down" | "fabric-or-peer" | "gid-missing" | "gid-index" | "mtu" | "link-quality" => {
            "Show the network ports of the Gaudi cards on both nodes: manage_network_ifs.sh --status (in habanalabs-qual), hl-smi -n link. Bring up \
            those that are down: manage_network_ifs.sh --up. For traffic between nodes each external port also needs an address, for HCL the \
            file that HABANALABS_HCL_GAUDINET or /etc/gaudinet.json names. If a port stays down, check its cable and switch port, and \
            journalctl -k | grep habanalabs."
        }
        "no-rdma-device" | "devices-missing" | "rdma-modules" => {
            "Check that the cards and their driver are there: hl-smi, lsmod | grep habanalabs (habanalabs_en for the ports, habanalabs_ib for \
            verbs), journalctl -k | grep habanalabs. Load the modules that are missing: modprobe habanalabs_ib."
        }
        "device-not-given" => {
            "Start the container with the runtime habana and HABANA_VISIBLE_DEVICES=all, on Kubernetes with the resource habana.ai/gaudi, and use \
            --cap-add=sys_nice --net=host for jobs on several nodes. In it, run hl-smi."
        }
        "driver-firmware" | "device-fault" => {
            "Compare the versions of driver, firmware and image, which must be of one release: hl-smi -q | grep -i version. Read journalctl -k | grep \
            habanalabs; if a card does not answer, drain the node and restart it."
        }
        _ => return None,
    })
}

fn ascend(id: &str) -> Option<&'static str> {
    Some(match id {
        "port-down" => {
            "For each NPU, show link and optics of its port: hccn_tool -i N -link -g, hccn_tool -i N -net_health -g, hccn_tool -i N -optical -g. \
            Of one that is DOWN, check cable, transceiver and the port of the switch; hccn_tool -i N -link_stat -g shows when it went down."
        }
        "fabric-or-peer" | "addressing" | "gid-missing" | "gid-index" | "link-quality" | "mtu" => {
            "For each NPU on both nodes, check the link (hccn_tool -i N -link -g) and the address (hccn_tool -i N -ip -g), and the path to the other \
            node's NPU: hccn_tool -i N -ping -g address PEER. Compare hccn_tool -i N -tls -g on all nodes. If some ranks only start later, raise \
            HCCL_CONNECT_TIMEOUT (seconds), or ASCEND_CONNECT_TIMEOUT with Mooncake's transport. NPUs of one server use these ports only with HCCL_INTRA_ROCE_ENABLE=1."
        }
        "tcp-connection" => {
            "Check that the processes at both ends run and that their addresses reach each other: ip -brief address, ss -ltn. Then the ports of the NPUs: hccn_tool -i N -link -g, hccn_tool -i N -ip -g, and \
            hccn_tool -i N -ping -g address PEER. HCCL_IF_IP or HCCL_SOCKET_IFNAME selects the interface of the host."
        }
        "peer-failed" => {
            "Find the earliest error in the logs of all ranks (~/ascend/log/debug/plog), and look at the NPUs of its node: npu-smi info. If ranks only \
            start later, raise HCCL_CONNECT_TIMEOUT or HCCL_EXEC_TIMEOUT (seconds)."
        }
        "no-rdma-device" | "devices-missing" | "rdma-modules" => {
            "Check that the NPUs and their driver are there: npu-smi info, lspci | grep -i -e d801 -e d802 -e huawei. Then read the log of the driver: \
            journalctl -k | grep -i -e hns -e davinci."
        }
        "device-not-given" => {
            "Give the container the NPUs: /dev/davinciN, /dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc, or the resource \
            huawei.com/Ascend910 on Kubernetes. In it, run npu-smi info."
        }
        _ => return None,
    })
}

/// EFA has neither GIDs to choose from nor RC queue pairs; its commonest fault is a security group.
fn efa(id: &str) -> Option<&'static str> {
    Some(match id {
        "fabric-or-peer" | "addressing" | "gid-missing" | "gid-index" | "link-quality" => {
            "Allow all traffic between the nodes in their security group: an inbound and an outbound rule whose source and destination is the group \
            itself. Both must be in one subnet or availability zone. Then test the path: fi_pingpong -p efa on one node, fi_pingpong -p efa \
            ADDRESS on the other. Run rdma-health check on the peer, too."
        }
        "no-rdma-device" | "devices-missing" | "port-down" | "rdma-modules" => {
            "Check that the instance has an EFA: its type must support it, and an interface of type efa must be attached (aws ec2 \
            describe-instances, NetworkInterfaces, InterfaceType). Then on the node: lspci | grep -i efa, modinfo efa, fi_info -p efa."
        }
        "device-not-given" => {
            "Where the job runs, run fi_info -p efa and ls /dev/infiniband. In a pod, request vpc.amazonaws.com/efa (the EFA device plugin must run on \
            the node); with Docker, pass --device for each /dev/infiniband/uverbsN. The node needs an instance type with EFA and attached \
            EFA interfaces."
        }
        "userspace-libraries" | "communication-library" => {
            "Install the EFA installer's libfabric and aws-ofi-nccl in the job's image, in one release, and check LD_LIBRARY_PATH: \
            /opt/amazon/efa/lib, /opt/amazon/ofi-nccl/lib. fi_info -p efa must list the devices."
        }
        "driver-firmware" => {
            "Compare the versions of the EFA driver, libfabric and aws-ofi-nccl: modinfo -F version efa, fi_info --version. Install those of one release \
            of the EFA installer, and read journalctl -k | grep efa."
        }
        "application-memory" => {
            "Run nccl-tests over the same devices with FI_PROVIDER=efa. If they pass, the fault is in the application or its library: check the buffer \
            of the failing operation."
        }
        "peer-memory-path" => {
            "Check that the instance type supports GPUDirect RDMA with EFA, that modinfo -F gdr efa shows a number, and that the open NVIDIA driver, \
            or nvidia_peermem or efa_nv_peermem, is loaded. libfabric needs FI_EFA_USE_DEVICE_RDMA=1 only on old releases."
        }
        _ => return None,
    })
}

fn ionic(id: &str) -> Option<&'static str> {
    Some(match id {
        "no-rdma-device" | "devices-missing" | "rdma-modules" => {
            "Check that the adapter and its RDMA driver are there: lspci -d 1dd8:, lsmod | grep ionic. Load ionic_rdma, and read journalctl -k | grep \
            ionic."
        }
        "userspace-libraries" => {
            "Install libionic from the adapter's driver package in the job's image, in the release of the node's driver (modinfo ionic_rdma), next to \
            rdma-core. ibv_devinfo must list the ionic devices there."
        }
        "driver-firmware" => {
            "Compare the versions that AMD releases together: nicctl show version firmware, modinfo ionic_rdma, and libionic where the job runs. Read why \
            the adapter refused it: journalctl -k | grep ionic."
        }
        "flow-control" => {
            "Compare DCQCN, PFC and the DSCP mapping with the switch: nicctl show qos, nicctl show dcqcn. All adapters need the same settings."
        }
        _ => return None,
    })
}

fn broadcom(id: &str) -> Option<&'static str> {
    Some(match id {
        "no-rdma-device" | "devices-missing" | "rdma-modules" => {
            "Check that the adapter and its RDMA driver are there: lspci -d 14e4:, lsmod | grep bnxt. Load bnxt_re, check that RDMA is enabled in the \
            adapter (niccli, support_rdma), and read journalctl -k | grep bnxt."
        }
        "driver-firmware" => {
            "Compare the versions that Broadcom releases together: ethtool -i NETDEV for driver and firmware, and libbnxt_re where the job runs. Read why \
            the firmware refused it: journalctl -k | grep bnxt."
        }
        _ => return None,
    })
}
