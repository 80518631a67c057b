//! Tests of reading a configuration.

use std::{path::Path, time::Duration};

use proptest::prelude::*;
use rdma_health_rules::Profile;

use super::*;

fn refused(text: &str) -> String {
    from_text(Path::new("c.yaml"), text, &Overrides::default())
        .unwrap_err()
        .to_string()
}

fn accepted(text: &str) -> Config {
    from_text(Path::new("c.yaml"), text, &Overrides::default()).unwrap()
}

#[test]
fn an_empty_file_is_a_complete_configuration() {
    for text in [
        "",
        "\n",
        "# nothing\n",
        "---\n",
        "{}",
        "probe:\nexclude:\nexpect:\nhelper:\n",
    ] {
        assert_eq!(accepted(text), Config::default(), "{text:?}");
    }
}

#[test]
fn every_key_is_read() {
    let config = accepted(
        "listen: 127.0.0.1:1234\nroot: /host\nexclude: [mlx5_bond_*]\ninterval: 2m\nnode_exporter_names: true\n\
         probe:\n  enabled: false\n  interval: 1h 30m\n  devices:\n  - mlx5_*\n  message_size: 1MiB\n  depth: 16\n  \
         queue_pairs: 4\n  byte_budget: 1GB\n  time_budget: 500ms\n  latency_samples: 0\n  latency_size: 8\n  busy_bytes_per_second: 1MB\n\
         expect:\n  profile: gpudirect\n  ports_up: ['mlx5_0:1']\n  memlock_bytes: 1024\nhelper:\n  socket: /run/x.sock\n",
    );
    assert_eq!(config.listen, "127.0.0.1:1234".parse().unwrap());
    assert_eq!(config.probe.interval, Duration::from_secs(5400));
    assert_eq!(config.probe.message_size, 1 << 20);
    assert_eq!(config.probe.byte_budget, 1_000_000_000);
    assert_eq!(config.probe.queue_pairs, Some(4));
    assert_eq!(config.expect.profile, Profile::GpuDirect);
    assert_eq!(config.helper.socket.as_deref(), Some(Path::new("/run/x.sock")));
    assert!(config.node_exporter_names && !config.probe.enabled);
    // Serialising and parsing again gives the same configuration.
    let json = serde_json::to_string(&config).unwrap();
    assert_eq!(accepted(&json), config);
}

#[test]
fn unknown_keys_are_refused_with_a_hint() {
    let cases = [
        (
            "probe:\n  depth: 1\n  intervall: 5m\n",
            "c.yaml:3: unknown key `intervall` in `probe`; did you mean `interval`?",
        ),
        (
            "listne: x\n",
            "c.yaml:1: unknown key `listne`; did you mean `listen`?",
        ),
        (
            "\n\nmessage_size: 1\n",
            "c.yaml:3: unknown key `message_size`; it belongs to `probe`",
        ),
        (
            "expect: {root: /}\n",
            "c.yaml:1: unknown key `root` in `expect`; it belongs to the top level",
        ),
        (
            "helper:\n  zzz: 1\n",
            "c.yaml:2: unknown key `zzz` in `helper`; known keys are program, socket",
        ),
    ];
    let found: Vec<_> = cases.iter().map(|(text, _)| refused(text)).collect();
    assert_eq!(found, cases.map(|(_, expected)| expected));
}

#[test]
fn wrong_values_are_refused_with_key_and_expectation() {
    let cases = [
        (
            "interval: soon\n",
            "c.yaml:1: `interval`: expected a duration with a unit, like 90s, 10m or 1h 30m, found string \"soon\"",
        ),
        (
            "interval: 60\n",
            "c.yaml:1: `interval`: expected a duration with a unit, like 90s, 10m or 1h 30m, found integer `60`",
        ),
        (
            "probe:\n  message_size: big\n",
            "c.yaml:2: `message_size`: expected a size like 64KiB or 1GB, or a number of bytes, found string \"big\"",
        ),
        (
            "probe:\n  depth: many\n",
            "c.yaml:2: `depth`: expected a whole number, 0 or more",
        ),
        (
            "probe:\n  enabled: perhaps\n",
            "c.yaml:2: `enabled`: expected true or false",
        ),
        (
            "probe: [1]\n",
            "c.yaml:1: `probe`: expected keys with values below it",
        ),
        ("exclude: mlx5_0\n", "c.yaml:1: `exclude`: expected a list"),
        (
            "listen: nowhere\n",
            "c.yaml:1: `listen`: expected an address and port like 127.0.0.1:14791, [::1]:14791 or :14791, found \"nowhere\"",
        ),
        (
            "expect:\n  profile: gpudirekt\n",
            "c.yaml:2: `profile`: unknown value `gpudirekt`; did you mean `gpudirect`?; expected one of gpudirect, rdma, tcp-only, auto",
        ),
        (
            "probe:\n  depth: 1\n  depth: 2\n",
            "c.yaml:3: `depth` is set twice",
        ),
    ];
    let found: Vec<_> = cases.iter().map(|(text, _)| refused(text)).collect();
    assert_eq!(found, cases.map(|(_, expected)| expected));
}

