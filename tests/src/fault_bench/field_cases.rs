//! Field cases: logs and nodes of public threads, each in a folder of `fixtures/field` (its README has the format).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{Answer, Selection};
use crate::tree::{Tree, fixtures};

/// The node of a case that names none.
const USUAL_NODE: &str = "h100-connectx7";

/// What the answer must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// One of these causes or rules, first.
    Cause(Vec<String>),
    /// Nothing is wrong.
    Nothing,
    /// Something failed that cannot be attributed.
    Unknown,
}

/// How good the answer to a field case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldScore {
    /// As expected.
    Right,
    /// The right cause, with a next step that does not help.
    WrongRemedy,
    /// The right cause, but not first.
    Named,
    /// A problem is reported, but not the right one.
    Missed,
    /// The status is OK although something is wrong.
    Silent,
    /// A problem is reported that does not exist.
    FalseAlarm,
}

impl FieldScore {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::WrongRemedy => "WRONG REMEDY",
            Self::Named => "named",
            Self::Missed => "MISSED",
            Self::Silent => "SILENT",
            Self::FalseAlarm => "FALSE ALARM",
        }
    }
}

/// One case.
#[derive(Clone, Debug)]
pub struct FieldCase {
    /// The name of its folder.
    pub name: String,
    /// What the answer must be.
    pub expected: Expected,
    /// What the next step must contain, in lower case.
    remedies: Vec<String>,
    /// Rules that may fire.
    allowed: Vec<String>,
    folder: PathBuf,
}

/// One case with its answer.
#[derive(Clone, Debug)]
pub struct FieldOutcome {
    /// The case.
    pub case: FieldCase,
    /// The first guess.
    pub first: Option<String>,
    /// The status in the report.
    pub status: String,
    /// How good the answer is.
    pub score: FieldScore,
    /// Findings of warning or above that the case does not allow: rule and message.
    pub false_alarms: Vec<(String, String)>,
}

impl FieldOutcome {
    /// Whether the answer is as expected, without a false alarm.
    pub fn passed(&self) -> bool {
        self.score == FieldScore::Right && self.false_alarms.is_empty()
    }

    /// As a line of the terminal.
    pub fn line(&self) -> String {
        let mut line = format!(
            "{:12} {:44} {} ({})",
            self.score.name(),
            self.case.name,
            self.first.as_deref().unwrap_or("-"),
            self.status
        );
        if let (Expected::Cause(causes), false) = (&self.case.expected, self.passed()) {
            let _ = write!(line, " (expected {})", causes.join(" or "));
        }
        for (rule, message) in &self.false_alarms {
            let _ = write!(line, "\n             FALSE ALARM {rule}: {message}");
        }
        line
    }
}

/// The totals of field cases, in one line.
pub fn totals(outcomes: &[FieldOutcome]) -> String {
    let (sound, broken): (Vec<_>, Vec<_>) = outcomes
        .iter()
        .partition(|outcome| outcome.case.expected == Expected::Nothing);
    let count = |score| broken.iter().filter(|outcome| outcome.score == score).count();
    let alarms = outcomes
        .iter()
        .filter(|outcome| outcome.score == FieldScore::FalseAlarm || !outcome.false_alarms.is_empty());
    format!(
        "field cases: {} broken: right {}, named {}, wrong remedy {}, missed {}, silent {}; {} sound; false alarms on {}",
        broken.len(),
        count(FieldScore::Right),
        count(FieldScore::Named),
        count(FieldScore::WrongRemedy),
        count(FieldScore::Missed),
        count(FieldScore::Silent),
        sound.len(),
        alarms.count()
    )
}

