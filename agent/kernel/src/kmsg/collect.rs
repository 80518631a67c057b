//! What is kept of a kernel log: bounded, so that no flood displaces anything else.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    fmt::Write,
};

use rdma_health_kernel_log::{
    Device, Event, EventKind, Form, Record, Reports, is_known, is_part, kept, lines_of, of_record, split,
};

use super::{Log, TOPICS};
use crate::root::Records;

/// Maximum number of devices of which events of one kind are kept.
pub(crate) const MAX_DEVICES: usize = 256;
/// Number of lines that are kept of each topic: the first and the last ones.
const FIRST_LINES: usize = 8;
const LAST_LINES: usize = 24;

/// The record as it is kept; `None` if it is neither about a device or topic that readers use nor a part of a report that they join.
pub(crate) fn relevant(record: &str) -> Option<String> {
    let parsed = Record::parse(record)?;
    let is_of_lines = || lines_of(record).iter().any(|line| relevant(line).is_some());
    let is_relevant =
        of_record(&parsed).is_some() || topic(&parsed).is_some() || is_part(&parsed) || is_of_lines();
    is_relevant.then(|| kept(record))
}

/// The topic of a record, by its place in [`TOPICS`].
fn topic(record: &Record<'_>) -> Option<usize> {
    let topic = || TOPICS.iter().position(|topic| record.text.contains(topic));
    is_known(record.text).then(topic)?
}

/// The records so far. Of each topic it keeps the first and the last lines, and of each kind of event on each device the first
/// and the last one and how many there are.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// Number of records so far.
    records: u64,
    events: BTreeMap<(EventKind, Device), Messages>,
    topics: BTreeMap<usize, Topic>,
    /// The event of the previous record, for a line that says how often it was repeated.
    previous: Option<(EventKind, Device)>,
    /// Number of events of further devices.
    dropped: u64,
    /// The reports that several records make.
    reports: Reports,
    /// What is before the message of the record that the next line of a file may go on with.
    header: String,
    /// The form of the records of a file; `None` for the device, which returns one record at a time.
    form: Option<Form>,
    /// The first line of a file whose lines are not those of a kernel log, as far as they are known.
    foreign: Option<String>,
    /// Whether a line is one of a kernel log.
    is_understood: bool,
}

/// A record that is kept, with its place in the log.
#[derive(Debug, Clone)]
struct Kept {
    place: u64,
    record: String,
}

/// The messages of one kind about one device.
#[derive(Debug)]
struct Messages {
    driver: String,
    count: u64,
    first: Kept,
    last: Option<Kept>,
}

/// Lines about one topic.
#[derive(Debug, Default)]
struct Topic {
    first: Vec<Kept>,
    last: VecDeque<Kept>,
}

