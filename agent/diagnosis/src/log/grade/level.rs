//! The level that a line states about itself.

/// The level that a line states about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) enum Level {
    /// Information, or less.
    Info,
    Warning,
    Error,
}

/// The level near the beginning of the line: `NCCL WARN`, `[error]`, `level=info`, klog's `E0331`, SPDK's `*ERROR*`. Before what a program passes on
/// of another one, it is the level of the first.
pub(in crate::log) fn level(text: &str) -> Option<Level> {
    let mut begin = text.len().min(240);
    while !text.is_char_boundary(begin) {
        begin -= 1;
    }
    let head = passed_on(&text[..begin]);
    if ends_program(head) || is_error_of_ceph(head) {
        return Some(Level::Error);
    }
    let mut place = 0;
    for token in head.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let before = head[..place].chars().next_back();
        // `level=info` is a level; `NCCL_DEBUG=INFO` is a setting.
        let is_value = before == Some('=')
            && !["level=", "lvl=", "severity="]
                .iter()
                .any(|key| head[..place].ends_with(key));
        place += token.len();
        if is_value {
            continue;
        }
        let (word, after) = match token.char_indices().next_back() {
            Some((at, last)) if !last.is_ascii_alphanumeric() => (&token[..at], Some(last)),
            _ => (token, None),
        };
        // A text quotes more than the word: `a "fatal device" error`.
        let is_quote = before == Some('"') && after != Some('"');
        let marked = matches!(before, Some('<' | '[' | '=' | '*' | '"'))
            && !matches!(after, Some('_' | '.'))
            && !is_quote;
        let found = match word {
            // zap's name for a level of verbosity: `LEVEL(-2)`.
            "LEVEL" | "Level" | "level" if after == Some('(') && head[place..].starts_with('-') => {
                Some(Level::Info)
            }
            // logrus shortens the names of its levels.
            "DEBU" | "TRAC" if after == Some('[') => Some(Level::Info),
            "INFO" | "NOTICE" | "DEBUG" | "TRACE" | "DIAG" => Some(Level::Info),
            // A level of UCX; for others the request of a connection manager.
            "REQ" if head[..place].contains("UCX ") => Some(Level::Info),
            // NCCL has no other level for what goes wrong.
            "WARN" if head[..place].ends_with("NCCL WARN ") => Some(Level::Error),
            "Fatal" if after == Some(':') => Some(Level::Error),
            // The exception that ends a program of Python, or of C++ below it: `RuntimeError: …`.
            word if after == Some(':')
                && head[..place - token.len()].trim().is_empty()
                && is_exception(word) =>
            {
                Some(Level::Error)
            }
            // The console of Lustre names no level but in this word. Its other networks are not of RDMA.
            "LNetError" if after == Some(':') && head.contains("o2iblnd") => Some(Level::Error),
            // An event of Kubernetes has two types, and what fails is of this one.
            "Warning" if is_failed_event(&head[place..]) => Some(Level::Error),
            "WARN" | "WARNING" | "Warning" => Some(Level::Warning),
            "ERROR" | "ERR" | "FATAL" | "CRITICAL" | "CRIT" | "EMERG" | "ALERT" => Some(Level::Error),
            "info" | "debug" | "trace" | "notice" | "dbg" if marked => Some(Level::Info),
            // Slurm: `[78.0] debug2: _set_limit: …`.
            "debug" | "debug2" | "debug3" | "debug4" | "debug5" | "verbose"
                if after == Some(':') && matches!(before, None | Some(' ')) =>
            {
                Some(Level::Info)
            }
            "warn" | "warning" if marked => Some(Level::Warning),
            "error" | "err" | "fatal" | "critical" | "crit" if marked => Some(Level::Error),
            // GPFS: `[I] VERBS RDMA started.`
            "I" | "N" if before == Some('[') && after == Some(']') => Some(Level::Info),
            "W" if before == Some('[') && after == Some(']') => Some(Level::Warning),
            "E" | "X" if before == Some('[') && after == Some(']') => Some(Level::Error),
            "Normal" if place <= "Normal ".len() + 4 => Some(Level::Info),
            // PyTorch writes the month without a zero before it: `[rank3]:[E311 09:14:22.518342101 ProcessGroupNCCL.cpp:1516]`.
            word if (word.len() == 5 || word.len() == 4 && before == Some('[') && after == Some(' '))
                && word[1..].bytes().all(|b| b.is_ascii_digit()) =>
            {
                match word.as_bytes()[0] {
                    b'I' => Some(Level::Info),
                    b'W' => Some(Level::Warning),
                    b'E' | b'F' => Some(Level::Error),
                    _ => None,
                }
            }
            _ => None,
        };
        // `Failed in get GUID INFO`: a word of the message, whose level comes before it.
        let found = found.filter(|level| *level != Level::Info || !head[..place].contains("ailed "));
        // `ERROR` in the name of a status is not a level.
        if found.is_some() && !matches!(before, Some('_' | '-')) && !matches!(after, Some('_')) {
            return found;
        }
    }
    None
}

