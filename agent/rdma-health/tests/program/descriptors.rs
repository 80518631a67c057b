//! A process that may open few files.

use super::*;

/// Limits from the fewest with which the dynamic linker works to some that are enough for part of the work.
const LIMITS: [u32; 10] = [4, 5, 6, 7, 8, 10, 12, 16, 24, 34];

/// Runs the program with this limit of open files. A command that does not end in time is ended.
fn limited(limit: u32, arguments: &[&str]) -> Output {
    let script = format!("ulimit -n {limit} && exec timeout 20 \"$@\"");
    Command::new("sh")
        .args(["-c", &script, "sh", PRODUCT])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The command ends with `status` and says which limit is too low and how to raise it.
fn refuses(status: i32, arguments: &[&str]) {
    for limit in LIMITS {
        let output = limited(limit, arguments);
        let said = err(&output);
        assert_eq!(output.status.code(), Some(status), "limit {limit}: {said}");
        for words in [
            format!("the limit of open files is {limit} "),
            "ulimit -n 1024".into(),
            "LimitNOFILE=1024".into(),
        ] {
            assert!(said.contains(&words), "limit {limit}: {words} is missing: {said}");
        }
        assert_eq!(said.lines().count(), 1, "limit {limit}: {said}");
    }
}

#[test]
fn a_check_that_may_open_too_few_files_says_so() {
    refuses(3, &["check"]);
    refuses(3, &["check", "--probe"]);
    let log = tempfile::NamedTempFile::new().unwrap();
    refuses(3, &["check", "--log", text(log.path())]);
    let output = limited(6, &["check", "--output", "json"]);
    assert!(
        out(&output).contains("the limit of open files is 6 "),
        "{}",
        out(&output)
    );
}

#[test]
fn other_commands_that_may_open_too_few_files_say_so() {
    refuses(3, &["wait", "--timeout", "1s"]);
    refuses(3, &["snapshot", "--out", "-"]);
    #[cfg(feature = "agent")]
    {
        refuses(3, &["agent", "--listen", "127.0.0.1:0"]);
        refuses(3, &["kubectl", "nodes"]);
        refuses(3, &["preflight", "--namespace", "jobs"]);
    }
}

#[test]
fn a_limit_that_the_process_may_raise_is_no_problem() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -S -n 8 && exec \"$@\"",
            "sh",
            PRODUCT,
            "check",
            "--root",
        ])
        .arg(tree.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
}
