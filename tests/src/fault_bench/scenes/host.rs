//! What can be wrong with links, addresses, limits, device nodes, the helper and the kernel's files.

use super::super::live::{Injection, Scene};
use super::iommu::MISMATCH;
use super::{LINK_DOWN, LOC_PROT_LOG, MEMLOCK_RUNTIME, MTU_LOWERED, NO_IPV4_GID, PROBE, harmless, real};
use crate::virtual_node::Options;

/// Four HCAs, IOMMU in passthrough mode.
pub(super) static HOST: Scene = Scene {
    name: "host",
    options: || Options {
        kernel_args: "iommu=pt".into(),
        nics: 4,
        modules_added: vec!["fuse".into()],
        ..Options::default()
    },
    before: None,
    setup: SETUP,
    boot: None,
    injections: &[
        LINK_DOWN,
        NO_IPV4_GID,
        NO_ADDRESS,
        GID_INDEX,
        MTU_LOWERED,
        MEMLOCK_RUNTIME,
        MEMLOCK_OWN,
        RDMA_CGROUP,
        UVERBS_MISSING,
        UVERBS_UNREADABLE,
        DEVICE_REMOVED,
        DEVICE_REMOVED_UNEXPECTEDLY,
        RXE_UNLOADED,
        SAME_SUBNET,
        DUPLICATE_ADDRESS,
        DUPLICATE_GUID,
        HELPER_MISSING,
        HELPER_HANGS,
        HELPER_DIES,
        BLOCKED_SYSFS,
        MODULES_UNREADABLE,
        STATE_UNREADABLE,
        REG_MR_LOG,
        LOC_PROT_LOG,
        MISMATCH,
        SOFTWARE_EXPECTED,
        SLOWER_THAN_EXPECTED,
        IDLE_PORT,
    ],
    pairs: &[
        ("link-down", "memlock-runtime"),
        ("link-down", "helper-missing"),
        ("no-ipv4-gid", "memlock-runtime"),
        ("mtu-lowered", "device-removed"),
        ("same-subnet", "memlock-runtime"),
        ("memlock-own", "mtu-lowered"),
        ("iommu-mismatch", "memlock-runtime"),
    ],
    last: &[FLAPPING],
};

const SETUP: &str = r#"
printf 'expect:\n  ports_up: [rxe0, rxe1, rxe2, rxe3]\n' | cat $config - >/run/expect.yaml
printf 'expect:\n  profile: rdma\n' | cat $config - >/run/rdma.yaml
printf 'expect:\n  bandwidth_gbps: 100\n' | cat $config - >/run/fast.yaml
sed 's/1MiB/64MiB\n  message_size: 16MiB\n  depth: 2/' $config >/run/large.yaml
sed 's/1MiB/100GiB\n  time_budget: 30s/' $config >/run/long.yaml
mkdir -p /run/open && cp "$(command -v rdma-health)" "$(command -v rdma-health-verbs)" /run/open/
cat >/run/stopped <<'END'
#!/bin/bash
kill -STOP $$
exec rdma-health-verbs "$@"
END
printf '#!/bin/bash\nread -rt 0.2\nkill -KILL $$\n' >/run/dying
chmod 755 /run/stopped /run/dying
"#;

const NO_ADDRESS: Injection = Injection {
    fault: real(
        "no-address",
        "eth1 loses every address, IPv4 and link-local",
        "gid-missing",
        &["probe-failed", "gid-index-differs"],
    ),
    inject: "ip addr flush dev eth1",
    restore: "unplug 1 && plug 1",
    ask: "",
};

const GID_INDEX: Injection = Injection {
    fault: real(
        "gid-index",
        "eth1 has a private IPv6 address before its IPv4 address, so its IPv4 GID stands at another index",
        "gid-index-differs",
        &[],
    ),
    inject: "ip addr del 10.0.101.2/24 dev eth1 && ip addr add fd00::1/64 dev eth1 && \
        ip addr add fd00::2/64 dev eth1 && ip addr add 10.0.101.2/24 dev eth1 && ready 1",
    restore: "unplug 1 && plug 1",
    ask: "",
};

const MEMLOCK_OWN: Injection = Injection {
    fault: real(
        "memlock-own",
        "the doctor runs with 8 MiB to lock and without CAP_IPC_LOCK, and its probe registers 32 MiB",
        "memlock-limit",
        &["memlock-low", "probe-failed"],
    ),
    inject: "",
    restore: "",
    ask: "ulimit -l 8192; exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \
        rdma-health check --probe --output json --config /run/large.yaml",
};

