//! Examples of each command.

/// What a command line is for, and the command line.
pub(super) type Example = (&'static str, &'static str);

/// Examples of the program as a whole.
const OVERVIEW: &[Example] = &[
    (
        "Does RDMA work on this node, and if not, why?",
        "rdma-health check",
    ),
    (
        "What on this node explains the errors of a job?",
        "rdma-health check --log nccl.log",
    ),
    (
        "Save the node to check it elsewhere",
        "rdma-health snapshot --out node.tar.zst",
    ),
    (
        "What does a finding mean, and how is it fixed?",
        "rdma-health explain port-down",
    ),
    ("Serve Prometheus metrics", "rdma-health agent --listen :14791"),
];

const CHECK: &[Example] = &[
    (
        "Does RDMA work on this node, and if not, why?",
        "rdma-health check",
    ),
    (
        "Also measure a loopback RDMA WRITE on every active port",
        "rdma-health check --probe",
    ),
    (
        "Explain the errors in the log of a job",
        "rdma-health check --log nccl.log",
    ),
    (
        "In a container that has the node's root at /host",
        "rdma-health check --root /host",
    ),
    (
        "Check a node that was saved elsewhere",
        "rdma-health check --snapshot node.tar.zst",
    ),
    (
        "In a script: the verdict as JSON",
        "rdma-health check --output json",
    ),
];

const SNAPSHOT: &[Example] = &[
    (
        "Save this node, with a probe of every active port",
        "rdma-health snapshot --probe --out node.tar.zst",
    ),
    (
        "Save it without names and addresses, to share it",
        "rdma-health snapshot --anonymize --out node.tar.zst",
    ),
    (
        "Check it on another machine",
        "rdma-health check --snapshot node.tar.zst",
    ),
    (
        "Save a node of a cluster to this machine",
        "kubectl -n rdma-health exec POD -c verbs -- rdma-health snapshot --out - > node.tar.zst",
    ),
];

const PROBE: &[Example] = &[
    ("Measure every active port", "rdma-health probe"),
    (
        "Measure one port with messages of 1 MiB",
        "rdma-health probe mlx5_0:1 --size 1MiB",
    ),
    (
        "Measure for 10 seconds, even if the port is busy",
        "rdma-health probe mlx5_0:1 --bytes 1TiB --duration 10s --force",
    ),
    (
        "As ib_write_bw -q 8 -t 64 -s 1048576 does",
        "rdma-health probe mlx5_0:1 -q 8 -t 64 -s 1MiB",
    ),
    (
        "Between two nodes: wait on node-b",
        "rdma-health probe --listen --token-file token",
    ),
    (
        "and measure every rail to it from node-a",
        "rdma-health probe --connect node-b --token-file token",
    ),
];

const DEVICES: &[Example] = &[
    ("Every RDMA port of this node", "rdma-health devices"),
    (
        "The ports of a node that was saved elsewhere",
        "rdma-health devices --snapshot node.tar.zst",
    ),
];

const TOPOLOGY: &[Example] = &[
    ("Which NIC is nearest to which GPU?", "rdma-health topology"),
    (
        "As a drawing for a browser",
        "rdma-health topology --output svg > topology.svg",
    ),
];

const ENV: &[Example] = &[
    ("Set everything in this shell", "eval \"$(rdma-health env)\""),
    ("Fail unless RDMA can be used", "rdma-health env --mode rdma"),
    ("For the env list of a pod", "rdma-health env --format yaml"),
];

const RUN: &[Example] = &[
    (
        "Start a job with the right settings",
        "rdma-health run -- torchrun train.py",
    ),
    (
        "Fail instead of falling back to TCP",
        "rdma-health run --mode rdma -- torchrun train.py",
    ),
];

const WAIT: &[Example] = &[
    (
        "Wait at most 5 minutes for every device of this pod",
        "rdma-health wait",
    ),
    (
        "Also measure a loopback RDMA WRITE on each port (needs rdma-health-verbs)",
        "rdma-health wait --probe --timeout 2m",
    ),
    (
        "With the plugin for shared devices: wait for two ports",
        "rdma-health wait --ports 2",
    ),
];

const COPY: &[Example] = &[(
    "In an init container that mounts a volume at /shared",
    "rdma-health copy /shared",
)];

const PREFLIGHT: &[Example] = &[
    (
        "Why do the RDMA pods of a namespace not start?",
        "rdma-health preflight --namespace team-a",
    ),
    (
        "Would this job start?",
        "rdma-health preflight --namespace team-a --file job.yaml",
    ),
];

const BASELINE: &[Example] = &[
    (
        "Record the state of a healthy node",
        "rdma-health baseline > expected.yaml",
    ),
    (
        "Later: is everything still there?",
        "rdma-health check --config expected.yaml",
    ),
];

