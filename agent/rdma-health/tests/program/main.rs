//! The command line as its user meets it: what it prints, where, and with which exit status.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

mod attack;
mod canaries;
mod decided;
mod descriptors;
mod environment;
mod files;
mod help;
mod job;
#[cfg(feature = "agent")]
mod kubectl;
mod metrics;
mod pod;
#[cfg(feature = "agent")]
mod preflight;
mod snapshot;
mod trial;

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use rdma_health_protocol::{FINGERPRINT, PROTOCOL_VERSION};
use rdma_health_tests::{scrape, tree};

const PRODUCT: &str = env!("CARGO_BIN_EXE_rdma-health");

fn run(arguments: &[&str]) -> Output {
    Command::new(PRODUCT)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn check(root: &Path, more: &[&str]) -> Output {
    let mut arguments = vec!["check", "--root", root.to_str().unwrap()];
    arguments.extend(more);
    run(&arguments)
}

#[test]
fn a_tree_with_faults_is_critical_and_says_why_and_what_to_do() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let output = check(tree.path(), &[]);
    let shown = out(&output);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.starts_with("CRITICAL"), "the verdict comes first: {shown}");
    for words in [
        "gpu-17",
        "iommu-group-translated",
        "/sys/kernel/iommu_groups/7/type: DMA-FQ",
        "iommu=pt",
    ] {
        assert!(shown.contains(words), "\"{words}\" is missing: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colour where there is no terminal");
    assert_eq!(err(&output), "", "no progress where there is no terminal");
}

#[test]
fn json_has_the_documented_form() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let output = check(tree.path(), &["--output", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], 1);
    assert_eq!(report["status"], "critical");
    let finding = &report["findings"][0];
    for key in ["rule", "severity", "domain", "message", "remedy"] {
        assert!(
            finding[key].as_str().is_some_and(|text| !text.is_empty()),
            "{key}: {finding}"
        );
    }
    assert!(finding["subject"].is_object());
    assert!(finding["evidence"][0]["source"].is_string() && finding["evidence"][0]["value"].is_string());
    assert_eq!(report["node"]["hcas"]["mlx5_0"]["pci_address"], "0000:18:00.0");
}

