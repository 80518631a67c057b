//! Snapshots as their user meets them: saved, judged elsewhere, and refused where they are broken.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use rdma_health_tests::tree;
use serde_json::Value;

use super::{PRODUCT, err, run, text};

/// The report without when and how long it was read.
fn timeless(json: &[u8]) -> String {
    let mut report: Value = serde_json::from_slice(json).unwrap();
    report["time"].take();
    report["node"]["time"].take();
    for source in report["node"]["sources"].as_object_mut().unwrap().values_mut() {
        source["time"].take();
        source["seconds"].take();
    }
    serde_json::to_string_pretty(&report).unwrap()
}

#[test]
fn a_snapshot_of_any_fixture_is_judged_as_the_tree_is() {
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(tree::fixtures()).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".tree") else {
            continue;
        };
        let tree = tree::fixture(name).unwrap();
        let saved = folder.path().join(format!("{name}.tar.zst"));
        let output = run(&["snapshot", "--root", text(tree.path()), "-o", text(&saved)]);
        assert!(output.status.success(), "{}", err(&output));
        let live = run(&["check", "--root", text(tree.path()), "--output", "json"]);
        let replayed = run(&["check", "--snapshot", text(&saved), "--output", "json"]);
        assert_eq!(replayed.status.code(), live.status.code(), "{name}");
        assert_eq!(err(&replayed), "");
        let (live, replayed) = (timeless(&live.stdout), timeless(&replayed.stdout));
        for (a, b) in live.lines().zip(replayed.lines()) {
            assert_eq!(a, b, "{name}");
        }
        assert_eq!(live, replayed, "{name}");
        // And for a person.
        let live = run(&["check", "--root", text(tree.path())]);
        assert_eq!(
            run(&["check", "--snapshot", text(&saved)]).stdout,
            live.stdout,
            "{name}"
        );
    }
}

#[test]
fn a_snapshot_goes_through_a_pipe() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let saved = run(&["snapshot", "--root", text(tree.path()), "-o", "-"]);
    let mut check = Command::new(PRODUCT)
        .args(["check", "--snapshot", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(&saved.stdout).unwrap();
    let output = check.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stdout).unwrap().contains("gpu-17"));
}

#[test]
fn a_snapshot_keeps_what_was_expected_of_the_node_unless_a_configuration_is_given() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (config, saved) = (folder.path().join("config.yaml"), folder.path().join("saved"));
    fs::write(&config, "expect:\n  ports_up: [\"mlx5_9\"]\n").unwrap();
    let root = text(tree.path());
    let output = run(&[
        "snapshot",
        "--root",
        root,
        "-o",
        text(&saved),
        "--config",
        text(&config),
    ]);
    assert!(output.status.success(), "{}", err(&output));
    let shown = |arguments: &[&str]| {
        let output = run(arguments);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(shown(&["check", "--snapshot", text(&saved)]).contains("mlx5_9"));
    fs::write(&config, "{}\n").unwrap();
    let config = ["--config", text(&config)];
    let otherwise = shown(&[&["check", "--snapshot", text(&saved)][..], &config].concat());
    assert!(!otherwise.contains("mlx5_9"), "{otherwise}");
}

#[test]
fn a_file_is_whole_or_not_there_and_never_overwritten_by_accident() {
    use std::os::unix::fs::PermissionsExt;
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("saved");
    let root = text(tree.path());
    fs::write(&saved, "precious").unwrap();
    let output = run(&["snapshot", "--root", root, "-o", text(&saved)]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("--force"), "{}", err(&output));
    assert_eq!(fs::read(&saved).unwrap(), b"precious");
    let output = run(&["snapshot", "--root", root, "-o", text(&saved), "--force"]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(fs::metadata(&saved).unwrap().permissions().mode() & 0o777, 0o600);

    for (path, reason) in [
        (folder.path().to_owned(), "not a regular file"),
        (folder.path().join("none/saved"), "none does not exist"),
        ("/dev/full".into(), "not a regular file"),
    ] {
        let output = run(&["snapshot", "--root", root, "-o", text(&path), "--force"]);
        assert_eq!(output.status.code(), Some(3));
        let shown = err(&output);
        assert!(shown.contains(text(&path)) && shown.contains(reason), "{shown}");
        assert!(
            !shown.contains(".rdma-health-"),
            "a temporary file is named: {shown}"
        );
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Command::new(PRODUCT)
        .args(["snapshot", "--root", root, "-o", "-"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("No space left"), "{}", err(&output));
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing is left behind"
    );
}

#[test]
fn what_is_no_snapshot_is_unknown_and_the_file_is_named() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("saved");
    run(&["snapshot", "--root", text(tree.path()), "-o", text(&saved)]);
    let whole = fs::read(&saved).unwrap();
    let broken = folder.path().join("broken");
    for (content, reason) in [
        (&whole[..whole.len() / 2], "damaged or incomplete"),
        (b"", "not a snapshot"),
        (b"\x7fELF", "not a snapshot"),
    ] {
        fs::write(&broken, content).unwrap();
        let output = run(&["check", "--snapshot", text(&broken)]);
        let shown = err(&output);
        assert_eq!(output.status.code(), Some(3), "{shown}");
        assert!(shown.contains(text(&broken)) && shown.contains(reason), "{shown}");
        assert!(output.stdout.is_empty());
    }
    for path in [Path::new("/nonexistent"), folder.path(), Path::new("/dev/zero")] {
        let output = run(&["check", "--snapshot", text(path)]);
        assert_eq!(output.status.code(), Some(3));
        assert!(err(&output).contains(text(path)), "{}", err(&output));
    }
}

#[test]
fn a_snapshot_and_what_only_a_running_node_has_exclude_each_other() {
    for with in [
        &["--root", "/"][..],
        &["--state", "x"],
        &["--probe"],
        &["--helper", "x"],
        &["--helper-socket", "x"],
    ] {
        let output = run(&[&["check", "--snapshot", "x"], with].concat());
        assert_eq!(output.status.code(), Some(3));
        assert!(err(&output).contains("cannot be used with"), "{}", err(&output));
    }
}

#[test]
fn where_nothing_can_be_judged_the_status_is_unknown_and_it_says_why() {
    let empty = tempfile::tempdir().unwrap();
    let half = tree::fixture("connectx7-gpu").unwrap();
    // Half copied: the copy ended before /sys.
    fs::remove_dir_all(half.path().join("sys")).unwrap();
    for (root, reason) in [
        (empty.path(), "/proc/sys/kernel/osrelease"),
        (half.path(), "no RDMA device"),
    ] {
        for output in ["text", "json"] {
            let output = run(&["check", "--root", text(root), "--output", output]);
            assert_eq!(output.status.code(), Some(3), "{}", err(&output));
            let shown = String::from_utf8(output.stdout.clone()).unwrap();
            assert!(shown.contains(reason), "{shown}");
            assert!(!err(&output).contains("panicked"));
        }
    }
    let output = run(&["check", "--root", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("/nonexistent"), "{}", err(&output));
}

#[test]
fn a_support_bundle_is_named_and_judged_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("sos_commands/kernel")).unwrap();
    fs::write(root.join("version.txt"), "sosreport: 4.7.2\n").unwrap();
    fs::write(
        root.join("sos_commands/kernel/uname_-a"),
        "Linux gpu-17 5.14.0-427.el9.x86_64 #1 SMP\n",
    )
    .unwrap();
    let output = run(&["check", "--root", text(root)]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains("is a sosreport"), "{}", err(&output));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(
        shown.contains("gpu-17") && shown.contains("not collected"),
        "{shown}"
    );
}
