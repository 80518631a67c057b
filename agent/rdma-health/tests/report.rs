//! The doctor as its user meets it: a job's log, one line for a script, explanations.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use rdma_health_node::history::History;
use rdma_health_tests::tree::{self, Tree};

const PRODUCT: &str = env!("CARGO_BIN_EXE_rdma-health");
const NCCL: &str = include_str!("../../report/src/nccl.log");

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(PRODUCT)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // The test does not fail if a program does not read its input.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn check(root: &Path, more: &[&str], input: &[u8]) -> Output {
    let mut arguments = vec!["check", "--root", root.to_str().unwrap()];
    arguments.extend(more);
    run(&arguments, input)
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn the_report_in_the_readme_is_what_the_program_prints() {
    let readme = include_str!("../../../README.md");
    let (_, after) = readme.split_once("$ rdma-health check\n").unwrap();
    let (shown, _) = after.split_once("```").unwrap();
    let tree = tree::fixture("virtual-node-translated").unwrap();
    let checked = check(tree.path(), &[], b"");
    // A fixture has no host name, and the README ends before the lines of severity info.
    let printed: Vec<_> = out(&checked)
        .lines()
        .skip(1)
        .take(shown.lines().count() - 1)
        .collect();
    assert_eq!(shown.lines().skip(1).collect::<Vec<_>>(), printed);
}

#[test]
fn a_log_is_read_from_a_file_and_from_standard_input_alike() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nccl.log");
    fs::write(&file, NCCL).unwrap();
    let from_file = check(tree.path(), &["--log", file.to_str().unwrap()], b"");
    let from_input = check(tree.path(), &["--log", "-"], NCCL.as_bytes());
    assert_eq!(out(&from_file), out(&from_input));
    assert_eq!(from_file.status.code(), Some(2));
    let shown = out(&from_file);
    for words in [
        "log line 4: IBV_WC_LOC_PROT_ERR(4) on mlx5_0",
        "next step",
        "likely  iommu-translation",
        "evidence",
    ] {
        assert!(shown.contains(words), "\"{words}\" is missing: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colour where there is no terminal");
}

#[test]
fn a_log_of_failures_is_critical_on_a_node_in_order_and_one_without_changes_nothing() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let failed = check(tree.path(), &["--log", "-"], NCCL.as_bytes());
    assert_eq!(failed.status.code(), Some(2), "{}", out(&failed));
    let slow = check(
        tree.path(),
        &["--log", "-"],
        b"a:1:2 [0] NCCL INFO Using network Socket\n",
    );
    assert_eq!(slow.status.code(), Some(1), "{}", out(&slow));
    let junk: Vec<u8> = (0..100_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    let output = check(tree.path(), &["--log", "-"], b"epoch 1 loss 0.5\n");
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    let none = "no line of a known or suspected RDMA failure in";
    assert!(out(&output).contains(none), "{}", out(&output));
    assert!(out(&output).starts_with("OK"), "{}", out(&output));
    let empty = check(tree.path(), &["--log", "-"], b"");
    assert_eq!(empty.status.code(), Some(3), "{}", out(&empty));
    assert!(out(&empty).contains("the log is empty"), "{}", out(&empty));
    let binary = check(tree.path(), &["--log", "-"], &junk);
    assert_eq!(binary.status.code(), Some(3), "{}", out(&binary));
    assert!(out(&binary).contains("the log is not text"), "{}", out(&binary));
    let strange = check(
        tree.path(),
        &["--log", "-"],
        b"ERROR fabric-manager: RDMA lane 3 entered state 7, giving up\n",
    );
    assert_eq!(strange.status.code(), Some(3), "{}", out(&strange));
    let page = "## Cause\nThe limit of the process is too low for the job.\n## Solution\nRaise it, as #1234 says.\n\
                ```\nibv_create_qp failed: Cannot allocate memory\n```\n";
    let unclear = check(tree.path(), &["--log", "-"], page.as_bytes());
    assert_eq!(unclear.status.code(), Some(3), "{}", out(&unclear));
    let shown = out(&unclear).split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "1 looks like a failure and was not judged",
        "pass only what your programs printed",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    // A page alone has failed for no one.
    let page = page.replace(", as #1234 says", "");
    let page = check(tree.path(), &["--log", "-"], page.as_bytes());
    assert_eq!(page.status.code(), Some(0), "{}", out(&page));
    let words = "looks like an RDMA failure that rdma-health does not know";
    assert!(
        out(&strange).replace('\n', " ").contains(words),
        "{}",
        out(&strange)
    );
}