const RDMA_CGROUP: Injection = Injection {
    fault: real(
        "rdma-cgroup",
        "the doctor runs in a cgroup that may open no rxe1, by its rdma.max",
        "registration-limit",
        &["facts-unreadable", "probe-failed"],
    ),
    inject: "mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup; echo +rdma >/sys/fs/cgroup/cgroup.subtree_control && mkdir /sys/fs/cgroup/jobs \
        && echo 'rxe1 hca_handle=0' >/sys/fs/cgroup/jobs/rdma.max",
    restore: "rmdir /sys/fs/cgroup/jobs",
    ask: "echo $BASHPID >/sys/fs/cgroup/jobs/cgroup.procs; check --probe",
};

const UVERBS_MISSING: Injection = Injection {
    fault: real(
        "uverbs-missing",
        "/dev/infiniband/uverbs1 is gone",
        "uverbs-node-missing",
        &["facts-unreadable", "probe-failed"],
    ),
    inject: "mv /dev/infiniband/uverbs1 /dev/uverbs1.away",
    restore: "mv /dev/uverbs1.away /dev/infiniband/uverbs1",
    ask: "",
};

const UVERBS_UNREADABLE: Injection = Injection {
    fault: real(
        "uverbs-closed",
        "the doctor is asked by a user who may not open /dev/infiniband/uverbs*",
        "device-permission",
        &["facts-unreadable", "probe-failed"],
    ),
    inject: "chmod 600 /dev/infiniband/uverbs*",
    restore: "chmod 666 /dev/infiniband/uverbs*",
    ask: "exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
        /run/open/rdma-health check --probe --output json --config $config",
};

const DEVICE_REMOVED: Injection = Injection {
    fault: real(
        "device-removed",
        "`rdma link delete rxe2`, where the configuration expects rxe2 to be up",
        "port-down",
        &[],
    ),
    inject: "rdma link delete rxe2",
    restore: "unplug 2; plug 2",
    ask: "config=/run/expect.yaml; check --probe",
};

const DEVICE_REMOVED_UNEXPECTEDLY: Injection = Injection {
    fault: real(
        "device-removed-in-probe",
        "`rdma link delete rxe2` while the doctor's probe writes on it",
        "devices-missing",
        &["port-down", "facts-unreadable", "probe-failed"],
    ),
    inject: "",
    restore: "unplug 2; plug 2",
    ask: r#"
sent=/sys/class/infiniband/rxe2/ports/1/hw_counters/sent_pkts before=$(<$sent)
{ until [ "$(<$sent)" -gt $((before + 500)) ]; do sleep 0.05; done; rdma link delete rxe2; } >/dev/null &
config=/run/long.yaml; check --probe --exclude rxe0 --exclude rxe1 --exclude rxe3"#,
};

const RXE_UNLOADED: Injection = Injection {
    fault: real(
        "module-unloaded",
        "rdma_rxe is unloaded, where the configuration expects its devices to be up",
        "rdma-modules-missing",
        &["port-down", "facts-unreadable"],
    )
    .known_miss(
        Some("port-down"),
        "the configuration names the devices that are missing, but nothing on the node shows which module provided them",
    ),
    inject: "rmmod rdma_rxe",
    restore: "modprobe -d /run/kernel rdma_rxe && for n in 0 1 2 3; do unplug $n; plug $n || exit; done",
    ask: "config=/run/expect.yaml; check",
};

const SAME_SUBNET: Injection = Injection {
    fault: real(
        "same-subnet",
        "eth1 gets a second address, in the subnet of eth0",
        "same-subnet-arp",
        &[],
    ),
    inject: "ip addr add 10.0.100.3/24 dev eth1",
    restore: "ip addr del 10.0.100.3/24 dev eth1",
    ask: "",
};

const DUPLICATE_ADDRESS: Injection = Injection {
    fault: real(
        "duplicate-address",
        "eth1 gets the same address as eth0",
        "same-subnet-arp",
        PROBE,
    ),
    inject: "ip addr add 10.0.100.2/24 dev eth1",
    restore: "ip addr del 10.0.100.2/24 dev eth1",
    ask: "",
};

const DUPLICATE_GUID: Injection = Injection {
    fault: real(
        "duplicate-guid",
        "eth1 has the MAC address of eth0, so rxe1 has the GUID of rxe0",
        "guid-invalid",
        PROBE,
    ),
    inject: "unplug 1; cat /sys/class/net/eth1/address >/run/mac; \
        ip link set eth1 address $(cat /sys/class/net/eth0/address) && plug 1",
    restore: "unplug 1; ip link set eth1 address $(cat /run/mac) && plug 1",
    ask: "",
};

const HELPER_MISSING: Injection = Injection {
    fault: real(
        "helper-missing",
        "the verbs helper is not installed",
        "helper-missing",
        &["helper-unhealthy"],
    ),
    inject: "",
    restore: "",
    ask: "check --probe --helper /run/absent",
};

