//! Tests of keeping the history.

use rdma_health_node::history::Boot;

use super::*;

fn history() -> History {
    let boot = Boot {
        id: "3f2a6c1e".into(),
        first: 1,
        last: 2,
        ..Boot::default()
    };
    History {
        boots: vec![boot],
        ..History::default()
    }
}

#[test]
fn what_is_saved_is_loaded_again_and_nothing_else_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lib/rdma-health/state.json");
    let (empty, error) = load(&path);
    assert_eq!((empty, error.map(|e| e.to_string())), (History::default(), None));
    for _ in 0..2 {
        save(&path, &history()).unwrap();
        let (loaded, error) = load(&path);
        assert_eq!((loaded, error.map(|e| e.to_string())), (history(), None));
    }
    let names = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(names, 1);
}

#[test]
fn a_file_that_cannot_be_used_is_told_and_set_aside_and_the_next_save_works() {
    let newer = r#"{"schema":2,"memories":[]}"#;
    let endless = serde_json::to_string(&history())
        .unwrap()
        .replace("3f2a", &"x".repeat(1 << 20));
    // What a crash leaves of a file that was not written to the disk yet.
    let zeros = "\0".repeat(5000);
    let cases = [
        ("", "not written by rdma-health: EOF"),
        (&zeros, "not written by rdma-health: "),
        ("{\"schema\":1,\"boots\":[", "not written by rdma-health: "),
        ("{\"schema\":1,\"boots\":7}", "not written by rdma-health: "),
        (newer, "it has format version 2, but this program reads version 1"),
        (&endless, "bytes in a text"),
    ];
    for (text, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        fs::write(&path, text).unwrap();
        let (loaded, error) = load(&path);
        assert_eq!(loaded, History::default(), "{text}");
        let error = error.unwrap().to_string();
        assert!(
            error.starts_with(&format!("state file {}: ", path.display())) && error.contains(expected),
            "{error}"
        );
        let aside = directory.path().join("state.json.bad");
        assert_eq!(fs::read_to_string(aside).unwrap(), text);
        save(&path, &history()).unwrap();
        assert_eq!(load(&path).0, history());
    }
}

#[test]
fn a_huge_file_a_fifo_and_a_link_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.json");
    let refused = |expected: &str| {
        let error = load(&path).1.unwrap().to_string();
        assert!(error.contains(expected), "{error}");
        let _ = fs::remove_file(directory.path().join("state.json.bad"));
    };
    fs::write(&path, BEGINNING).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(MAX_FILE + 1).unwrap();
    refused("longer than 16 MiB");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    refused("not a regular file");
    fs::remove_file(&path).unwrap();
    let elsewhere = directory.path().join("elsewhere");
    fs::write(&elsewhere, "{}").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    refused("not a regular file");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused("not a regular file");
}

/// `--state /etc` of an agent that runs as root must do no harm.
#[test]
fn nothing_but_a_regular_file_is_moved_or_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("etc");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("passwd"), "precious").unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(folder.join("passwd"), &link).unwrap();
    for path in [&folder, &link] {
        assert!(load(path).1.is_some());
        let error = save(path, &history()).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
    assert_eq!(fs::read_to_string(&link).unwrap(), "precious");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

/// `--state /etc/passwd` likewise.
#[test]
fn a_file_of_another_program_is_neither_moved_nor_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let new = directory.path().join("file.new");
    for content in [
        "root:x:0:0:root:/root:/bin/bash\n",
        "{\"auths\":{}}",
        "{ \"schema\": 1 }",
        "\u{1}\u{2}\u{3}",
        "\0\0\0\0\0\0\0\0\0\0\0\0precious",
    ] {
        fs::write(&path, content).unwrap();
        assert!(load(&path).1.is_some());
        let error = save(&path, &history()).unwrap_err().to_string();
        assert!(error.contains("not a state file of rdma-health"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
    fs::remove_file(&path).unwrap();
    fs::write(&new, "precious").unwrap();
    assert!(save(&path, &history()).is_err());
    assert_eq!(fs::read_to_string(&new).unwrap(), "precious");
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.join("state.json"), "/proc/rdma-health/state.json".into()] {
        let error = save(&path, &history()).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
    // What was saved before stays where saving again fails.
    let path = directory.path().join("state.json");
    save(&path, &history()).unwrap();
    fs::create_dir(directory.path().join("state.json.new")).unwrap();
    assert!(save(&path, &History::default()).is_err());
    assert_eq!(load(&path).0, history());
}