#[test]
fn what_cannot_be_judged_is_unknown() {
    let empty = tempfile::tempdir().unwrap();
    let output = check(empty.path(), &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(out(&output).starts_with("UNKNOWN"), "{}", out(&output));
    assert!(
        out(&output).contains("/proc/sys/kernel/osrelease"),
        "{}",
        out(&output)
    );

    // What to do is about the directory, which is not a tree, and not about permissions.
    let shown = out(&output);
    assert!(
        shown.contains("--root") && shown.contains("snapshot --out"),
        "{shown}"
    );
    assert!(!shown.contains("EACCES"), "{shown}");
    fs::create_dir_all(empty.path().join("sys/class/infiniband")).unwrap();
    let output = check(empty.path(), &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(out(&output).contains("snapshot --out"), "{}", out(&output));
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = check(file.path(), &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("Not a directory"), "{}", err(&output));

    let output = check(Path::new("/nowhere"), &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("/nowhere") && out(&output).is_empty());

    let output = check(empty.path(), &["--probe"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        err(&output).contains("--probe needs a running node"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_wrong_configuration_names_file_line_and_the_nearest_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    fs::write(&file, "interval: 1m\nprobe:\n  intervall: 5m\n").unwrap();
    let output = run(&["check", "--root", "/", "--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    let shown = err(&output);
    assert!(
        shown.contains("c.yaml:3") && shown.contains("intervall") && shown.contains("`interval`"),
        "{shown}"
    );
}

#[test]
fn rules_are_listed_and_explained_and_a_misspelt_one_is_guessed() {
    let listed = out(&run(&["rules"]));
    for line in listed.lines() {
        let id = line.split_whitespace().next().unwrap();
        let output = run(&["explain", id]);
        assert_eq!(output.status.code(), Some(0), "{id}");
        let page = out(&output);
        assert!(page.contains("\n  remedy  "), "{id}: {page}");
        assert!(!page.contains('`'), "{id}: {page}");
    }
    let both = out(&run(&["explain", "port-down", "gid-missing"]));
    assert!(
        both.contains("rule  port-down: ") && both.contains("rule  gid-missing: "),
        "{both}"
    );
    let output = run(&["explain", "iommu-group-translate"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(out(&output).is_empty());
    assert!(
        err(&output).contains("did you mean iommu-group-translated?"),
        "{}",
        err(&output)
    );
}

#[test]
fn the_main_program_does_not_need_libibverbs() {
    let needs = |program: &str| {
        let output = Command::new("ldd").arg(program).output().unwrap();
        out(&output)
    };
    assert!(needs(PRODUCT).contains("libc.so"), "ldd works");
    assert!(!needs(PRODUCT).contains("ibverbs"), "{}", needs(PRODUCT));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error_and_does_not_change_the_exit_status() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let root = tree.path();
    for format in ["text", "json", "line", "nagios", "npd", "junit"] {
        let status = check(root, &["--output", format]).status.code();
        assert_ne!(status, Some(0), "{format}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(PRODUCT)
            .arg("check")
            .arg("--root")
            .arg(root)
            .args(["--output", format])
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!(
            (output.status.code(), err(&output).as_str()),
            (status, ""),
            "{format}"
        );
    }
}

#[test]
fn a_closed_pipe_ends_completions_and_the_manual_page_in_silence() {
    for what in [
        &["completions", "bash"][..],
        &["man"],
        &["rules"],
        &["metrics"],
        &["explain", "port-down"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(PRODUCT).args(what).stdout(writer).output().unwrap();
        assert_eq!(
            (output.status.code(), err(&output).as_str()),
            (Some(0), ""),
            "{what:?}"
        );
    }
}

#[test]
fn a_baseline_is_a_configuration_that_its_own_node_meets_and_a_changed_one_does_not() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let root = tree.path();
    let baseline = run(&["baseline", "--root", root.to_str().unwrap()]);
    assert_eq!(baseline.status.code(), Some(0), "{}", err(&baseline));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("baseline.yaml");
    fs::write(&file, &baseline.stdout).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let lost = |shown: &str| shown.contains("port-down") && shown.contains("mlx5_0");
    let shown = out(&check(root, &config));
    assert!(!lost(&shown), "{shown}\n{}", out(&baseline));
    fs::remove_file(root.join("sys/class/infiniband/mlx5_0")).unwrap();
    let output = check(root, &config);
    assert!(lost(&out(&output)), "{}{}", out(&output), err(&output));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_baseline_says_which_port_it_cannot_name_and_can_be_used() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let class = tree.path().join("sys/class/infiniband");
    // `rdma dev set mlx5_0 name 'my rail'`.
    fs::rename(class.join("mlx5_0"), class.join("my rail")).unwrap();
    let baseline = run(&["baseline", "--root", text(tree.path())]);
    let shown = out(&baseline);
    assert_eq!(baseline.status.code(), Some(0), "{}", err(&baseline));
    assert!(
        shown.contains("# Not in ports_up, which cannot hold such a name: my rail:1\n"),
        "{shown}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("baseline.yaml");
    fs::write(&file, &baseline.stdout).unwrap();
    let output = check(tree.path(), &["--config", text(&file)]);
    assert!(!err(&output).contains("ports_up"), "{}", err(&output));
}

#[test]
fn a_node_that_bypassed_translation_at_an_earlier_boot_has_regressed() {
    let node = |group: &str, boot: &str| {
        let mut tree = tree::Tree::fixture("connectx7-gpu-mended").unwrap();
        tree.write("sys/kernel/iommu_groups/7/type", format!("{group}\n"))
            .unwrap();
        tree.write("proc/cmdline", "ro\n").unwrap();
        tree.write("proc/sys/kernel/random/boot_id", format!("{boot}\n"))
            .unwrap();
        tree.unpack().unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.json");
    let state = state.to_str().unwrap();
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();

    let before = node("identity", "11111111-1111-1111-1111-111111111111");
    let root = before.path().to_str().unwrap();
    let mut agent = Command::new(PRODUCT)
        .args([
            "agent",
            "--root",
            root,
            "--state",
            state,
            "--no-probe",
            "--listen",
            &address.to_string(),
        ])
        .args(["--helper", "/bin/false"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ready =
        || scrape::get(address, "/readyz", Duration::from_secs(1)).is_ok_and(|answer| answer.status == 200);
    let end = Instant::now() + Duration::from_secs(20);
    while !ready() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    let process = rustix::process::Pid::from_child(&agent);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(agent.wait().unwrap().code(), Some(0));

    let after = node("DMA-FQ", "22222222-2222-2222-2222-222222222222");
    let shown = out(&check(after.path(), &["--state", state]));
    assert!(shown.contains("iommu-regressed"), "{shown}");
    let by_environment = Command::new(PRODUCT)
        .args(["check", "--root", after.path().to_str().unwrap()])
        .env("RDMA_HEALTH_STATE", state)
        .output();
    assert!(out(&by_environment.unwrap()).contains("iommu-regressed"));
    let saved = folder.path().join("node.tar.zst");
    let saved = saved.to_str().unwrap();
    let root = after.path().to_str().unwrap();
    let output = run(&["snapshot", "--root", root, "--state", state, "-o", saved]);
    assert!(output.status.success(), "{}", err(&output));
    let elsewhere = out(&run(&["check", "--snapshot", saved]));
    assert!(elsewhere.contains("iommu-regressed"), "{elsewhere}");
    let without = out(&check(after.path(), &[]));
    assert!(!without.contains("iommu-regressed"), "{without}");
    let output = check(after.path(), &["--state", "/nowhere/state.json"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("/nowhere/state.json"), "{}", err(&output));
}

/// Runs the product as a user without rights; as the current user if that one is not root.
fn run_unprivileged(arguments: &[&str]) -> Output {
    // By another process, see `with_helper`; and where everybody may reach it.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("rdma-health");
    let copied = Command::new("cp").arg(PRODUCT).arg(&program).status().unwrap();
    assert!(copied.success());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    command.args(arguments).current_dir("/").output().unwrap()
}

#[test]
fn without_root_what_can_be_read_is_judged_and_the_rest_is_told() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    fs::set_permissions(tree.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let closed = ["dev/kmsg", "proc/2101/limits", "sys/kernel/iommu_groups/7/type"];
    for file in closed {
        fs::set_permissions(tree.path().join(file), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let root = tree.path().to_str().unwrap();
    let output = run_unprivileged(&["check", "--verbose", "--root", root]);
    let shown = out(&output);
    for file in closed {
        assert!(
            shown.contains(&format!("/{file}: Permission denied (EACCES)")),
            "{file}: {shown}"
        );
    }
    assert!(shown.contains("run as root"), "{shown}");
    // Files that all users may read are judged as usual. The others lead to no finding.
    assert!(shown.contains("peer-memory-missing"), "{shown}");
    assert!(!shown.contains("group 7 is DMA"), "{shown}");
    assert_eq!(output.status.code(), check(tree.path(), &[]).status.code());
    // This machine, whatever it is: a verdict and no panic.
    let output = run_unprivileged(&["check", "--verbose"]);
    assert!(matches!(output.status.code(), Some(0..=3)), "{}", err(&output));
    assert!(!err(&output).contains("panicked"), "{}", err(&output));
    assert!(out(&output).lines().count() > 5, "{}", out(&output));
}

/// A program in place of the helper, which does what no helper should.
fn with_helper(script: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let helper = folder.path().join("helper");
    // By another process: a program that is open for writing cannot be started, and what other tests start
    // meanwhile inherits, for a moment, what this process has open.
    let written = Command::new("sh")
        .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" >"$0" && chmod 755 "$0""#])
        .args([helper.as_os_str(), script.as_ref()])
        .status();
    assert!(written.unwrap().success());
    let output = run(&["probe", "--helper", helper.to_str().unwrap()]);
    (output.status.code(), err(&output))
}

#[test]
fn a_helper_that_misbehaves_is_told_and_never_waited_for() {
    // A frame: a length of four bytes, then JSON.
    let greeting = |protocol, fingerprint| {
        let body = format!(
            r#"{{"message":"greeting","with":{{"protocol":{protocol},"version":"0","fingerprint":{fingerprint}}}}}"#
        );
        let length = body.len();
        format!("printf '\\{length:03o}\\0\\0\\0%s' '{body}'")
    };
    for (script, words) in [
        ("exit 7".to_owned(), "exit status: 7"),
        (
            "echo starting >&2; echo 'provider x is broken' >&2; exit 7".to_owned(),
            "exit status: 7; its last output: starting / provider x is broken",
        ),
        ("kill -SEGV $$".to_owned(), "signal: 11"),
        ("exit 127".to_owned(), "check that libibverbs is installed"),
        (
            "echo 'cannot open shared object file' >&2; exit 127".to_owned(),
            "(exit status 127); its last output: cannot open shared object file",
        ),
        ("yes".to_owned(), "malformed"),
        (
            "printf '\\005\\0\\0\\0hello'; exec sleep 60".to_owned(),
            "malformed",
        ),
        (
            "printf '\\377\\377\\377\\377'; exec sleep 60".to_owned(),
            "longer than",
        ),
        (
            format!("{}; exec sleep 60", greeting(99, FINGERPRINT)),
            "version 0 (protocol 99), but this program speaks protocol",
        ),
        (
            format!("{}; exec sleep 60", greeting(PROTOCOL_VERSION, FINGERPRINT ^ 1)),
            "another build of version 0, with other messages than this program; install both from the same release",
        ),
        (
            format!(
                "{}; {}; exec sleep 60",
                greeting(PROTOCOL_VERSION, FINGERPRINT),
                greeting(PROTOCOL_VERSION, FINGERPRINT)
            ),
            "second greeting",
        ),
        ("exec sleep 60".to_owned(), "did not greet within"),
        (
            format!("{}; exec sleep 60", greeting(PROTOCOL_VERSION, FINGERPRINT)),
            "did not respond",
        ),
    ] {
        let (status, shown) = with_helper(&script);
        assert_eq!(status, Some(3), "{script}: {shown}");
        assert!(shown.contains(words), "{script}: expected \"{words}\": {shown}");
        assert!(shown.contains("verbs helper"), "{script}: {shown}");
    }
}

#[test]
fn a_helper_that_cannot_be_reached_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, socket) = (folder.path().join("plain"), folder.path().join("socket"));
    fs::write(&plain, "not a program").unwrap();
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let missing = Path::new("/nowhere/helper");
    for (flag, path, why, advice) in [
        (
            "--helper",
            missing,
            "not found",
            "install rdma-health-verbs or pass --helper",
        ),
        ("--helper", &plain, "cannot be executed", "Permission denied"),
        ("--helper-socket", missing, "not found", "--helper-socket"),
        (
            "--helper-socket",
            &socket,
            "refused the connection",
            "no verbs helper listens",
        ),
    ] {
        let output = run(&["probe", flag, text(path)]);
        assert_eq!(output.status.code(), Some(3));
        let message = err(&output);
        for part in ["verbs helper", text(path), why, advice] {
            assert!(message.contains(part), "{flag}: \"{part}\" is missing: {message}");
        }
    }
}