/// Every case, by name.
///
/// # Errors
/// If a case cannot be read or its expectation is not understood.
pub fn cases() -> Result<Vec<FieldCase>> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(fixtures().join("field"))? {
        let folder = entry?.path();
        if folder.is_dir() {
            cases.push(FieldCase::read(folder)?);
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// Asks the doctor about every case that is selected.
///
/// # Errors
/// If a case cannot be read or the doctor gives no answer.
pub fn run(program: &Path, selection: &Selection, report: &mut dyn FnMut(FieldOutcome)) -> Result<()> {
    for case in cases()? {
        if selection.wants("field-case", &case.name) {
            let name = case.name.clone();
            report(case.ask(program).context(name)?);
        }
    }
    Ok(())
}

impl FieldCase {
    fn read(folder: PathBuf) -> Result<Self> {
        let name = folder
            .file_name()
            .and_then(|name| name.to_str())
            .context("a name in UTF-8")?
            .to_owned();
        ensure!(folder.join("source.txt").is_file(), "{name} has no source.txt");
        let text = fs::read_to_string(folder.join("expected.txt")).with_context(|| name.clone())?;
        let mut expected = None;
        let (mut remedies, mut allowed) = (Vec::new(), Vec::new());
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let list = |rest: &str| rest.split('|').map(|id| id.trim().to_owned()).collect::<Vec<_>>();
            match line.split_once(':') {
                None if line == "nothing" => expected = Some(Expected::Nothing),
                None if line == "unknown" => expected = Some(Expected::Unknown),
                Some(("cause", rest)) => expected = Some(Expected::Cause(list(rest))),
                Some(("remedy", rest)) => remedies.push(rest.trim().to_lowercase()),
                Some(("allow", rest)) => allowed.extend(list(rest)),
                _ => bail!("{name}: the line '{line}' of expected.txt has no meaning"),
            }
        }
        Ok(Self {
            expected: expected.with_context(|| format!("{name} expects nothing"))?,
            name,
            remedies,
            allowed,
            folder,
        })
    }

    fn tree(&self) -> Result<Tree> {
        let own = self.folder.join("node.tree");
        let path = if own.is_file() {
            own
        } else {
            let name = fs::read_to_string(self.folder.join("tree.txt"));
            let name = name.unwrap_or_else(|_| USUAL_NODE.into());
            fixtures().join(format!("{}.tree", name.trim()))
        };
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Tree::parse(&text).with_context(|| path.display().to_string())
    }

    fn ask(self, program: &Path) -> Result<FieldOutcome> {
        let root = self.tree()?.unpack()?;
        let mut command = Command::new(program);
        command
            .args(["check", "--output", "json", "--root"])
            .arg(root.path());
        for (flag, file) in [("--log", "log.txt"), ("--config", "config.yaml")] {
            let file = self.folder.join(file);
            if file.is_file() {
                command.arg(flag).arg(file);
            }
        }
        let out = command
            .output()
            .with_context(|| format!("running {}", program.display()))?;
        let json = String::from_utf8(out.stdout)?;
        let answer = Answer::parse(&json)
            .with_context(|| format!("{}: {}", out.status, String::from_utf8_lossy(&out.stderr)))?;
        let report: Value = serde_json::from_str(&json)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(self.judge(
            &answer,
            text(&report["status"]),
            &text(&report["diagnosis"]["next_step"]),
        ))
    }

    fn judge(self, answer: &Answer, status: String, next_step: &str) -> FieldOutcome {
        let guesses = &answer.guesses;
        let is_expected = |rule: &String| match &self.expected {
            Expected::Cause(causes) => causes.contains(rule),
            _ => false,
        };
        let belongs_to_expected = |rule: &str| {
            let Expected::Cause(causes) = &self.expected else {
                return false;
            };
            causes
                .iter()
                .filter_map(|id| rdma_health_diagnosis::cause(id))
                .any(|cause| cause.rules.iter().any(|known| known.id == rule))
        };
        let false_alarms: Vec<_> = answer
            .findings
            .iter()
            .filter(|(rule, _)| {
                !self.allowed.contains(rule) && !is_expected(rule) && !belongs_to_expected(rule)
            })
            .cloned()
            .collect();
        let right = |guess: &super::Guess| {
            is_expected(&guess.name)
                || guess.rules.iter().any(is_expected)
                || belongs_to_expected(&guess.name)
        };
        let helps = || {
            let next_step = next_step.to_lowercase();
            self.remedies.iter().all(|text| next_step.contains(text))
        };
        let is_bad = matches!(status.as_str(), "warning" | "critical");
        let score = match &self.expected {
            Expected::Nothing if is_bad && self.allowed.is_empty() => FieldScore::FalseAlarm,
            Expected::Nothing => FieldScore::Right,
            _ if status == "ok" => FieldScore::Silent,
            Expected::Unknown => FieldScore::Right,
            Expected::Cause(_) if guesses.first().is_some_and(right) && helps() => FieldScore::Right,
            Expected::Cause(_) if guesses.first().is_some_and(right) => FieldScore::WrongRemedy,
            Expected::Cause(_) if guesses.iter().any(right) => FieldScore::Named,
            Expected::Cause(_) => FieldScore::Missed,
        };
        FieldOutcome {
            first: answer.first().map(str::to_owned),
            status,
            score,
            false_alarms,
            case: self,
        }
    }
}
