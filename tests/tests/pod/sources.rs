//! What agent and helper read in the pod although the chart mounts neither it nor grants the agent a privilege, and what that takes.

use rdma_health_tests::{api_server::NAMESPACE, cluster::PATIENCE};
use serde_json::Value;

use crate::stage::Stage;

/// Runs a program in a container of the pod. Exit status and output.
fn exec(stage: &Stage, container: &str, words: &[&str]) -> (i32, String) {
    let name = stage.name();
    let mut arguments = vec!["-n", NAMESPACE, "exec", &name, "-c", container, "--"];
    arguments.extend(words);
    stage.kubectl(&arguments)
}

/// Writes what systemd-networkd would, once a switch has announced itself at eth0.
const ANNOUNCED: &str = r#"python3 - <<'END'
import os, struct
parts = [(1, b"\x07leaf-3"), (2, b"\x05Ethernet12/1"), (5, b"leaf-3"), (0, b"")]
frame = b"\x01\x80\xc2\x00\x00\x0e\x52\x54\x00\x00\x00\x01\x88\xcc"
for kind, value in parts:
    frame += struct.pack(">H", kind << 9 | len(value)) + value
os.makedirs("/run/systemd/netif/lldp", exist_ok=True)
index = open("/sys/class/net/eth0/ifindex").read().strip()
open(f"/run/systemd/netif/lldp/{index}", "wb").write(struct.pack("<Q", len(frame)) + frame)
END"#;