#[test]
fn a_log_that_cannot_be_read_is_an_error_and_never_a_verdict() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    for log in ["/nowhere/nccl.log", "/"] {
        let output = check(tree.path(), &["--log", log], b"");
        assert_eq!(output.status.code(), Some(3));
        assert!(
            err(&output).contains(log) && out(&output).is_empty(),
            "{}",
            err(&output)
        );
    }
    let output = run(&["check", "--log", "-", "--snapshot", "-"], b"");
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("standard input"), "{}", err(&output));
}

#[test]
fn quiet_is_the_verdict_in_one_line() {
    for (fixture, code, begin) in [
        ("connectx7-gpu", 2, "gpu-17  CRITICAL  iommu-translation"),
        ("virtual-node-passthrough", 0, "this-node  OK\n"),
    ] {
        let tree = tree::fixture(fixture).unwrap();
        let output = check(tree.path(), &["--quiet"], b"");
        assert_eq!(output.status.code(), Some(code));
        assert!(out(&output).starts_with(begin), "{}", out(&output));
        assert_eq!(out(&output).lines().count(), 1, "{}", out(&output));
        assert_eq!(err(&output), "");
    }
}

#[test]
fn json_tells_the_diagnosis_beside_what_it_always_told() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let output = check(tree.path(), &["--output", "json", "--log", "-"], NCCL.as_bytes());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in [
        "schema",
        "status",
        "unknown_because",
        "findings",
        "diagnosis",
        "node",
    ] {
        assert!(report.get(key).is_some(), "{key}");
    }
    let diagnosis = &report["diagnosis"];
    let cause = &diagnosis["causes"][0];
    assert_eq!(cause["id"], "iommu-translation");
    assert_eq!(cause["confidence"], "likely");
    assert_eq!(cause["findings"][0], "iommu-group-translated");
    assert_eq!(cause["explains"][0], "IBV_WC_LOC_PROT_ERR");
    assert_eq!(cause["next_step"], diagnosis["next_step"]);
    for key in ["supports", "contradicts", "unseen", "subjects"] {
        assert!(cause[key].is_array(), "{key}: {cause}");
    }
    let symptom = &diagnosis["symptoms"][0];
    assert_eq!(symptom["kind"], "IBV_WC_LOC_PROT_ERR");
    assert_eq!(
        (&symptom["line"], &symptom["device"], &symptom["vendor_error"]),
        (&4.into(), &"mlx5_0".into(), &81.into())
    );
    assert_eq!(diagnosis["log"]["lines"], 6);
    assert_eq!(diagnosis["log"]["settings"]["NCCL_IB_GID_INDEX"], "3");
}

#[test]
fn rules_causes_and_errors_are_explained_and_a_misspelt_one_is_guessed() {
    for (name, words) in [
        ("iommu-group-translated", "iommu-translation"),
        ("memlock-limit", "memlock-low"),
        ("IBV_WC_LOC_PROT_ERR", "iommu-translation"),
        ("12", "fabric-or-peer"),
        ("no-device", "device-not-given"),
    ] {
        let output = run(&["explain", name], b"");
        assert_eq!(output.status.code(), Some(0), "{name}: {}", err(&output));
        assert!(out(&output).contains(words), "{name}: {}", out(&output));
    }
    let output = run(&["explain", "IBV_WC_LOC_PROT_ER"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains("did you mean IBV_WC_LOC_PROT_ERR?"),
        "{}",
        err(&output)
    );
}

#[test]
fn the_catalogue_is_printed_in_each_form() {
    let markdown = run(&["rules", "--output", "markdown"], b"");
    assert!(out(&markdown).contains("### iommu-group-translated\n"));
    let json: serde_json::Value =
        serde_json::from_slice(&run(&["rules", "--output", "json"], b"").stdout).unwrap();
    let ids: Vec<_> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["id"].as_str().unwrap())
        .collect();
    let listed = run(&["rules"], b"");
    let listed: Vec<_> = out(&listed)
        .lines()
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(ids, listed);
}

#[test]
fn a_line_without_end_costs_little_memory() {
    // 256 MiB in one line without end, under an address space of 200 MiB.
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let script = format!(
        "ulimit -v 204800; head -c 268435456 /dev/zero | tr '\\0' x | {PRODUCT} check --quiet --root {} --log -",
        tree.path().display()
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
}

#[test]
fn lines_are_as_long_as_columns_says() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let longest = |columns: &str| {
        let output = Command::new(PRODUCT)
            .args(["check", "--root", tree.path().to_str().unwrap()])
            .env("COLUMNS", columns)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // Headings and long paths stay on one line, so that a search finds them.
        let wrapped = text
            .lines()
            .filter(|line| line.starts_with("  ") && line.matches(' ').count() > 16);
        wrapped.map(|line| line.chars().count()).max().unwrap()
    };
    assert!((50..=60).contains(&longest("60")), "{}", longest("60"));
    assert!(
        (90..=100).contains(&longest("nonsense")),
        "{}",
        longest("nonsense")
    );
    assert!(longest("1") <= 40, "{}", longest("1"));
}

