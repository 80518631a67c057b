//! Help, manual pages, completions, and what a wrong command line gets.

use std::{fs, process::Command};

use super::{PRODUCT, err, out, run, text};

/// The commands as the help lists them.
fn commands() -> Vec<String> {
    let help = out(&run(&["--help"]));
    let list = help.split("Commands:\n").nth(1).unwrap();
    let names = list.lines().take_while(|line| !line.is_empty());
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(ToOwned::to_owned)
        .collect()
}

#[test]
fn every_command_has_help_with_examples_and_its_exit_status() {
    assert!(commands().len() > 10, "{:?}", commands());
    for name in commands() {
        let output = run(&[&name, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        let help = out(&output);
        for part in [
            &format!("Usage: rdma-health {name}"),
            "\nExamples:\n  # ",
            "\nExit status:\n  0 ",
        ] {
            assert!(help.contains(part), "{name}: \"{part}\" is missing: {help}");
        }
    }
}

#[test]
fn nothing_that_a_person_reads_has_the_markup_of_the_source() {
    let mut pages = vec![vec!["--help".to_owned()], vec!["man".into()]];
    for name in commands() {
        pages.push(vec![name.clone(), "-h".into()]);
        pages.push(vec![name, "--help".into()]);
    }
    for page in pages {
        let arguments: Vec<_> = page.iter().map(String::as_str).collect();
        let printed = out(&run(&arguments));
        assert!(!printed.contains('`'), "{page:?}: {printed}");
        assert!(
            !printed.contains('\u{1b}'),
            "{page:?}: colour where there is no terminal"
        );
    }
}

/// A paragraph that is broken in the source breaks a second time where the terminal ends.
#[test]
fn paragraphs_of_the_help_break_only_at_the_width_of_the_terminal() {
    let wide = Command::new(PRODUCT)
        .arg("--help")
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    let help = out(&wide);
    let environment = help.split("Environment:\n").nth(1).unwrap();
    let lines: Vec<_> = environment.lines().collect();
    for pair in lines.windows(2) {
        let next = pair[1].split_whitespace().next().unwrap();
        assert!(pair[0].len() + 1 + next.len() > 100, "broken early: {pair:?}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    assert!(out(&run(&["man"])).contains(".TH rdma-health 1"));
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    let output = run(&["man", "--dir", text(&pages)]);
    assert_eq!(
        (output.status.code(), out(&output).as_str()),
        (Some(0), ""),
        "{}",
        err(&output)
    );
    let mut expected: Vec<_> = commands()
        .iter()
        .map(|name| format!("rdma-health-{name}.1"))
        .collect();
    expected.push("rdma-health.1".into());
    // The manual pages that the one of `kubectl` refers to.
    let below = ["nodes", "check", "drift", "snapshot", "probe"];
    expected.extend(below.map(|name| format!("rdma-health-kubectl-{name}.1")));
    let entries = fs::read_dir(&pages).unwrap().flatten();
    let mut found: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    for name in found {
        let page = fs::read_to_string(pages.join(&name)).unwrap();
        let title = name.strip_suffix(".1").unwrap();
        assert!(page.contains(&format!("\n.TH {title} 1 ")), "{page}");
        let mut rest = page.as_str();
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "EXAMPLES",
            "\"EXIT STATUS\"",
        ] {
            let at = rest.find(&format!("\n.SH {section}\n"));
            rest = &rest[at.unwrap_or_else(|| panic!("{name}: {section} is missing or not in its place"))..];
        }
        assert!(page.ends_with('\n'));
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let output = run(&["man", "--dir", text(&file)]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains(text(&file)), "{}", err(&output));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&run(&["completions", shell]));
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
    }
}

#[test]
fn bash_completes_the_options_and_values_of_each_command() {
    for (words, expected) in [
        ("rdma-health ch", "check"),
        ("rdma-health check --out", "--output"),
        ("rdma-health check --output ", "json"),
        ("rdma-health agent --no", "--no"),
    ] {
        let script = format!(
            "source <({PRODUCT} completions bash)
            COMP_WORDS=({words}{}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            _rdma__health rdma-health \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"
            echo \"${{COMPREPLY[*]}}\"",
            if words.ends_with(' ') { "''" } else { "" },
        );
        let offered = out(&Command::new("bash").args(["-c", &script]).output().unwrap());
        assert!(offered.contains(expected), "{words}: {offered}");
    }
}

#[test]
fn a_wrong_command_line_gets_the_usage_of_its_command_and_never_looks_critical() {
    for (arguments, status, words) in [
        (&["check", "--snapshot", "x", "--root", "y"][..], 3, "'--root'"),
        (&["check", "--snapshot", "x", "--probe"], 3, "'--probe'"),
        (&["check", "--snapshot", "-", "--log", "-"], 3, "standard input"),
        (&["check", "--no-such-flag"], 3, "'--no-such-flag'"),
        (
            &["probe", "--helper", "x", "--helper-socket", "y"],
            3,
            "'--helper-socket",
        ),
        (&["snapshot"], 2, "--out <FILE>"),
        (&["snapshot", "--out", "x", "y"], 2, "'y'"),
        (&["baseline", "--probe"], 2, "'--probe'"),
        (
            &["agent", "--no-probe", "--probe-interval", "1m"],
            2,
            "'--no-probe'",
        ),
        (&["explain"], 2, "<NAME>"),
    ] {
        let output = run(arguments);
        let message = err(&output);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {message}");
        assert!(out(&output).is_empty());
        assert!(message.contains(words), "{arguments:?}: {message}");
        let usage = format!("Usage: rdma-health {} ", arguments[0]);
        assert!(message.contains(&usage), "{arguments:?}: {message}");
    }
}

#[test]
fn a_target_of_a_probe_that_cannot_be_is_refused_before_a_helper_is_asked() {
    for target in ["mlx5_0:x", "mlx5_0:0", "mlx5_0:256", "mlx5_0:1:1", ":1", ""] {
        let output = run(&["probe", "--helper", "/nonexistent", target]);
        let message = err(&output);
        assert_eq!(output.status.code(), Some(3), "{target}: {message}");
        assert!(message.contains("a port from 1 to 255"), "{target}: {message}");
    }
}

#[test]
fn a_captured_tree_is_not_probed() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path().to_str().unwrap();
    let output = run(&["probe", "--helper", "/nonexistent", "--root", root]);
    let message = err(&output);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("a probe needs a running node"), "{message}");
}

#[test]
fn a_wrong_value_is_refused_with_the_flag_and_what_was_expected() {
    for (arguments, flag, expected) in [
        (&["probe", "--size", "big"][..], "--size", "a size such as 64KiB"),
        (&["check", "--pid", "abc"], "--pid", "the id of a process"),
        (&["probe", "--size", "2GiB"], "--size", "at most 1GiB"),
        (&["probe", "--bytes", "0"], "--bytes", "a size such as 64KiB"),
        (
            &["probe", "--duration", "10"],
            "--duration",
            "a duration with a unit",
        ),
        (&["probe", "--duration", "1h"], "--duration", "from 1ms to 10m"),
        (&["probe", "--depth", "0"], "--depth", "from 1 to 4096"),
        (&["probe", "--depth", "many"], "--depth", "from 1 to 4096"),
        (&["probe", "--gid-index", "-1"], "--gid-index", "0 or more"),
        (
            &["agent", "--listen", "localhost:80"],
            "--listen",
            "127.0.0.1:14791",
        ),
        (
            &["agent", "--interval", "soon"],
            "--interval",
            "a duration with a unit",
        ),
        (&["agent", "--interval", "0s"], "--interval", "from 1s to 1h"),
        (
            &["agent", "--probe-interval", "1s"],
            "--probe-interval",
            "from 10s to 7days",
        ),
        (
            &["agent", "--node-name", "A B"],
            "--node-name",
            "a Node's name as kubectl get nodes shows it",
        ),
        (&["agent", "--log-format", "xml"], "--log-format", "text, json"),
        (&["check", "--output", "xml"], "--output", "text, json"),
        (&["rules", "--output", "xml"], "--output", "text, json, markdown"),
    ] {
        let output = run(arguments);
        let message = err(&output);
        let verdict = matches!(arguments[0], "check" | "probe");
        assert_eq!(
            output.status.code(),
            Some(if verdict { 3 } else { 2 }),
            "{message}"
        );
        for part in [flag, expected, arguments[2]] {
            assert!(
                message.contains(part),
                "{arguments:?}: \"{part}\" is missing: {message}"
            );
        }
    }
}