pub fn switch_ports_of_the_host_are_shown(stage: &mut Stage) {
    stage.run(ANNOUNCED);
    for container in ["agent", "verbs"] {
        let (status, devices) = exec(stage, container, &["/usr/bin/rdma-health", "devices"]);
        println!("{container}: rdma-health devices\n{devices}");
        assert!(
            status == 0 && devices.contains("leaf-3 Ethernet12/1"),
            "{container}: {devices}"
        );
    }
    stage.within("the agent publishes the neighbour", || {
        let metrics =
            "curl -s --max-time 20 http://127.0.0.1:14791/metrics | grep rdma_port_lldp_neighbour_info";
        let metrics = stage.node().run(metrics).ok()?;
        metrics
            .stdout_text()
            .contains(r#"switch="leaf-3",switch_port="Ethernet12/1""#)
            .then_some(())
    });
}

pub fn remedies_are_those_of_the_hosts_distribution(stage: &mut Stage) {
    // The kernel's release names Debian; the host has another distribution, and its link in /etc is absolute.
    stage.run(
        "printf 'ID=rhel\nVERSION_ID=\"9.4\"\n' >/usr/lib/os-release && ln -sfn /usr/lib/os-release /etc/os-release",
    );
    for container in ["agent", "verbs"] {
        let (_, check) = exec(stage, container, &["/usr/bin/rdma-health", "check"]);
        assert!(check.contains("iommu-group-translated"), "{container}: {check}");
        assert!(
            check.contains("grubby") && !check.contains("update-grub"),
            "{container}: {check}"
        );
    }
}

pub fn modules_that_the_host_keeps_out_are_known(stage: &mut Stage) {
    stage.run(
        "mkdir -p /etc/modprobe.d && printf '# site\ninstall irdma /bin/true\n' >'/etc/modprobe.d/site:2.conf'",
    );
    stage.within("the agent publishes the line", || {
        let asked = "curl -s --max-time 20 http://127.0.0.1:14791/api/v1/node";
        let document: Value = serde_json::from_str(&stage.node().run(asked).ok()?.stdout_text()).ok()?;
        let lines = document["node"]["modprobe"]["off"].to_string();
        println!("/api/v1/node: modprobe.off is {lines}");
        (lines.contains("install irdma /bin/true") && lines.contains("/etc/modprobe.d/site:2.conf"))
            .then_some(())
    });
}

/// Adds a device, because one of two without its device node could also be the one that a container was not given.
const NODE_GONE: &str = r#". /run/virtual-node/config
modprobe -d "$kernel" dummy numdummies=0 && ip link add spare type dummy && ip link set spare up
rdma link add spare type rxe netdev spare
class=$(dirname "$(grep -lx spare /sys/class/infiniband_verbs/uverbs*/ibdev)")
rm "/dev/infiniband/$(basename "$class")""#;

pub fn a_missing_device_node_is_named_in_either_container(stage: &mut Stage) {
    stage.run(NODE_GONE);
    for container in ["agent", "verbs"] {
        let (_, check) = exec(stage, container, &["/usr/bin/rdma-health", "check"]);
        let says = check
            .lines()
            .find(|line| line.contains("spare has no device node"));
        println!("{container}: {}", says.unwrap_or(&check));
        assert!(says.is_some(), "{container}: {check}");
    }
    stage.run("rdma link delete spare && ip link delete spare");
}

/// A container as a device plugin makes it: one device, the default seccomp profile, no privilege. containerd starts it as it does for
/// the kubelet.
const UNPRIVILEGED: &str = "PATH=$(dirname \"$(readlink -f /proc/$(pgrep -x containerd)/exe)\"):$PATH
    image=$(ctr --namespace k8s.io images list -q | grep '^registry.example.com/rdma-health:' | head -n 1)
    device=$(basename \"$(dirname \"$(grep -lx rxe0 /sys/class/infiniband_verbs/uverbs*/ibdev)\")\")
    ctr --namespace k8s.io run --rm --seccomp --net-host --device \"/dev/infiniband/$device\" \
        \"$image\" matrix /usr/bin/rdma-health probe --matrix --force rxe0 2>&1";

pub fn placing_memory_works_and_a_refusal_is_explained(stage: &mut Stage) {
    for container in ["agent", "verbs"] {
        let (status, matrix) = exec(
            stage,
            container,
            &["/usr/bin/rdma-health", "probe", "--matrix", "--force"],
        );
        println!("{container}: rdma-health probe --matrix\n{matrix}");
        assert_eq!(status, 0, "{container}: {matrix}");
        assert!(matrix.contains("MEMORY 0"), "{container}: {matrix}");
    }
    let refused = stage.node().run_within(PATIENCE, UNPRIVILEGED).unwrap();
    let text = refused.stdout_text();
    println!("with the default seccomp profile: {text}");
    assert_eq!(refused.status, 2, "{text}");
    assert!(
        text.contains("mbind failed with EPERM (1)") && text.contains("seccomp"),
        "{text}"
    );
}

/// Resident and highest memory of both containers, in bytes.
const MEMORY: &str = r#"for program in '/usr/bin/rdma-health agent' '/usr/bin/rdma-health-verbs serve'; do
    pid=$(pgrep -o -f "^$program")
    group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/$pid/cgroup)
    resident=
    for member in $(cat $group/cgroup.procs); do
        name=$(tr '\0' ' ' </proc/$member/cmdline | cut -d' ' -f1,2 | tr ' ' _)
        resident="$resident $name:$(awk '/^(Rss|Anonymous):/ {printf "%s%s", separator, $2; separator = "/"}' /proc/$member/smaps_rollup)"
    done
    echo "$(cat $group/memory.peak) $(cat $group/memory.max) $(sed -n 's/^oom_kill //p' $group/memory.events)$resident"
done"#;

pub fn memory_stays_far_below_the_limits(stage: &mut Stage) {
    // Load: pages of all kinds, each several times, and a probe of all ports.
    stage.run(
        "for n in $(seq 20); do for page in metrics api/v1/node api/v1/inventory ''; do
             curl -s --max-time 20 -o /dev/null http://127.0.0.1:14791/$page
         done; done",
    );
    let (status, text) = exec(stage, "agent", &["/usr/bin/rdma-health", "probe", "--force"]);
    assert_eq!(status, 0, "{text}");
    let limits = stage.running("")["spec"]["containers"].clone();
    for (line, container) in stage.run(MEMORY).lines().zip(["agent", "verbs"]) {
        let mut words = line.split(' ');
        let [peak, limit, killed] = [(); 3].map(|()| words.next().unwrap().parse::<u64>().unwrap());
        let mebibytes = |bytes: u64| bytes >> 20;
        println!(
            "memory of {container}: highest {} MiB of {} MiB (page cache included); resident/of it anonymous in KiB: {}",
            mebibytes(peak),
            mebibytes(limit),
            words.collect::<Vec<_>>().join(", ")
        );
        let declared = limits
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == container)
            .map(|one| one["resources"]["limits"]["memory"].clone());
        assert_eq!(
            declared,
            Some(Value::from(format!("{}Mi", mebibytes(limit)))),
            "the limit is in force"
        );
        assert_eq!(killed, 0, "{container}");
        assert!(2 * peak < limit, "{container}: {line}");
    }
}