#[test]
fn who_booted_with_iommu_pt_is_not_told_to_boot_with_it() {
    let shown = |cmdline: &str| {
        let mut tree = Tree::fixture("connectx7-gpu").unwrap();
        tree.write("proc/cmdline", cmdline).unwrap();
        let tree = tree.unpack().unwrap();
        out(&check(tree.path(), &["--verbose"], b"")).replace("\n              ", " ")
    };
    let without = shown("ro intel_iommu=on\n");
    assert!(without.contains("Boot with iommu=pt"), "{without}");
    let with = shown("ro intel_iommu=on iommu=pt\n");
    for (words, expected) in [
        ("iommu-cmdline-mismatch (warning)", true),
        ("memory encryption (mem_encrypt=on", true),
        ("/sys/kernel/iommu_groups/N/type", true),
        ("journalctl -k", true),
        ("Boot with iommu=pt", false),
        ("kernelArguments [iommu=pt]", false),
        ("Add iommu=pt", false),
    ] {
        assert_eq!(with.contains(words), expected, "\"{words}\": {with}");
    }
    // Each finding's own words, too: they stand on the node's page and in its conditions.
    let mut tree = Tree::fixture("connectx7-gpu").unwrap();
    tree.write("proc/cmdline", "ro iommu=pt\n").unwrap();
    let tree = tree.unpack().unwrap();
    let output = check(tree.path(), &["--output", "json"], b"");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for finding in report["findings"].as_array().unwrap() {
        let remedy = finding["remedy"].as_str().unwrap();
        assert!(!remedy.contains("Boot with iommu=pt"), "{finding}");
    }
}

#[test]
fn json_tells_what_kept_from_judging_beside_a_warning_as_text_does() {
    // No RDMA device is left, and what could be one is found: a warning, and an obstacle.
    let mut tree = Tree::fixture("infiniband-ndr").unwrap();
    let paths: Vec<_> = tree.entries().map(|(path, _)| path.to_owned()).collect();
    for path in paths {
        if path.contains("/infiniband/") {
            tree.remove(&path);
        }
    }
    let tree = tree.unpack().unwrap();
    let text = check(tree.path(), &[], b"");
    assert_eq!(text.status.code(), Some(1), "{}", out(&text));
    assert!(out(&text).contains("there is no RDMA device"), "{}", out(&text));
    let json = check(tree.path(), &["--output", "json"], b"");
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["status"], "warning");
    let why = report["unknown_because"].as_str().unwrap();
    assert!(out(&text).contains(why), "{why}");
}

#[test]
fn the_past_that_the_configuration_names_is_read_on_the_node_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (state, config) = (folder.path().join("state.json"), folder.path().join("c.yaml"));
    fs::write(&config, format!("state: {}\n", state.display())).unwrap();
    let judged = |root: &Path| {
        let more = ["--output", "json", "--config", config.to_str().unwrap()];
        let output = check(root, &more, b"");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", err(&output)));
        let shown = err(&output).to_owned();
        (report["node"]["history"].is_object(), shown)
    };
    let here = Path::new("/");
    assert_eq!(judged(here), (false, String::new()), "the agent never ran");
    fs::write(&state, serde_json::to_vec(&History::default()).unwrap()).unwrap();
    assert_eq!(judged(here), (true, String::new()));
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    assert_eq!(
        judged(tree.path()),
        (false, String::new()),
        "it is not that node's past"
    );
    fs::write(&state, "{").unwrap();
    let (compared, shown) = judged(here);
    assert!(
        !compared && shown.contains("state.json") && shown.contains("could not be read"),
        "{shown}"
    );
}

#[test]
fn a_memory_lock_limit_is_told_in_the_units_of_the_findings() {
    // Its kubelet has systemd's limit of 8 MiB, and its runtime none.
    let tree = tree::fixture("h100-connectx7").unwrap();
    let output = check(tree.path(), &[], b"");
    let shown = out(&output);
    assert!(shown.contains("kubelet: memlock 8 MiB"), "{shown}");
}

#[test]
fn a_log_that_never_ends_is_read_so_far_and_the_report_says_so() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let output = check(tree.path(), &["--log", "/dev/zero"], b"");
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let shown = out(&output);
    assert!(shown.contains("only its first 1 GiB were read"), "{shown}");
}
