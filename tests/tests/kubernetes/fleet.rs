//! `kubectl rdma-health` against a real API server, whose pod proxy leads to real agents.

use std::{
    net::{IpAddr, TcpListener, UdpSocket},
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Output},
};

use rdma_health_tests::{
    api_server::{ApiServer, NAMESPACE},
    virtual_node::built,
};
use serde_json::{Value, json};

use crate::node::{Node, SOON, within};

/// An address of this machine that is not loopback: the API server refuses to proxy to others.
fn own_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent; the kernel only chooses the source address.
    socket.connect("192.0.2.1:9").unwrap();
    socket.local_addr().unwrap().ip()
}

/// Registers a pod of the agent on a Node, as a `DaemonSet` would, at an address.
fn pod(server: &ApiServer, node: &str, address: IpAddr, port: u16, phase: &str) {
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let name = format!("rdma-health-{node}");
    let object = json!({
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "rdma-health"}},
        "spec": {
            "serviceAccountName": "agent",
            "automountServiceAccountToken": false,
            "nodeName": node,
            "containers": [{"name": "agent", "image": "none", "ports": [{"name": "metrics", "containerPort": port}]}],
        },
    });
    server.must("POST", &pods, Some(&object)).unwrap();
    let status = json!({"status": {"phase": phase, "podIP": address, "podIPs": [{"ip": address}]}});
    server
        .must("PATCH", &format!("{pods}/{name}/status"), Some(&status))
        .unwrap();
}

struct User {
    kubeconfig: PathBuf,
    plugin: PathBuf,
}

impl User {
    fn run(&self, arguments: &[&str]) -> Output {
        let mut plugin = Command::new(&self.plugin);
        plugin.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig);
        plugin.current_dir(self.plugin.parent().unwrap()).env_clear();
        plugin.output().unwrap()
    }
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[allow(clippy::too_many_lines)] // one story of a user and a cluster
pub fn the_plugin_shows_every_node_and_names_those_that_do_not_answer(server: &ApiServer) {
    let address = own_address();
    assert!(!address.is_loopback(), "this machine has no other address");
    let mut agents = Vec::new();
    for name in ["fleet-1", "fleet-2", "fleet-3"] {
        let mut node = Node::new(server, name);
        let port = TcpListener::bind((address, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        if name == "fleet-3" {
            node.fault();
        }
        node.start_at((address, port).into());
        pod(server, name, address, port, "Running");
        agents.push(node);
    }
    server.create_node("fleet-4").unwrap();
    pod(server, "fleet-4", address, 9, "Running");
    server.create_node("fleet-5").unwrap();

    let user = {
        let token = server.token("agent").unwrap();
        let (kubeconfig, _) = server.kubeconfig("fleet", &token).unwrap();
        // kubectl finds a plugin by its name.
        let plugin = server.directory().join("kubectl-rdma_health");
        symlink(built("rdma-health").unwrap(), &plugin).unwrap();
        User { kubeconfig, plugin }
    };
    let select = ["--selector", "fleet=yes"];
    for n in 1..=5 {
        let labels = json!({"metadata": {"labels": {"fleet": "yes", "karpenter.sh/nodepool": "gpu"}}});
        let path = format!("/api/v1/nodes/fleet-{n}");
        server.must("PATCH", &path, Some(&labels)).unwrap();
    }

    // Without rights nothing is shown, and what is missing is named.
    let refused = user.run(&["nodes"]);
    let (out, error) = said(&refused);
    assert_eq!((refused.status.code(), out.as_str()), (Some(3), ""), "{error}");
    assert!(error.contains("you may not list"), "{error}");
    let rules = |proxy: bool| {
        let mut rules =
            vec![json!({"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list"]})];
        rules.push(json!({"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "patch"]}));
        rules.push(json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}));
        if proxy {
            rules.push(json!({"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]}));
        }
        json!(rules)
    };
    server.allow("agent", &rules(false)).unwrap();
    let partly = within(SOON, || {
        let (_, error) = said(&user.run(&["nodes", select[0], select[1]]));
        error
            .contains("grant verb \"get\" on resource \"pods/proxy\"")
            .then_some(())
    });
    assert!(partly.is_some());
    server.allow("agent", &rules(true)).unwrap();

    let nodes = within(SOON, || {
        let output = user.run(&["nodes", select[0], select[1], "--output", "json"]);
        let document: Value = serde_json::from_slice(&output.stdout).ok()?;
        (document["answered"] == 3).then_some((output, document))
    });
    let (output, document) = nodes.unwrap_or_else(|| panic!("{:?}", said(&user.run(&["nodes"]))));
    assert_eq!(output.status.code(), Some(2), "fleet-3 is critical");
    assert_eq!(document["asked"], 5);
    let third = &document["nodes"][2];
    assert_eq!(
        (&third["node"], &third["verdict"], &third["pool"]),
        (&json!("fleet-3"), &json!("critical"), &json!("gpu"))
    );
    let (_, error) = said(&output);
    assert!(error.contains("2 of 5 nodes did not answer"), "{error}");
    assert!(
        error.contains("1 node: no agent runs on the node (fleet-5)"),
        "{error}"
    );
    let (out, _) = said(&user.run(&["nodes", select[0], select[1]]));
    println!("$ kubectl rdma-health nodes -l fleet=yes\n{out}{error}");
    assert!(out.contains("fleet-3  critical"), "{out}");

    let check = user.run(&["check", "fleet-3"]);
    let (out, error) = said(&check);
    println!("$ kubectl rdma-health check fleet-3\n{out}{error}");
    assert_eq!(check.status.code(), Some(2), "{error}");
    assert!(
        out.starts_with("CRITICAL  fleet-3") && out.contains("port-down"),
        "{out}"
    );
    let none = user.run(&["check", "fleet-5"]);
    assert_eq!(none.status.code(), Some(3));
    assert!(
        said(&none).1.contains("fleet-5: no agent runs on the node"),
        "{:?}",
        said(&none)
    );

    let drift = user.run(&["drift", select[0], select[1]]);
    let (out, error) = said(&drift);
    println!("$ kubectl rdma-health drift -l fleet=yes\n{out}{error}");
    assert_eq!(drift.status.code(), Some(3), "not every node answered");
    assert!(
        out.contains("3 nodes compared: 1 differs") && out.contains("fleet-3"),
        "{out}"
    );

    let snapshot = user.run(&["snapshot", "fleet-3"]);
    assert!(snapshot.status.success(), "{:?}", said(&snapshot));
    let checked = Command::new(built("rdma-health").unwrap())
        .args(["check", "--snapshot"])
        .arg(server.directory().join("fleet-3.tar.zst"))
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(2), "{:?}", said(&checked));
}
