//! Files and outputs that cannot be written: the message names the path and the reason, and nothing half-written is left.

use super::*;

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_that_cannot_be_written_is_named_with_the_reason_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("file"), "mine").unwrap();
    fs::create_dir(at("directory")).unwrap();
    let snapshot = |out: &str, more: &[&str]| {
        let mut line = vec!["snapshot", "--root", text(root.path()), "--out", out];
        line.extend(more);
        run(&line)
    };
    for (output, reason) in [
        (
            run(&["copy", &at("missing/there")]),
            "missing/there does not exist",
        ),
        (run(&["copy", &at("file")]), "file is not a directory"),
        (snapshot(&at("missing/x"), &[]), "missing does not exist"),
        (snapshot(&at("file/x"), &[]), "file is not a directory"),
        (
            snapshot(&at("file"), &[]),
            "file exists; pass --force to overwrite it",
        ),
        (
            snapshot(&at("directory"), &["--force"]),
            "directory is not a regular file",
        ),
        (snapshot("/dev/full", &[]), "/dev/full is not a regular file"),
        (snapshot("/proc/x", &[]), "cannot write /proc/x: "),
        (run(&["copy", "/proc"]), "cannot write /proc/rdma-health: "),
        (run(&["man", "--dir", &at("file")]), "file: it is not a directory"),
        (run(&["man", "--dir", &at("file/x")]), "file/x"),
    ] {
        assert_eq!(output.status.code(), Some(3), "{reason}");
        let said = err(&output);
        assert!(
            said.contains(reason) && said.lines().count() == 1,
            "{reason}: {said}"
        );
    }
    assert_eq!(names(folder.path()), ["directory", "file"]);
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "mine");
}

/// As with a full disk: no file may become larger than this.
#[test]
fn a_full_disk_leaves_no_half_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let limited = |arguments: &[&str]| {
        Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh", PRODUCT])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let folder_of = text(folder.path());
    let file = folder.path().join("x");
    for arguments in [
        vec!["man", "--dir", folder_of],
        vec!["copy", folder_of],
        vec!["snapshot", "--out", text(&file)],
    ] {
        let output = limited(&arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        let said = err(&output);
        assert!(
            said.contains("cannot write") && said.contains(folder_of),
            "{said}"
        );
        for name in names(folder.path()) {
            let whole = fs::metadata(folder.path().join(&name)).unwrap().len();
            assert!(whole > 0 && !name.starts_with('.'), "{name} has {whole} bytes");
        }
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    for arguments in [
        &["rules"][..],
        &["explain", "port-down"],
        &["man"],
        &["--help"],
        &["--version"],
        &["check", "--help"],
        &["completions", "bash"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(PRODUCT)
            .args(arguments)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        assert!(
            err(&output).contains("cannot write to standard output: No space left on device"),
            "{arguments:?}: {}",
            err(&output)
        );
    }
}
