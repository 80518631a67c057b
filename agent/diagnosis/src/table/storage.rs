//! Storage over RDMA: causes of its own, and what to do where the table speaks of pods, jobs and GPUs.

use crate::{
    known::KnownCause,
    symptom::SymptomKind::{CmFailed, ConnectRefused, OptionsRefused, PeerDiffers, StorageRefused},
    weigh,
};

pub(super) static STORAGE_ACCESS: KnownCause = KnownCause {
    id: "storage-access",
    title: "The storage target refuses this host, or does not have what it asks for",
    explanation: "RDMA works: the target answered. It does not know the name of this host (host NQN, initiator name, address), the name of the \
    subsystem or export is wrong, or the password is.",
    next_step: "Compare the names in the message with the target's configuration: allowed hosts of the NVMe subsystem (/etc/nvme/hostnqn here), access \
    list and CHAP secret of the iSCSI target (/etc/iscsi/initiatorname.iscsi here), access list of the SRP target (it has the port GUIDs of its \
    initiators; ibstat shows those of this host), clients of the NFS export (showmount -e SERVER).",
    rules: &[],
    cases: &[],
    often: &[StorageRefused],
    sometimes: &[ConnectRefused],
    weigh: weigh::storage_access,
};

pub(super) static NVME_OPTIONS: KnownCause = KnownCause {
    id: "nvme-options",
    title: "The kernel does not accept the options of an NVMe connection",
    explanation: "nvme connect writes the options of a connection to /dev/nvme-fabrics. The kernel answers Invalid argument (EINVAL) before it contacts \
    the target: the module of the transport is not loaded, an option is unknown to this kernel or has a wrong value, or the host's NQN and ID \
    do not belong together.",
    next_step: "The kernel log says what it refuses: dmesg | grep -i nvme. Load the module of the transport: modprobe nvme-rdma. If the log says found same \
    hostid but different hostnqn, or the reverse, use the pair of /etc/nvme/hostnqn and /etc/nvme/hostid for every connection. If an option \
    is unknown, leave it out, or update the kernel or nvme-cli, so that both know it.",
    rules: &[],
    cases: &[],
    often: &[OptionsRefused],
    sometimes: &[],
    weigh: weigh::logged,
};

pub(super) static PEER_SETTINGS: KnownCause = KnownCause {
    id: "peer-settings",
    title: "The two ends of a connection are configured differently",
    explanation: "The peer answered and refused what this end proposed: the version of a protocol or library, the depth of a queue, the number of \
    fragments or the size of a message.",
    next_step: "Compare on both ends what the message names, and make it the same; update the older end if the versions differ. The ranks of a job need \
    the same image, the same versions of NCCL and its plugins, and the same NCCL_ variables. For Lustre: lnetctl net show -v (peer_credits, \
    map_on_demand, conns_per_peer) and the options in /etc/modprobe.d of ko2iblnd.",
    rules: &[],
    cases: &[],
    often: &[PeerDiffers],
    sometimes: &[ConnectRefused, CmFailed],
    weigh: weigh::peer_settings,
};

/// Whether only a process can have this cause: the limits, permissions, libraries and devices of a container do not concern modules of
/// the kernel.
pub(crate) fn is_of_processes(id: &str) -> bool {
    [
        "memlock-limit",
        "device-not-given",
        "gid-other-namespace",
        "device-permission",
        "userspace-libraries",
        "open-files-limit",
        "unsupported-adapter",
        "gid-index",
    ]
    .contains(&id)
}

/// The next step of the cause with this id where a storage service or its client failed; `None` if it is the same as elsewhere.
pub(crate) fn next_step(id: &str) -> Option<&'static str> {
    Some(match id {
        "memlock-limit" => {
            "Set LimitMEMLOCK=infinity for the unit of the storage service (systemctl edit UNIT) and restart it. The limit now: grep locked \
            /proc/PID/limits."
        }
        "device-not-given" => {
            "On the node of the storage service, compare rdma link show with the device in its configuration, and ls -l /dev/infiniband with the \
            user that it runs as. If it runs in a container, the container needs /dev/infiniband."
        }
        "device-permission" => {
            "Check ls -l /dev/infiniband, and the user that the storage service runs as. If it runs in a container, the container needs \
            /dev/infiniband."
        }
        "gid-other-namespace" => {
            "Run the storage service in the network namespace that has the address of its RDMA port: ip netns identify PID shows where it runs."
        }
        "job-settings" => {
            "Compare the device, port and interface in the configuration of the storage software with those of the node: rdma link show, ip -brief \
            address."
        }
        "peer-failed" => {
            "Read the log of the other end at the same time: the server says why it closed or refused a connection, and the client why it ended."
        }
        "application-memory" => {
            "Compare the versions of the storage software on both ends, and update the older one. ib_write_bw between the same ports shows whether \
            RDMA itself works."
        }
        "userspace-libraries" => {
            "Install rdma-core (on Debian and Ubuntu libibverbs1 and ibverbs-providers) on the node of the storage service, and run ibv_devinfo there."
        }
        "addressing" => {
            "Check that the address in the log is on an interface of an RDMA device: rdma link show and ip -brief address. Then the route to the other \
            end: ip route get PEER. For several ports in one subnet, set arp_ignore, arp_announce and rp_filter."
        }
        _ => return None,
    })
}