const AGENT: &[Example] = &[
    (
        "Serve metrics on port 14791 of all addresses",
        "rdma-health agent",
    ),
    (
        "Keep the state across reboots and log JSON",
        "rdma-health agent --state /var/lib/rdma-health/state --log-format json",
    ),
    (
        "Read the node from a container and publish Node conditions",
        "rdma-health agent --root /host --kubernetes --node-name gpu-17",
    ),
];

const ALIVE: &[Example] = &[
    (
        "Is the agent in this container alive?",
        "rdma-health alive --liveness-socket /var/lib/rdma-health/liveness.sock",
    ),
    (
        "Has it read the node, too?",
        "rdma-health alive --ready --liveness-socket /var/lib/rdma-health/liveness.sock",
    ),
];

const REMOVE_CONDITIONS: &[Example] = &[
    (
        "After uninstalling: clean up all Nodes",
        "rdma-health remove-conditions",
    ),
    (
        "Clean up one Node",
        "rdma-health remove-conditions --node-name gpu-17",
    ),
];

const EXPLAIN: &[Example] = &[
    ("A rule", "rdma-health explain iommu-group-translated"),
    ("A cause", "rdma-health explain iommu-translation"),
    (
        "An error from a log, by name or by number",
        "rdma-health explain IBV_WC_LOC_PROT_ERR",
    ),
];

const KUBECTL: &[Example] = &[
    (
        "Which nodes of the cluster have a problem?",
        "rdma-health kubectl nodes",
    ),
    (
        "What is wrong with one of them?",
        "rdma-health kubectl check gpu-17",
    ),
    (
        "In what do the nodes of each pool differ?",
        "rdma-health kubectl drift",
    ),
    (
        "Save a node to check it here",
        "rdma-health kubectl snapshot gpu-17",
    ),
];

const RULES: &[Example] = &[
    ("One line per rule", "rdma-health rules"),
    ("The whole catalogue", "rdma-health rules --output json"),
];

const METRICS: &[Example] = &[("One line per metric", "rdma-health metrics")];

const COMPLETIONS: &[Example] = &[
    ("In this shell only", "source <(rdma-health completions bash)"),
    (
        "For all users",
        "rdma-health completions bash > /etc/bash_completion.d/rdma-health",
    ),
];

const MAN: &[Example] = &[
    ("Read the main page", "rdma-health man | man -l -"),
    (
        "Install the pages of all commands",
        "rdma-health man --dir /usr/local/share/man/man1",
    ),
];

/// The examples of a command, or else of the program as a whole.
pub(in super::super) fn examples(command: &str) -> impl Iterator<Item = Example> {
    let all = match command {
        "check" => CHECK,
        "snapshot" => SNAPSHOT,
        "probe" => PROBE,
        "devices" => DEVICES,
        "topology" => TOPOLOGY,
        "env" => ENV,
        "run" => RUN,
        "wait" => WAIT,
        "copy" => COPY,
        "preflight" => PREFLIGHT,
        "baseline" => BASELINE,
        "agent" => AGENT,
        "alive" => ALIVE,
        "remove-conditions" => REMOVE_CONDITIONS,
        "kubectl" => KUBECTL,
        "explain" => EXPLAIN,
        "rules" => RULES,
        "metrics" => METRICS,
        "completions" => COMPLETIONS,
        "man" => MAN,
        _ => OVERVIEW,
    };
    // Only of commands that this program was built with.
    let built = |(_, line): &Example| cfg!(feature = "agent") || !line.starts_with("rdma-health agent");
    all.iter().copied().filter(built)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    fn names() -> Vec<String> {
        let command = command();
        command
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .collect()
    }

    #[test]
    fn every_command_has_examples_of_its_own() {
        for name in names() {
            let own = format!("rdma-health {name}");
            assert!(examples(&name).any(|(_, line)| line.contains(&own)), "{name}");
        }
    }

    #[test]
    fn every_example_is_a_valid_command_line() {
        let all = names();
        for name in all.iter().map(String::as_str).chain(["rdma-health"]) {
            for (_, line) in examples(name) {
                // Without what the shell does: the parts before and after the command.
                let line = match line.strip_prefix("kubectl ") {
                    Some(line) => line.split_once(" -- ").unwrap().1,
                    None => &line[line.find("rdma-health ").unwrap()..],
                };
                let line = line.split(['>', '|', ')']).next().unwrap();
                let parsed = command().try_get_matches_from(line.split_whitespace());
                assert!(parsed.is_ok(), "{line}: {parsed:?}");
            }
        }
    }
}
