//! The cluster with its one node, and what acts ask of it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use rdma_health_tests::{
    api_server::{NAMESPACE, NODE},
    cluster::{Cluster, PATIENCE},
    virtual_node::VirtualNode,
};
use serde_json::{Value, json};

const TYPES: [&str; 8] = [
    "GPUDirectProblem",
    "RDMADeviceProblem",
    "RDMAIommuProblem",
    "RDMALimitsProblem",
    "RDMALinkProblem",
    "RDMANetworkProblem",
    "RDMAProbeProblem",
    "RDMAReadingProblem",
];
const STATE: &str = "/var/lib/rdma-health/state";

pub struct Stage {
    pub cluster: Cluster,
    pub node: Option<VirtualNode>,
    pub python: PathBuf,
    /// Whether the server knows admission policies; Debian's does not.
    pub policies: bool,
}

impl Stage {
    pub fn node(&self) -> &VirtualNode {
        self.node.as_ref().unwrap()
    }

    pub fn run(&self, script: &str) -> String {
        let output = self.node().run_within(PATIENCE, script).unwrap();
        assert_eq!(output.status, 0, "{script}: {}", output.stderr_text());
        output.stdout_text().trim().to_owned()
    }

    /// Waits; a failure shows what the cluster and the node report.
    pub fn within<T>(&self, what: &str, test: impl FnMut() -> Option<T>) -> T {
        self.cluster.within(what, test).unwrap_or_else(|error| {
            let pods = self.kubectl(&["-n", NAMESPACE, "describe", "pods"]).1;
            let log = self
                .kubectl(&[
                    "-n",
                    NAMESPACE,
                    "logs",
                    "-l",
                    "app.kubernetes.io/name=rdma-health",
                    "-c",
                    "agent",
                    "--tail=30",
                ])
                .1;
            panic!(
                "{error:#}\n{pods}\n{log}\n{}\n{:#?}",
                self.cluster.logs(self.node()),
                self.conditions()
            )
        })
    }

    /// Exit status and output.
    pub fn kubectl(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.cluster.kubectl(arguments).unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        (output.status.code().unwrap_or(-1), text)
    }

    pub fn helm(&self, action: &str, mut values: Value) {
        values["kubernetes"]["admissionPolicy"] = json!(self.policies);
        let helm = Command::new(&self.python)
            .arg(repository("tests/deploy/release.py"))
            .arg(action)
            .arg(self.cluster.kubeconfig())
            .arg(values.to_string())
            .output()
            .unwrap();
        assert!(
            helm.status.success(),
            "helm {action}: {}\n{}",
            String::from_utf8_lossy(&helm.stderr),
            self.kubectl(&["-n", NAMESPACE, "describe", "pods"]).1
        );
    }

    /// The agent's pod, once it is the only one and all its containers are ready; not the one of this name.
    pub fn running(&self, other_than: &str) -> Value {
        self.within("the pod is 2/2 Running", || {
            let pods = self.cluster.pods(NAMESPACE).ok()?;
            let [pod] = pods.as_slice() else { return None };
            let statuses = pod["status"]["containerStatuses"].as_array()?;
            let ready = statuses.len() == 2 && statuses.iter().all(|status| status["ready"] == true);
            (ready && pod["metadata"]["name"] != other_than && pod["metadata"]["deletionTimestamp"].is_null())
                .then(|| pod.clone())
        })
    }

    pub fn name(&self) -> String {
        self.running("")["metadata"]["name"].as_str().unwrap().to_owned()
    }