impl Topic {
    fn add(&mut self, kept: Kept) {
        if self.first.len() < FIRST_LINES {
            self.first.push(kept);
            return;
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(kept);
    }
}

/// The line of a saved log that says how many messages between the first and the last one were left out. Like the dictionary of a
/// record, it starts with a space.
const REPEATED: &str = " REPEATED=";

/// The line of a saved log that says that nothing in it was understood.
const NOT_UNDERSTOOD: &str = " NOT_UNDERSTOOD";

/// Whether this is a line that [`Collected`] adds to a saved log, and not the kernel's.
pub(super) fn is_marker(line: &str) -> bool {
    if line == NOT_UNDERSTOOD {
        return true;
    }
    let number = line.strip_prefix(REPEATED);
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

impl Records for Collected {
    fn begin(&mut self, head: &str) {
        self.form = Some(Form::of_file(&without_colours(head)));
    }

    fn add(&mut self, record: &str) {
        if record == NOT_UNDERSTOOD {
            self.foreign = Some(String::new());
            return;
        }
        // In a record of the device, the kernel escapes these characters.
        let record: &str = &without_colours(record);
        if let Some(number) = record.strip_prefix(REPEATED) {
            self.repeat(number);
            return;
        }
        // The dictionary of a record, or what follows a line break in its text.
        if self.form.is_some_and(|form| !form.has(record)) {
            if let Some(message) = self.reports.add_rest(record) {
                self.joined(&(self.header.clone() + &message));
            }
            return;
        }
        self.understand(record);
        self.previous = None;
        self.records += 1;
        let lines = lines_of(record);
        if lines.is_empty() {
            self.message(record);
        }
        for line in lines {
            self.message(&line);
        }
    }

    /// The kept records, oldest first.
    fn saved(&self) -> String {
        if self.foreign().is_some() {
            return format!("{NOT_UNDERSTOOD}\n");
        }
        let mut lines: Vec<(u64, &str, u64)> = Vec::new();
        for topic in self.topics.values() {
            let all = topic.first.iter().chain(&topic.last);
            lines.extend(all.map(|kept| (kept.place, kept.record.as_str(), 0)));
        }
        for messages in self.events.values() {
            lines.push((messages.first.place, &messages.first.record, 0));
            if let Some(last) = &messages.last {
                lines.push((last.place, &last.record, messages.count.saturating_sub(2)));
            }
        }
        lines.sort_unstable();
        let mut saved = String::new();
        for (_, record, repeated) in lines {
            saved.push_str(record);
            saved.push('\n');
            if repeated > 0 {
                let _ = writeln!(saved, "{REPEATED}{repeated}");
            }
        }
        saved
    }
}

/// The text without the sequences that set colours in a terminal (`dmesg --color=always`).
fn without_colours(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = "\u{1b}[";
    if !text.contains(BEGIN) {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split(BEGIN);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part
            .find(|c: char| ('@'..='~').contains(&c))
            .map_or(part.len(), |at| at + 1);
        plain.push_str(&part[end..]);
    }
    Cow::Owned(plain)
}

impl Collected {
    /// Without records so far, of a file whose lines have this form.
    pub(super) fn of(form: Form) -> Self {
        Self {
            form: Some(form),
            ..Self::default()
        }
    }

    /// Notes whether a line of a file without times is one of a kernel log: of a driver that is known, or the first one.
    fn understand(&mut self, record: &str) {
        if self.is_understood || self.form.is_none() {
            return;
        }
        let is_known =
            |record: Record<'_>| is_known(record.text) || record.text.starts_with("Linux version ");
        self.is_understood = self.form != Some(Form::Plain)
            || Record::parse(record).is_some_and(is_known)
            || relevant(record).is_some();
        if self.foreign.is_none() && !record.trim().is_empty() {
            self.foreign = Some(kept(record));
        }
    }

    /// The first line of a file of which no line is one of a kernel log.
    pub(crate) fn foreign(&self) -> Option<&str> {
        self.foreign.as_deref().filter(|_| !self.is_understood)
    }

    /// A message of the kernel, with what is before it.
    fn message(&mut self, record: &str) {
        let Some(parsed) = Record::parse(record) else {
            return;
        };
        let joined = self.reports.add(&parsed);
        if self.reports.has_begun() {
            self.header = split(record).0;
        }
        if let Some(message) = joined {
            self.joined(&(split(record).0 + &message));
        } else if let Some(report) = of_record(&parsed) {
            self.event((report.kind, report.device), report.driver, record);
        } else if let Some(topic) = topic(&parsed) {
            let place = self.records;
            let record = kept(record);
            self.topics.entry(topic).or_default().add(Kept { place, record });
        }
    }

    /// A message that joins a report.
    fn joined(&mut self, record: &str) {
        let report = Record::parse(record).and_then(|parsed| of_record(&parsed));
        if let Some(report) = report {
            self.event((report.kind, report.device), report.driver, record);
        }
    }

    fn event(&mut self, key: (EventKind, Device), driver: String, record: &str) {
        let kept = Kept {
            place: self.records,
            record: kept(record),
        };
        if let Some(messages) = self.events.get_mut(&key) {
            messages.count += 1;
            messages.driver = driver;
            messages.last = Some(kept);
        } else {
            let of_kind = self.events.keys().filter(|(kind, _)| *kind == key.0).count();
            if of_kind >= MAX_DEVICES {
                self.dropped += 1;
                return;
            }
            let messages = Messages {
                driver,
                count: 1,
                first: kept,
                last: None,
            };
            self.events.insert(key.clone(), messages);
        }
        self.previous = Some(key);
    }

    fn repeat(&mut self, number: &str) {
        let messages = self.previous.take().and_then(|key| self.events.get_mut(&key));
        if let (Some(messages), Ok(number)) = (messages, number.trim().parse::<u64>()) {
            messages.count = messages.count.saturating_add(number);
        }
    }

    /// The log as facts.
    pub(crate) fn into_log(self) -> Log {
        let text = |kept: &Kept| -> (Option<u64>, String) {
            Record::parse(&kept.record).map_or((None, String::new()), |record| {
                (record.time, record.text.to_owned())
            })
        };
        let mut lines: Vec<(u64, String)> = Vec::new();
        let all = self
            .topics
            .into_values()
            .flat_map(|topic| topic.first.into_iter().chain(topic.last));
        lines.extend(all.map(|kept| (kept.place, text(&kept).1)));
        let mut events: Vec<(u64, Event)> = Vec::new();
        for ((kind, device), messages) in self.events {
            let (first, message) = text(&messages.first);
            lines.push((messages.first.place, message.clone()));
            let (place, last, message) = match &messages.last {
                Some(kept) => {
                    let (last, message) = text(kept);
                    lines.push((kept.place, message.clone()));
                    (kept.place, last, message)
                }
                None => (messages.first.place, first, message),
            };
            let event = Event {
                kind,
                device,
                driver: messages.driver,
                count: messages.count,
                first,
                last,
                message,
                order: 0,
            };
            events.push((place, event));
        }
        lines.sort();
        let order = |place: u64| lines.partition_point(|(at, _)| *at < place);
        events.sort_by_key(|(place, _)| *place);
        let events = events.into_iter().map(|(place, event)| Event {
            order: order(place),
            ..event
        });
        Log {
            events: events.collect(),
            lines: lines.into_iter().map(|(_, line)| line).collect(),
            dropped: self.dropped,
        }
    }
}

#[cfg(test)]
mod tests;
