//! `preflight` without a cluster.

use super::*;

#[test]
fn preflight_without_a_cluster_is_an_error_and_no_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let config = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n\
                  clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n";
    fs::write(&path, config).unwrap();
    let output = run(&["preflight", "--namespace", "team-a", "--kubeconfig", text(&path)]);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(3), ""));
    assert!(
        err(&output).contains("cannot reach the API server: http://127.0.0.1:1: Connection refused"),
        "{}",
        err(&output)
    );
    // A program that reads the output gets the reason, too.
    let output = run(&[
        "preflight",
        "--namespace",
        "team-a",
        "--kubeconfig",
        text(&path),
        "--output",
        "json",
    ]);
    let document: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    let error = document["error"].as_str().unwrap();
    assert_eq!((output.status.code(), &document["schema"]), (Some(3), &1.into()));
    assert!(error.contains("cannot reach the API server"), "{document}");
    assert!(err(&output).contains(error), "{}", err(&output));
    for (name, words) in [
        ("../x", "expected lowercase letters"),
        ("", "expected lowercase letters"),
    ] {
        let output = run(&["preflight", "--namespace", name]);
        assert_eq!(
            output.status.code(),
            Some(3),
            "a wrong command line is not a verdict"
        );
        assert!(err(&output).contains(words), "{}", err(&output));
    }
    let manifest = directory.path().join("pod.yaml");
    for (content, words) in [("a: [", "cannot read"), ("\u{0}", "cannot read")] {
        fs::write(&manifest, content).unwrap();
        let output = run(&[
            "preflight",
            "--namespace",
            "a",
            "--file",
            text(&manifest),
            "--kubeconfig",
            text(&path),
        ]);
        assert_eq!(output.status.code(), Some(3));
        assert!(err(&output).contains(words), "{}", err(&output));
    }
}

/// `check` and the other commands fail in the same way.
#[test]
fn an_error_of_a_command_with_json_is_json() {
    for (command, text_too) in [
        (
            ["check", "--snapshot", "/nowhere.tar.zst", "--output", "json"],
            "/nowhere.tar.zst",
        ),
        (["devices", "--root", "/nowhere", "--output", "json"], "/nowhere"),
        (["topology", "--root", "/nowhere", "--output", "json"], "/nowhere"),
        (["env", "--root", "/nowhere", "--format", "json"], "/nowhere"),
    ] {
        let output = run(&command);
        assert_eq!(output.status.code(), Some(3), "{command:?}: {}", err(&output));
        let document: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
        assert!(
            document["error"].as_str().unwrap().contains(text_too),
            "{document}"
        );
        assert!(err(&output).contains(text_too), "{}", err(&output));
        let plain = run(&command[..3]);
        assert_eq!(
            (plain.status.code(), out(&plain).as_str()),
            (Some(3), ""),
            "{command:?}"
        );
    }
}
