//! Writes settings for a shell, an environment file, a pod, or a program.

use std::fmt::Write as _;

use rdma_health_node::words::{printable, printable_json};
use serde::Serialize;

use crate::{
    rails::{Rails, Refused},
    settings::{Setting, Settings, Transport},
};

/// Statements for a POSIX shell.
///
/// All statements come before all comments, and each ends with a semicolon: `eval $(…)` without quotes joins the lines, and
/// a comment would hide what follows it.
pub fn shell(settings: &Settings) -> String {
    let mut text = String::new();
    for setting in new(settings) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "export {}={};", setting.name, quoted(&setting.value));
    }
    comments(&mut text, settings);
    text
}

/// `NAME=VALUE` lines, as `docker run --env-file` reads them.
pub fn environment_file(settings: &Settings) -> String {
    let mut text = String::new();
    for setting in new(settings) {
        let _ = writeln!(text, "{}={}", setting.name, one_line(&setting.value));
    }
    comments(&mut text, settings);
    text
}

/// A list for the field `env` of a container.
pub fn yaml(settings: &Settings) -> String {
    let mut text = String::new();
    for setting in new(settings) {
        // A JSON string is a YAML string. Kubernetes replaces `$(NAME)` in it, and `$$` by `$`.
        let value = serde_json::Value::from(one_line(&setting.value).replace('$', "$$"));
        let _ = writeln!(text, "- name: {}\n  value: {value}", setting.name);
    }
    if text.is_empty() {
        text.push_str("[]\n");
    }
    comments(&mut text, settings);
    text
}

/// Everything, with the devices that cannot be used. Without settings, the reason for it.
pub fn json(settings: Result<&Settings, &str>, rails: &Rails<'_>, problems: &[String]) -> String {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Outcome<'a> {
        Settled(&'a Settings),
        Failed {
            transport: Option<Transport>,
            error: &'a str,
            settings: [Setting; 0],
            remarks: [String; 0],
        },
    }
    #[derive(Serialize)]
    struct Form<'a> {
        schema: u32,
        #[serde(flatten)]
        outcome: Outcome<'a>,
        ports: Vec<String>,
        refused: Vec<Unusable<'a>>,
        problems: &'a [String],
    }
    #[derive(Serialize)]
    struct Unusable<'a> {
        device: &'a str,
        reason: &'a str,
    }
    let form = Form {
        schema: 1,
        outcome: match settings {
            Ok(settings) => Outcome::Settled(settings),
            Err(error) => Outcome::Failed {
                transport: None,
                error,
                settings: [],
                remarks: [],
            },
        },
        ports: rails.rails.iter().map(|rail| rail.port.to_string()).collect(),
        refused: rails
            .refused
            .iter()
            .map(|Refused { what, why, .. }| Unusable {
                device: what,
                reason: why,
            })
            .collect(),
        problems,
    };
    // Fails only for maps whose keys are not text, which this has not.
    let mut text = printable_json(serde_json::to_string_pretty(&form).unwrap_or_default());
    text.push('\n');
    text
}

/// The settings that the user has not set.
pub fn new(settings: &Settings) -> impl Iterator<Item = &Setting> {
    settings.settings.iter().filter(|setting| setting.kept.is_none())
}

fn comments(text: &mut String, settings: &Settings) {
    for setting in new(settings) {
        let _ = writeln!(text, "# {}: {}", setting.name, printable(&setting.reason));
    }
    for remark in settings.remarks.iter().chain(&settings.unused) {
        let _ = writeln!(text, "# {}", printable(remark));
    }
    for note in &settings.notes {
        let _ = writeln!(text, "# {}", printable(note));
    }
}

/// A value as one word of a POSIX shell: unquoted if it has only harmless characters, otherwise in single quotes. A leading
/// `=` is not harmless: zsh replaces `=mlx5_0` by the path of a command.
fn quoted(value: &str) -> String {
    let value = one_line(value);
    let plain = |c: char| c.is_ascii_alphanumeric() || ":,._-/@%+".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value;
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// Names of devices come from drivers and pods: a line end in one must not begin a new line.
fn one_line(value: &str) -> String {
    value.chars().filter(|c| !c.is_control()).collect()
}