/// What another program printed, in a line of the one that started it: `process L0416 DEBUG| [stderr] …`, `level=info msg="stderr: …"`,
/// `{subprocess.py:93} INFO - …` of Airflow. The whole line, if it is not such a line.
fn passed_on(head: &str) -> &str {
    /// The stream that the other program wrote to, as a word.
    const STREAMS: [&str; 8] = [
        "[stderr] ",
        "[stdout] ",
        "stderr: ",
        "stdout: ",
        "stderr| ",
        "stdout| ",
        "stderr | ",
        "stdout | ",
    ];
    const PASSES: [&str; 2] = ["{subprocess.py:", "{pod_manager.py:"];
    let behind = |mark: &&str| {
        let at = head.find(*mark)?;
        let is_word = head[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        (!is_word).then(|| &head[at + mark.len()..])
    };
    if head.contains("std") {
        // The shortest rest is that behind the last one.
        let rest = STREAMS.iter().filter_map(behind).min_by_key(|rest| rest.len());
        return rest.unwrap_or(head);
    }
    let message = || {
        PASSES
            .iter()
            .find_map(behind)?
            .split_once(" - ")
            .map(|(_, message)| message)
    };
    message().unwrap_or(head)
}

/// Whether a text is what the library of C++ prints of the exception that ended a program: `  what():  Port 0 is down.`
fn ends_program(head: &str) -> bool {
    let (before, rest) = head.split_once("what(): ").unwrap_or_default();
    let before = before.trim_end();
    // A launcher may write its rank before it.
    !rest.trim().is_empty() && (before.is_empty() || before.ends_with(['>', ':', ']']))
}

/// Whether a line is of Ceph, whose level of errors is -1: `2026-03-11 09:14:22.518 7f1c2a7fc700 -1 Infiniband …`.
fn is_error_of_ceph(head: &str) -> bool {
    let is_thread =
        |word: &str| (8..=16).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut words = head.split_ascii_whitespace().take(4);
    let is_date = words.next().is_some_and(|word| {
        let bytes = word.as_bytes();
        bytes.len() >= 10 && bytes[..4].iter().all(u8::is_ascii_digit) && bytes[4] == b'-'
    });
    is_date && words.any(is_thread) && words.next() == Some("-1")
}

/// Whether a word is the name of an exception of Python. The messages of Lustre begin with words of the same form.
fn is_exception(word: &str) -> bool {
    const OTHERS: [&str; 2] = ["LNetError", "LustreError"];
    let is_name = word.len() > "Error".len() && word.starts_with(|c: char| c.is_ascii_uppercase());
    is_name && word.ends_with("Error") && !OTHERS.contains(&word)
}

/// Whether a line begins with the level of an error in the form of klog and glog: `E0331 12:03:04.222625`, `F1127 …`.
pub(in crate::log) fn is_klog_error(text: &str) -> bool {
    let bytes = text.trim_start().as_bytes();
    matches!(bytes.first(), Some(b'E' | b'F'))
        && bytes.len() > 5
        && bytes[1..5].iter().all(u8::is_ascii_digit)
        && bytes[5] == b' '
}

/// Whether the rest of an event of Kubernetes, behind its type, has a reason that says that something failed: `FailedCreatePodSandBox   17s`,
/// `TopologyAffinityError`. What only may be over soon (`Unhealthy`, `NodeNotReady`) is none.
fn is_failed_event(rest: &str) -> bool {
    /// Parts of the reasons of autoscalers, of services and of pods that end.
    const OTHERS: [&str; 5] = ["Metric", "Scale", "Endpoint", "PreStop", "KillPod"];
    let reason = rest.split_whitespace().next().unwrap_or_default();
    let capitals = reason.bytes().filter(u8::is_ascii_uppercase).count();
    // `Warning Failed to open …` is a sentence; two spaces or more separate columns.
    let is_name = reason.starts_with(|c: char| c.is_ascii_uppercase())
        && reason.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && (capitals > 1 || rest.starts_with(' '));
    let fails = reason.starts_with("Failed") || reason.ends_with("Error") || reason.ends_with("BackOff");
    is_name && fails && !OTHERS.iter().any(|part| reason.contains(part))
}