#[test]
fn invalid_values_are_refused_with_their_line() {
    let cases = [
        (
            "interval: 0s\n",
            "c.yaml:1: `interval` must be between 1s and 1h, not 0s",
        ),
        (
            "probe:\n  interval: 1s\n",
            "c.yaml:2: `probe.interval` must be between 10s and 7days, not 1s",
        ),
        (
            "probe:\n  depth: 0\n",
            "c.yaml:2: `probe.depth` must be between 1 and 4096, not 0",
        ),
        (
            "probe:\n  queue_pairs: 65\n",
            "c.yaml:2: `probe.queue_pairs` must be between 1 and 64, not 65",
        ),
        (
            "probe:\n  message_size: 2GiB\n",
            "c.yaml:2: `probe.message_size` must be between 1B and 1GiB, not 2GiB",
        ),
        (
            "probe:\n  message_size: 1MiB\n  byte_budget: 1KiB\n",
            "c.yaml:3: `probe.byte_budget` must be between 1MiB and 1TiB, not 1KiB",
        ),
        (
            "exclude: ['']\n",
            "c.yaml:1: `exclude` contains an empty pattern, which matches nothing",
        ),
        (
            "helper: {program: /a, socket: /b}\n",
            "c.yaml:1: `helper` has both `program` and `socket`; set only one of them",
        ),
    ];
    let found: Vec<_> = cases.iter().map(|(text, _)| refused(text)).collect();
    assert_eq!(found, cases.map(|(_, expected)| expected));
}

#[test]
fn flags_win_over_the_file_and_are_checked_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    std::fs::write(&path, "interval: 5m\nprobe: {enabled: true}\n").unwrap();
    let mut flags = Overrides {
        probe_enabled: Some(false),
        profile: Some(Profile::Rdma),
        ..Overrides::default()
    };
    let config = load(Some(&path), &flags).unwrap();
    assert_eq!(config.interval, Duration::from_secs(300));
    assert!(!config.probe.enabled);
    assert_eq!(config.expect.profile, Profile::Rdma);
    flags.interval = Some(Duration::ZERO);
    assert!(
        load(None, &flags)
            .unwrap_err()
            .to_string()
            .contains("`interval` must be between")
    );
}

#[test]
fn the_error_names_a_file_that_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("none.yaml");
    let error = load(Some(&missing), &Overrides::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!(
            "{}: cannot read the configuration: No such file",
            missing.display()
        )),
        "{error}"
    );
    let long = directory.path().join("long.yaml");
    std::fs::write(&long, "#".repeat((1 << 20) + 1)).unwrap();
    assert!(
        load(Some(&long), &Overrides::default())
            .unwrap_err()
            .to_string()
            .ends_with("longer than 1 MiB")
    );
    std::fs::write(&long, [0xff, 0xfe, 0xff]).unwrap();
    assert!(
        load(Some(&long), &Overrides::default())
            .unwrap_err()
            .to_string()
            .ends_with("not UTF-8 text")
    );
    assert!(load(Some(directory.path()), &Overrides::default()).is_err());
}

