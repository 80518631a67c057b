//! What programs read: the JSON of `check` and of the agent against the published schema, and the formats of monitoring systems.

#![cfg(feature = "agent")]
#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    net::SocketAddr,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use rdma_health_tests::{
    running::{Running, free_address},
    scrape::{self, get},
    tree::{self, Tree},
};
use serde_json::Value;

const PRODUCT: &str = env!("CARGO_BIN_EXE_rdma-health");
const SCHEMA: &str = include_str!("../../../docs/api/v1.schema.json");
const NCCL: &str = include_str!("../../report/src/nccl.log");
/// A name that no format may pass on as it is.
const HOSTILE: &str = "m'x=5|\"<b>&\u{1b}[2J";

fn check(root: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(PRODUCT);
    command.args(["check", "--root", root.to_str().unwrap()]);
    command.args(more).stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The schema, which allows no field that it does not describe, so that every field has to be documented. Facts are free.
fn strict_schema() -> jsonschema::Validator {
    fn close(schema: &mut Value, name: &str) {
        match schema {
            Value::Object(fields) => {
                let is_closed = fields.contains_key("properties") && name != "node";
                if is_closed && !fields.contains_key("additionalProperties") {
                    fields.insert("additionalProperties".into(), false.into());
                }
                for (name, value) in fields {
                    close(value, name);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| close(value, "")),
            _ => {}
        }
    }
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    close(&mut schema, "");
    jsonschema::validator_for(&schema).unwrap()
}

#[track_caller]
fn valid(validator: &jsonschema::Validator, document: &Value) {
    let errors: Vec<_> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn the_json_of_every_fixture_follows_the_schema() {
    let schema = strict_schema();
    for fixture in [
        "h100-connectx7",
        "connectx7-gpu",
        "infiniband-ndr",
        "efa-p5",
        "vm-with-vfs",
    ] {
        let tree = tree::fixture(fixture).unwrap();
        let output = check(tree.path(), &["--output", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        valid(&schema, &report);
        for key in [
            "status",
            "unknown_because",
            "problems",
            "findings",
            "diagnosis",
            "events",
            "node",
        ] {
            assert!(report.get(key).is_some(), "{fixture}: {key}");
        }
    }
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("nccl.log");
    std::fs::write(&log, NCCL).unwrap();
    let output = check(tree.path(), &["--output", "json", "--log", log.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    valid(&schema, &report);
    let mut wrong = report.clone();
    wrong["findings"][0]["severity"] = "grave".into();
    assert!(!schema.is_valid(&wrong));
    let mut wrong = report;
    wrong["findings"][0]["secret"] = 1.into();
    assert!(!schema.is_valid(&wrong), "an undocumented field");
}

#[test]
fn one_fault_of_a_whole_node_is_one_problem_and_a_fault_of_two_ports_two() {
    let problems = |change: &dyn Fn(&mut Tree)| -> Vec<String> {
        let mut tree = Tree::fixture("h100-connectx7").unwrap();
        change(&mut tree);
        let tree = tree.unpack().unwrap();
        let output = check(tree.path(), &["--output", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let problems = report["problems"].as_array().unwrap().iter();
        let name = |problem: &Value| {
            let findings = problem["findings"].as_array().unwrap().len();
            format!(
                "{} {} {findings}",
                problem["cause"].as_str().unwrap(),
                problem["device"].as_str().unwrap_or("node")
            )
        };
        // Without a helper, which a tree does not have.
        problems
            .map(name)
            .filter(|name| !name.starts_with("helper"))
            .collect()
    };
    assert_eq!(problems(&|_| {}), [""; 0]);
    let translated = problems(&|tree| {
        for address in ["0000:18:00.0", "0000:13:00.0"] {
            tree.set_iommu_type(address, "DMA-FQ").unwrap();
        }
    });
    assert_eq!(translated.len(), 1, "{translated:?}");
    assert!(
        translated[0].starts_with("iommu-translation node "),
        "{translated:?}"
    );
    let with = |devices: &'static [&'static str], files: &'static [(&'static str, &'static str)]| {
        problems(&move |tree| {
            for device in devices {
                for (file, text) in files {
                    let end = format!("/infiniband/{device}/ports/1/{file}");
                    let path = tree
                        .entries()
                        .find(|(path, _)| path.ends_with(&end))
                        .unwrap()
                        .0
                        .to_owned();
                    tree.write(&path, text).unwrap();
                }
            }
        })
    };
    let two = with(
        &["mlx5_1", "mlx5_2"],
        &[("state", "1: DOWN\n"), ("phys_state", "3: Disabled\n")],
    );
    let ports: Vec<_> = two
        .iter()
        .map(|problem| problem.rsplit_once(' ').unwrap().0)
        .collect();
    assert_eq!(ports, ["port-down mlx5_1", "port-down mlx5_2"], "{two:?}");
    let wrong_type = with(
        &["mlx5_1"],
        &[("link_layer", "InfiniBand\n"), ("state", "2: INIT\n")],
    );
    assert_eq!(wrong_type.len(), 1, "what keeps the port down: {wrong_type:?}");
    assert!(wrong_type[0].starts_with("link-type mlx5_1 "), "{wrong_type:?}");
}

/// An agent that reads a tree. It is killed when this is dropped.
struct Agent {
    _running: Running,
    address: SocketAddr,
}

impl Agent {
    fn of(root: &Path) -> Self {
        let address = free_address().unwrap();
        let mut command = Command::new(PRODUCT);
        command
            .args([
                "agent",
                "--no-probe",
                "--helper",
                "/nonexistent",
                "--interval",
                "1s",
            ])
            .args(["--root", root.to_str().unwrap(), "--listen", &address.to_string()])
            .stderr(Stdio::null());
        let agent = Self {
            _running: Running::start(&mut command).unwrap(),
            address,
        };
        scrape::wait_until(address, Duration::from_secs(60), "a reading", |scrape| {
            scrape.count("rdma_verdict", &[]) > 0
        })
        .unwrap();
        agent
    }

    fn json(&self, path: &str) -> Value {
        let answer = get(self.address, path, Duration::from_secs(10)).unwrap();
        assert_eq!(answer.status, 200, "{path}");
        let head = answer.head.to_ascii_lowercase();
        assert!(head.contains("content-type: application/json"), "{path}: {head}");
        serde_json::from_str(&answer.body).unwrap()
    }
}

#[test]
fn the_agent_serves_the_same_document_and_its_parts() {
    let schema = strict_schema();
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let agent = Agent::of(tree.path());
    let published: Value = serde_json::from_str(SCHEMA).unwrap();
    assert_eq!(agent.json("/api/v1/schema"), published);
    let whole = agent.json("/api/v1/report");
    valid(&schema, &whole);
    let printed: Value = serde_json::from_slice(&check(tree.path(), &["--output", "json"]).stdout).unwrap();
    let keys = |document: &Value| document.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&whole), keys(&printed), "check and the agent");
    let parts: [(&str, &[&str]); 5] = [
        ("verdict", &["status", "unknown_because", "problems"]),
        ("findings", &["findings"]),
        ("causes", &["diagnosis"]),
        ("events", &["events"]),
        ("node", &["node"]),
    ];
    for (part, fields) in parts {
        let document = agent.json(&format!("/api/v1/{part}"));
        valid(&schema, &document);
        for key in ["schema", "version", "host", "kubernetes_node", "time"]
            .iter()
            .chain(fields)
        {
            assert!(document.get(key).is_some(), "{part}: {key}");
        }
        assert_eq!(
            keys(&document).len(),
            5 + fields.len(),
            "{part}: {:?}",
            keys(&document)
        );
    }
    // The agent remembers since when.
    let since = &whole["findings"][0]["since"];
    assert!(since["time"].as_u64().unwrap() > 1_700_000_000, "{since}");
    assert_eq!(since["exact"], false, "it was there at the start");
    // A fault that is fixed and comes back is a new one; one that stays keeps its time.
    let first = whole["findings"][0]["since"]["time"].clone();
    let end = Instant::now() + Duration::from_secs(60);
    while agent.json("/api/v1/verdict")["time"].as_u64() <= whole["time"].as_u64().map(|time| time + 1) {
        assert!(Instant::now() < end, "no other reading");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(
        agent.json("/api/v1/findings")["findings"][0]["since"]["time"],
        first
    );
}

#[test]
fn a_short_line_for_node_problem_detector_and_performance_data_for_nagios() {
    let broken = tree::fixture("connectx7-gpu").unwrap();
    let output = check(broken.path(), &["--output", "npd"]);
    assert_eq!(output.status.code(), Some(1), "any problem is 1");
    let line = out(&output);
    assert!(line.starts_with("RDMA critical: iommu-translation"), "{line}");
    assert!(
        line.ends_with('\n') && line.lines().count() == 1 && line.len() <= 80,
        "{line}"
    );

    let output = check(broken.path(), &["--output", "nagios"]);
    assert_eq!(output.status.code(), Some(2));
    let text = out(&output);
    let (first, rest) = text.split_once('\n').unwrap();
    let (words, numbers) = first.split_once(" | ").unwrap();
    assert!(
        words.starts_with("RDMA CRITICAL - ") && !words.contains('|'),
        "{words}"
    );
    for number in ["critical=", "warning=", "active_ports="] {
        assert!(numbers.contains(number), "{numbers}");
    }
    assert!(rest.contains("CRITICAL: iommu-group-translated: "), "{rest}");

    let line = out(&check(broken.path(), &["--output", "line"]));
    assert_eq!(line, out(&check(broken.path(), &["--quiet"])));

    // A fault of a port names it.
    let down = tree::fixture("h100-connectx7").unwrap();
    let port = down.path().join("sys/class/infiniband/mlx5_3/ports/1");
    std::fs::write(port.join("state"), "1: DOWN\n").unwrap();
    std::fs::write(port.join("phys_state"), "2: Polling\n").unwrap();
    let line = out(&check(down.path(), &["--output", "npd"]));
    assert!(line.contains("port-down on mlx5_3:1: "), "{line}");
    let text = out(&check(down.path(), &["--output", "nagios"]));
    assert!(text.lines().next().unwrap().contains(" (mlx5_3:1)"), "{text}");
}

#[test]
fn the_severity_that_fails_can_be_chosen() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let status: Value = serde_json::from_slice(&check(tree.path(), &["--output", "json"]).stdout).unwrap();
    let code = |fail_on: &str| {
        check(tree.path(), &["--output", "line", "--fail-on", fail_on])
            .status
            .code()
    };
    match status["status"].as_str().unwrap() {
        "warning" => assert_eq!((code("critical"), code("warning")), (Some(0), Some(1))),
        "ok" => assert_eq!((code("critical"), code("warning")), (Some(0), Some(0))),
        other => panic!("{other}"),
    }
    let output = check(tree.path(), &["--output", "nagios", "--fail-on", "info"]);
    assert_eq!(output.status.code(), Some(1));
    let line = out(&output);
    assert!(
        line.starts_with("RDMA WARNING - information: softroce-in-use | "),
        "{line}"
    );
    let words = |format: &str| out(&check(tree.path(), &["--output", format, "--fail-on", "info"]));
    assert_eq!(words("npd"), "RDMA warning: information: softroce-in-use\n");
    assert!(words("line").ends_with("  WARNING  information: softroce-in-use\n"));
    let broken = tree::fixture("connectx7-gpu").unwrap();
    assert_eq!(
        check(broken.path(), &["--fail-on", "critical"]).status.code(),
        Some(2)
    );
    let nothing = tempfile::tempdir().unwrap();
    for fail_on in ["info", "warning", "critical"] {
        let output = check(nothing.path(), &["--fail-on", fail_on]);
        assert_eq!(output.status.code(), Some(3), "unknown is never a success");
    }
}

#[test]
fn one_line_says_that_facts_could_not_be_read_and_junit_skips_their_rules() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let line = |format: &str| {
        let output = check(tree.path(), &["--output", format]);
        assert_eq!(output.status.code(), Some(0));
        out(&output).lines().next().unwrap_or_default().to_owned()
    };
    assert!(!line("nagios").contains("could not be read"));
    // Root may read everything, but not a directory as a file.
    let log = tree.path().join("dev/kmsg");
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    assert!(
        line("nagios").starts_with("RDMA OK - no problem found; 1 fact could not be read | "),
        "{}",
        line("nagios")
    );
    assert_eq!(line("npd"), "RDMA ok: no problem found; 1 fact could not be read");
    assert!(
        line("line").ends_with("  OK  some facts could not be read"),
        "{}",
        line("line")
    );
    let xml = out(&check(tree.path(), &["--output", "junit"]));
    for rule in ["gpu-failed", "adapter-failed"] {
        let skipped =
            format!("name=\"{rule}\" time=\"0\">\n      <skipped message=\"the kernel log could not be read");
        assert!(xml.contains(&skipped), "{rule}: {xml}");
    }
    assert!(xml.contains("name=\"port-down\" time=\"0\"/>"), "{xml}");
}

#[test]
fn junit_passes_no_rule_about_a_node_of_which_nothing_is_known() {
    let nothing = tempfile::tempdir().unwrap();
    let xml = out(&check(nothing.path(), &["--output", "junit"]));
    let passed = xml.matches("time=\"0\"/>").count();
    assert_eq!(passed, 0, "{xml}");
}

#[test]
fn every_format_has_what_a_log_shows_or_why_it_shows_nothing() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let checked = |text: &[u8], format: &str| {
        let log = folder.path().join("job.log");
        std::fs::write(&log, text).unwrap();
        let output = check(tree.path(), &["--log", log.to_str().unwrap(), "--output", format]);
        (output.status.code(), out(&output))
    };
    let failed = b"node1:7:9 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n";
    let (code, xml) = checked(failed, "junit");
    assert_eq!(code, Some(2));
    elements(&xml);
    let case = "<testcase classname=\"rdma-health.job\" name=\"reg-mr-no-memory\" time=\"0\">\n      <failure type=\"critical\"";
    assert!(xml.contains(case), "{xml}");
    assert!(
        checked(failed, "nagios").1.contains("| critical=1;;0;0"),
        "the numbers fit the status"
    );
    let (code, xml) = checked(b"epoch 1 done\n", "junit");
    assert_eq!(code, Some(0));
    assert!(
        xml.contains("classname=\"rdma-health.job\" name=\"no-failure\" time=\"0\"/>"),
        "{xml}"
    );
    for (log, reason) in [
        (&b""[..], "the log is empty"),
        (b"\x01\x02\x03\x7fELF\n", "the log is not text"),
    ] {
        let (code, xml) = checked(log, "junit");
        assert_eq!(code, Some(3));
        assert!(
            xml.contains(&format!("<error type=\"unknown\" message=\"{reason}\"/>")),
            "{xml}"
        );
        for format in ["line", "npd", "nagios", "text"] {
            let (_, text) = checked(log, format);
            assert!(text.contains(reason), "{format}: {text}");
        }
        let json: serde_json::Value = serde_json::from_str(&checked(log, "json").1).unwrap();
        assert_eq!(json["unknown_because"], reason);
    }
}

/// The text of a JUnit report as elements with attributes, as strictly as a parser needs it here.
fn elements(xml: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut found = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = xml
        .strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
        .unwrap();
    while let Some((text, after)) = rest.split_once('<') {
        assert!(!text.contains('>'), "{text}");
        let (tag, after) = after.split_once('>').unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let inner = tag.strip_suffix('/').unwrap_or(tag);
        let (name, mut attributes) = inner.split_once(' ').unwrap_or((inner, ""));
        let mut pairs = Vec::new();
        while let Some((key, value)) = attributes.trim_start().split_once("=\"") {
            let (value, after) = value.split_once('"').unwrap();
            pairs.push((key.to_owned(), value.to_owned()));
            attributes = after;
        }
        found.push((name.to_owned(), pairs));
        if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    found
}

#[test]
fn junit_has_what_its_common_schema_requires() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let xml = out(&check(tree.path(), &["--output", "junit"]));
    let elements = elements(&xml);
    // The attributes that the schema of Apache Ant's reports requires, which CI systems accept.
    let required: [(&str, &[&str]); 3] = [
        (
            "testsuite",
            &[
                "name",
                "package",
                "id",
                "hostname",
                "timestamp",
                "tests",
                "failures",
                "errors",
                "time",
            ],
        ),
        ("testcase", &["classname", "name", "time"]),
        ("failure", &["type", "message"]),
    ];
    for (element, attributes) in required {
        let mut all = elements.iter().filter(|(name, _)| name == element).peekable();
        assert!(all.peek().is_some(), "{element}");
        for (_, pairs) in all {
            let names: Vec<_> = pairs.iter().map(|(name, _)| name.as_str()).collect();
            assert!(
                attributes.iter().all(|attribute| names.contains(attribute)),
                "{element}: {names:?}"
            );
        }
    }
    let count = |element: &str| elements.iter().filter(|(name, _)| name == element).count();
    let sum = |attribute: &str| -> usize {
        let suites = elements.iter().filter(|(name, _)| name == "testsuite");
        let value = |(_, pairs): &(String, Vec<(String, String)>)| -> usize {
            pairs
                .iter()
                .find(|(name, _)| name == attribute)
                .unwrap()
                .1
                .parse()
                .unwrap()
        };
        suites.map(value).sum()
    };
    assert_eq!(
        (count("testcase"), count("failure"), count("skipped")),
        (sum("tests"), sum("failures"), sum("skipped"))
    );
    assert!(xml.contains("<skipped message=\"no probe has run\"/>"), "{xml}");
    let only_critical = out(&check(
        tree.path(),
        &["--output", "junit", "--fail-on", "critical"],
    ));
    assert!(only_critical.matches("<failure").count() < count("failure"));
    assert!(!only_critical.contains("<failure type=\"warning\""));
    std::fs::remove_file(tree.path().join("dev/kmsg")).unwrap();
    let xml = out(&check(tree.path(), &["--output", "junit"]));
    let no_log =
        "name=\"adapter-failed\" time=\"0\">\n      <skipped message=\"the kernel log is missing\"/>";
    assert!(xml.contains(no_log), "{xml}");
}

#[test]
fn a_hostile_name_is_escaped_in_every_format() {
    let mut tree = Tree::fixture("connectx7-gpu").unwrap();
    tree.write("proc/sys/kernel/hostname", format!("{HOSTILE}\n"))
        .unwrap();
    let tree = tree.unpack().unwrap();
    for format in ["text", "json", "line", "nagios", "npd", "junit"] {
        let text = out(&check(tree.path(), &["--output", format]));
        assert!(!text.contains('\u{1b}'), "{format}: {text:?}");
        match format {
            "json" => drop(serde_json::from_str::<Value>(&text).unwrap()),
            "junit" => drop(elements(&text)),
            "nagios" => assert_eq!(text.lines().next().unwrap().matches('|').count(), 1, "{text}"),
            _ => {}
        }
    }
}

#[test]
fn without_a_verdict_each_format_says_why() {
    let missing = Path::new("/nonexistent/a|<b>");
    for (format, status, begin) in [
        ("text", 3, ""),
        ("json", 3, "{"),
        ("line", 3, "this-node  UNKNOWN  "),
        ("nagios", 3, "RDMA UNKNOWN - "),
        ("npd", 2, "RDMA unknown: "),
        ("junit", 3, "<?xml "),
    ] {
        let output = check(missing, &["--output", format]);
        assert_eq!(output.status.code(), Some(status), "{format}");
        assert!(!output.stderr.is_empty(), "{format}");
        let text = out(&output);
        assert_eq!(text.is_empty(), begin.is_empty(), "{format}: {text}");
        assert!(text.starts_with(begin), "{format}: {text}");
        match format {
            "json" => valid(&strict_schema(), &serde_json::from_str(&text).unwrap()),
            "junit" => {
                let suite = elements(&text).into_iter().find(|(name, _)| name == "testsuite");
                let errors = suite.unwrap().1.into_iter().find(|(name, _)| name == "errors");
                assert_eq!(errors.unwrap().1, "1");
            }
            "nagios" => assert!(!text.contains('|'), "{text}"),
            "npd" => assert!(text.len() <= 80, "{text}"),
            _ => {}
        }
    }
}
