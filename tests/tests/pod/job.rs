//! A job's pod as docs/jobs.md shows it: the program copied into it, the init container that waits, and the command that `run` starts in
//! an image that has only a shell's tools.

use rdma_health_tests::api_server::NODE;
use serde_json::{Value, json};

use crate::{IMAGE, TAGS, stage::Stage};

const NAMESPACE: &str = "default";
/// The image of a pod's sandbox, with `busybox` and nothing else: neither a C library nor libibverbs.
const BARE: &str = "localhost/pause:1";

/// A pod of the documentation. No device plugin runs here: the container runtime gives all devices to a privileged container.
fn pod(name: &str, address: &str, network_of_the_host: bool, timeout: &str) -> Value {
    let product = format!("{IMAGE}:{}", TAGS[0]);
    let volume = json!([{"name": "rdma-health", "mountPath": "/shared"}]);
    let given = json!([{"name": "PCIDEVICE_EXAMPLE_COM_RAIL", "value": address}]);
    let devices = json!({"runAsUser": 0, "privileged": true, "capabilities": {"add": ["IPC_LOCK"]}});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "nodeName": NODE,
            "restartPolicy": "Never",
            "hostNetwork": network_of_the_host,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "tolerations": [{"operator": "Exists"}],
            "initContainers": [
                {
                    "name": "rdma-health",
                    "image": product,
                    "command": ["/usr/bin/rdma-health", "copy", "/shared"],
                    "securityContext": {"runAsUser": 0},
                    "volumeMounts": volume,
                },
                {
                    "name": "wait",
                    "image": product,
                    "command": ["/usr/bin/rdma-health", "wait", "--probe", format!("--timeout={timeout}")],
                    "env": given,
                    "securityContext": devices,
                },
            ],
            "containers": [{
                "name": "train",
                "image": BARE,
                "command": ["/shared/rdma-health", "run", "--mode=rdma", "--", "/pause/busybox", "env"],
                "env": given,
                "securityContext": devices,
                "volumeMounts": volume,
            }],
            "volumes": [{"name": "rdma-health", "emptyDir": {}}],
        },
    })
}

/// Runs the pod to its end. Its phase, and the logs of `wait` and `train`.
fn run(stage: &Stage, pod: &Value) -> (String, [String; 2]) {
    let name = pod["metadata"]["name"].as_str().unwrap();
    let file = stage.cluster.api.directory().join(format!("{name}.json"));
    std::fs::write(&file, pod.to_string()).unwrap();
    let (status, text) = stage.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    assert_eq!(status, 0, "{text}");
    let phase = stage.within(&format!("pod {name} has ended"), || {
        let pods = stage.cluster.pods(NAMESPACE).ok()?;
        let pod = pods.into_iter().find(|pod| pod["metadata"]["name"] == name)?;
        let phase = pod["status"]["phase"].as_str()?.to_owned();
        ["Succeeded", "Failed"].contains(&phase.as_str()).then_some(phase)
    });
    let logs = ["wait", "train"].map(|container| {
        let (_, text) = stage.kubectl(&["-n", NAMESPACE, "logs", name, "-c", container]);
        println!("{name}, {container}:\n{text}");
        text
    });
    let (status, text) = stage.kubectl(&[
        "-n",
        NAMESPACE,
        "delete",
        "pod",
        name,
        "--grace-period=0",
        "--force",
    ]);
    assert_eq!(status, 0, "{text}");
    (phase, logs)
}

pub fn a_job_waits_for_its_device_and_gets_its_settings(stage: &mut Stage) {
    let netdev = stage.run("cat /sys/class/infiniband/rxe0/parent");
    let address = stage.run(&format!(
        "basename \"$(dirname \"$(readlink -f /sys/class/net/{netdev}/device)\")\""
    ));
    let (phase, [waited, trained]) = run(stage, &pod("job", &address, true, "5m"));
    assert_eq!(phase, "Succeeded", "{waited}\n{trained}");
    assert!(waited.contains("RDMA is ready: 1 port"), "{waited}");
    for setting in ["NCCL_IB_HCA==rxe0:1", "NCCL_SOCKET_IFNAME=="] {
        assert!(trained.lines().any(|line| line.starts_with(setting)), "{trained}");
    }

    // The device is there, but its addresses belong to the node's network namespace.
    let (phase, [waited, trained]) = run(stage, &pod("job-elsewhere", &address, false, "30s"));
    assert_eq!(phase, "Failed", "{waited}\n{trained}");
    assert!(
        waited.contains("RDMA is not ready") && waited.contains("network namespace"),
        "{waited}"
    );
}