#[test]
fn an_error_of_the_format_has_one_line_number_and_no_words_of_the_library() {
    for (text, expected) in [
        (
            "interval: 1m\n---\ninterval: 2m\n",
            "c.yaml:3: a second YAML document begins here",
        ),
        ("interval: *a\n", "c.yaml:1: "),
        ("interval: \"1m\n", "c.yaml:"),
        ("{interval: 1m\n", "c.yaml:1: "),
        ("%YAML 3.0\n---\ninterval: 1m\n", "c.yaml:1: "),
        ("interval: !!binary x\n", "c.yaml:1: "),
        ("interval: @x\n", "c.yaml:1: "),
    ] {
        let error = from_text(Path::new("c.yaml"), text, &Overrides::default())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
        for word in ["from_str", "at line", "column"] {
            assert!(!error.contains(word), "{error}");
        }
    }
}

#[test]
fn addresses_may_leave_out_the_host() {
    assert_eq!(listen_address(":80").unwrap(), "[::]:80".parse().unwrap());
    assert_eq!(listen_address("[::1]:80").unwrap(), "[::1]:80".parse().unwrap());
    for other in ["", ":", ":x", "80", "localhost:80", "::1:80x"] {
        assert!(listen_address(other).is_err(), "{other}");
    }
}

/// What is read means the same once it is written; what is refused is refused with the name of the file.
fn assert_read_or_refused(text: &str) -> Result<(), TestCaseError> {
    match from_text(Path::new("c.yaml"), text, &Overrides::default()) {
        Ok(config) => prop_assert_eq!(accepted(&serde_json::to_string(&config).unwrap()), config),
        Err(error) => prop_assert!(error.to_string().starts_with("c.yaml"), "{error}"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,300}") {
        assert_read_or_refused(&text)?;
    }

    /// Text made of parts of configurations reaches more code than random text.
    #[test]
    fn anything_that_looks_like_yaml_is_read_or_refused(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("probe"), Just("expect"), Just("interval"), Just("exclude"), Just("helper"), Just(": "), Just(":"),
                Just("\n"), Just("\n  "), Just("- "), Just("["), Just("]"), Just("{"), Just("}"), Just("&a "), Just("*a"),
                Just("<<: "), Just("!!str "), Just("60s"), Just("64KiB"), Just("\""), Just("'"), Just("|\n"), Just("# "),
                Just("---\n"), Just("99999999999999999999"), Just("é"), Just("\t"), Just("? "), Just(".nan"), Just(","),
            ],
            0..40,
        )
    ) {
        assert_read_or_refused(&parts.concat())?;
    }
}

/// The page shows every key with its default, and nothing else.
#[test]
fn the_documentation_shows_every_key_with_its_default() {
    let page = include_str!("../../../docs/configuration.md");
    let blocks: Vec<_> = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() >= 2);
    for block in &blocks {
        assert_eq!(accepted(block), Config::default(), "{block}");
    }
    let shown = blocks.concat();
    let defaults = serde_json::to_value(Config::default()).unwrap();
    let mut keys = Vec::new();
    all_keys(&defaults, &mut keys);
    for key in keys {
        assert!(
            shown.contains(&format!("{key}:")),
            "`{key}` is missing on the page"
        );
    }
}

fn all_keys(value: &serde_json::Value, keys: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        keys.push(key.clone());
        all_keys(value, keys);
    }
}

#[test]
fn aliases_have_valid_names_and_never_force() {
    let config = accepted("kubernetes:\n  aliases:\n  - type: AcceleratedHardwareReady\n    delay: 10m\n");
    let alias = &config.kubernetes.aliases[0];
    assert_eq!(alias.meaning, Meaning::Ready);
    assert_eq!(alias.delay, Duration::from_secs(600));
    for (keys, expected) in [
        (
            "aliases: [{type: Ready}]",
            "must not be \"Ready\": Kubernetes writes this condition",
        ),
        (
            "aliases: [{type: RDMALinkProblem}]",
            "rdma-health writes conditions of this kind already",
        ),
        ("aliases: [{type: a b}]", "must be the type of a condition"),
        ("aliases: [{type: a/B}, {type: a/B}]", "has a/B twice"),
        (
            "aliases: [{type: a/B}]\n  force: true",
            "cannot be used with `kubernetes.force`",
        ),
        ("aliases: [{meaning: ready}]", "type"),
    ] {
        let said = refused(&format!("kubernetes:\n  {keys}\n"));
        assert!(said.contains(expected), "{keys}: {said}");
    }
}