    pub fn check(&self, container: &str) -> Value {
        let name = self.name();
        let (status, text) = self.kubectl(&[
            "-n",
            NAMESPACE,
            "exec",
            &name,
            "-c",
            container,
            "--",
            "/usr/bin/rdma-health",
            "check",
            "--output",
            "json",
        ]);
        assert!((0..=3).contains(&status), "check in {container}: {text}");
        let json = text
            .lines()
            .find(|line| line.starts_with('{'))
            .map(|_| &text[text.find('{').unwrap()..=text.rfind('}').unwrap()]);
        serde_json::from_str(json.unwrap_or(&text)).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The agent's conditions: status, reason and time of the last transition.
    pub fn conditions(&self) -> BTreeMap<String, [String; 3]> {
        let node = self.cluster.api.node(NODE).unwrap();
        let all = node["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        all.iter()
            .filter(|condition| TYPES.contains(&condition["type"].as_str().unwrap_or_default()))
            .map(|condition| {
                let fields = ["status", "reason", "lastTransitionTime"].map(|field| text(&condition[field]));
                (text(&condition["type"]), fields)
            })
            .collect()
    }

    pub fn status(&self, kind: &str) -> Option<[String; 2]> {
        let [status, reason, _] = self.conditions().get(kind)?.clone();
        Some([status, reason])
    }

    pub fn until(&self, kind: &str, status: &str) -> [String; 2] {
        self.within(&format!("{kind} is {status}"), || {
            self.status(kind).filter(|now| now[0] == status)
        })
    }

    /// Waits until every condition is published and known, of a node whose devices the agent sees.
    pub fn all_known(&self) {
        self.within("every condition is known", || {
            let conditions = self.conditions();
            let known = conditions
                .values()
                .all(|[status, reason, _]| status != "Unknown" && reason != "NoDevices");
            (conditions.len() == TYPES.len() && known).then_some(())
        });
    }

    /// The agent's Events: reasons, sorted, with their counts.
    pub fn events(&self) -> Vec<String> {
        let events = self.cluster.api.events(NODE).unwrap();
        let mut events: Vec<_> = events
            .iter()
            .filter(|event| {
                event["source"]["component"] == "rdma-health" || event["reportingComponent"] == "rdma-health"
            })
            .map(|event| format!("{} {}", event["reason"], event["count"]))
            .collect();
        events.sort();
        events
    }

    /// How often each container of the pod was restarted.
    pub fn restarts(&self) -> BTreeMap<String, u64> {
        let pod = &self.cluster.pods(NAMESPACE).unwrap()[0];
        let statuses = pod["status"]["containerStatuses"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        statuses
            .iter()
            .map(|status| {
                (
                    status["name"].as_str().unwrap().to_owned(),
                    status["restartCount"].as_u64().unwrap(),
                )
            })
            .collect()
    }

    /// Since when the history has known each problem.
    pub fn since(&self) -> BTreeMap<String, Value> {
        let state: Value = serde_json::from_str(&self.run(&format!("cat {STATE}"))).unwrap();
        let problems = state["observed"]["problems"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        problems
            .into_iter()
            .map(|(key, since)| (key, since["time"].clone()))
            .collect()
    }

    /// Asserts that conditions and Events stay as they are while the pod changes, until the new agent has read and probed.
    ///
    /// On a machine that is too busy to emulate the node in time, the agent correctly reports that devices do not answer. Then
    /// only what is known before and after is compared, and the times of transitions are not.
    pub fn nothing_flips(&self, change: impl FnOnce()) {
        self.nothing_flips_if_in_time(|| {
            change();
            true
        });
    }

    /// The same, if the change took no longer than the agent waits before it reports it. Otherwise, conditions must be as before in the
    /// end.
    pub fn nothing_flips_if_in_time(&self, change: impl FnOnce() -> bool) {
        let before = (self.conditions(), self.events());
        let in_time = change();
        self.probed();
        if !in_time {
            println!("this machine is too slow to compare Events and the times of transitions");
            self.within("conditions are as before", || {
                let now = self.conditions();
                let same = |(kind, was): (&String, &[String; 3])| {
                    now.get(kind).is_some_and(|now| now[..2] == was[..2])
                };
                before.0.iter().all(same).then_some(())
            });
            return;
        }
        let after = (self.conditions(), self.events());
        let helper = |events: &[String]| events.iter().filter(|event| event.contains("Helper")).count();
        assert_eq!(helper(&after.1), helper(&before.1), "{:?}", after.1);
        let stale =
            |[_, reason, _]: &[String; 3]| ["FactsStale", "FactsUnreadable"].contains(&reason.as_str());
        let unreadable = |events: &[String]| -> Vec<String> {
            let unreadable = events.iter().filter(|event| event.contains("FactsUnreadable"));
            unreadable.cloned().collect()
        };
        let noisy = before.0.values().chain(after.0.values()).any(stale)
            || unreadable(&before.1) != unreadable(&after.1);
        if !noisy {
            assert_eq!(after, before);
            return;
        }
        println!("this machine is too slow to compare the times of transitions");
        for (kind, was) in &before.0 {
            let now = &after.0[kind];
            if !stale(was) && !stale(now) {
                assert_eq!(now[..2], was[..2], "{kind}");
            }
        }
    }

    /// Waits until the agent has probed both active ports: it then knows all that it publishes.
    pub fn probed(&self) {
        let wanted = self.run("grep -l ACTIVE /sys/class/infiniband/rxe*/ports/1/state | wc -l");
        self.within("the ports are probed", || {
            let seen = self
                .node()
                .run("curl -s --max-time 20 http://127.0.0.1:14791/metrics | grep -c '^rdma_probe_success'")
                .ok()?;
            (seen.stdout_text().trim() == wanted).then_some(())
        });
    }
}

pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}