const HELPER_HANGS: Injection = Injection {
    fault: real(
        "helper-hangs",
        "the verbs helper is stopped (SIGSTOP)",
        "device-stalled",
        &["helper-unhealthy"],
    ),
    inject: "",
    restore: "",
    ask: "check --probe --helper /run/stopped",
};

const HELPER_DIES: Injection = Injection {
    fault: real(
        "helper-dies",
        "the verbs helper is killed before it answers",
        "helper-fails",
        &["helper-unhealthy"],
    ),
    inject: "",
    restore: "",
    ask: "check --probe --helper /run/dying",
};

const BLOCKED_SYSFS: Injection = Injection {
    fault: real(
        "sysfs-hangs",
        "every read of /sys hangs: a file system in user space, stopped",
        "facts-unreadable",
        &[],
    ),
    inject: "mkdir -p /mirror/sys /mirror/proc /mirror/dev && mount --rbind /proc /mirror/proc && \
        mount --bind /dev /mirror/dev && bindfs /sys /mirror/sys && pkill -STOP -x bindfs",
    restore: "pkill -KILL -x bindfs; umount -l /mirror/sys /mirror/proc /mirror/dev",
    ask: "check --root /mirror",
};

const MODULES_UNREADABLE: Injection = Injection {
    fault: real(
        "modules-unreadable",
        "reading /proc/modules fails with EIO",
        "facts-unreadable",
        &[],
    ),
    inject: "mount --bind /proc/1/mem /proc/modules",
    restore: "umount /proc/modules",
    ask: "",
};

const STATE_UNREADABLE: Injection = Injection {
    fault: real(
        "state-unreadable",
        "reading the state of rxe1's port fails with EIO",
        "facts-unreadable",
        &[],
    ),
    inject: "mount --bind /proc/1/mem /sys/class/infiniband/rxe1/ports/1/state",
    restore: "umount /sys/class/infiniband/rxe1/ports/1/state",
    ask: "",
};

const REG_MR_LOG: Injection = Injection {
    fault: real(
        "memlock-job-log",
        "containerd has 8 MiB to lock, and a job's log says that ibv_reg_mr found no memory",
        "memlock-low",
        &[],
    ),
    inject: MEMLOCK_RUNTIME.inject,
    restore: MEMLOCK_RUNTIME.restore,
    ask: r"
cat >/run/job.log <<'END'
gpu-1:2101:2150 [0] NCCL INFO NET/IB : Using [0]rxe0:1/RoCE [1]rxe1:1/RoCE [2]rxe2:1/RoCE [RO]; OOB eth0:10.0.100.2<0>
gpu-1:2101:2150 [0] misc/ibvwrap.cc:252 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory
gpu-1:2101:2150 [0] NCCL INFO transport/net_ib.cc:1432 -> 2
END
check --probe --log /run/job.log",
};

const SOFTWARE_EXPECTED: Injection = Injection {
    fault: real(
        "software-only",
        "the configuration expects RDMA, and all there is is SoftRoCE",
        "softroce-in-use",
        &[],
    ),
    inject: "",
    restore: "",
    ask: "config=/run/rdma.yaml; check",
};

const SLOWER_THAN_EXPECTED: Injection = Injection {
    fault: real(
        "slower-than-expected",
        "the configuration expects loopbacks of 100 Gb/s, which software cannot reach",
        "software-rdma",
        &["softroce-in-use", "probe-bandwidth-low"],
    ),
    inject: "",
    restore: "",
    ask: "config=/run/fast.yaml; check --probe",
};

/// No job uses it and it was never up: no fault.
const IDLE_PORT: Injection = Injection {
    fault: harmless(
        "idle-port",
        "an interface that never had a link gets an RDMA device",
    ),
    inject: "modprobe -d /run/kernel dummy numdummies=0 && ip link add spare type dummy && rdma link add spare type rxe netdev spare",
    restore: "rdma link delete spare; ip link del spare",
    ask: "",
};

/// A cable of which the test holds the other end.
const FLAPPING: Injection = Injection {
    fault: real(
        "flapping",
        "an interface loses its carrier ten times, as the other end of its cable goes down, and has it now",
        "port-flapping",
        &["counter-errors"],
    ),
    inject: "modprobe -d /run/kernel veth && ip link add cable type veth peer name switch && \
        ip link set switch up && ip link set cable mtu 4200 up && ip addr add 10.0.109.2/24 dev cable && \
        rdma link add rxe9 type rxe netdev cable && \
        for _ in {1..10}; do ip link set switch down; sleep 0.2; ip link set switch up; sleep 0.3; done; ready 9",
    restore: "",
    ask: "",
};
