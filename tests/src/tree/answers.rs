//! The records of an archive that are not about a path: what netlink, libibverbs and the kubelet answer.

use anyhow::{Context as _, Result, bail, ensure};
use rdma_health_kernel::{
    fact::UnreadKind,
    recording::{Answer, Failure, Form, Question},
};
use serde::de::IgnoredAny;

/// Reads the question in `answer QUESTION` and `failure ERRNO QUESTION`.
pub(super) fn parse_question(text: &str) -> Result<Question> {
    let words: Vec<&str> = text.splitn(4, ' ').collect();
    let question = match *words.as_slice() {
        ["netlink", family, command, ref object @ ..] => Question::Netlink {
            family: family.into(),
            command: command.into(),
            object: object.concat(),
        },
        ["verbs", "devices"] => Question::VerbsDevices,
        ["runtimes"] => Question::Runtimes,
        ["driver", "statistics"] => Question::DriverStatistics,
        ["kubelet", method] => Question::Kubelet {
            method: method.into(),
        },
        _ => bail!(
            "expected `netlink FAMILY COMMAND [OBJECT]`, `verbs devices`, `driver statistics` or `kubelet METHOD`"
        ),
    };
    check_question(&question)?;
    Ok(question)
}

/// Reads the errno in `failure ERRNO QUESTION`.
pub(super) fn parse_failure(errno: &str) -> Result<Failure> {
    match UnreadKind::from_name(errno) {
        UnreadKind::Errno(errno) => Ok(Failure::Errno(errno)),
        _ => bail!("not the name of an errno: {errno}"),
    }
}

/// Refuses what an archive cannot express.
pub(super) fn check(question: &Question, answer: &Answer) -> Result<()> {
    ensure!(
        question.form() == Form::Document,
        "answered by a file of the tree: {question}"
    );
    check_question(question)?;
    match answer {
        Answer::Bytes(bytes) => {
            let text = super::archive::as_text(bytes)
                .with_context(|| format!("the answer to {question} is not text"))?;
            serde_json::from_str(text)
                .map(|_: IgnoredAny| ())
                .with_context(|| format!("the answer to {question} is not a JSON document"))
        }
        Answer::Failed(Failure::Errno(_)) => Ok(()),
        _ => bail!("neither a document nor an errno: {question}"),
    }
}

fn check_question(question: &Question) -> Result<()> {
    let text = question.to_string();
    let plain = !text.contains(char::is_control) && text.split(' ').all(|word| !word.is_empty());
    ensure!(plain, "not a plain question: {text:?}");
    if let Question::Netlink { family, command, .. } = question {
        let one_word = |text: &String| !text.is_empty() && !text.contains(' ');
        ensure!(
            one_word(family) && one_word(command),
            "not a plain question: {text:?}"
        );
    }
    Ok(())
}
