//! Reads an archive, which is untrusted.
//!
//! Nothing is unpacked: every entry must be announced in the manifest, and is read into memory. The limits are the
//! decoder's window, the total size, the compression ratio, the number of answers, and the size of each file.

use std::{
    io::{ErrorKind, Read},
    sync::Arc,
};

use rdma_health_kernel::recording::{Answer, Form, Question};
use rdma_health_node::history::History;
use rdma_health_protocol::text::excerpt;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use serde::de::{DeserializeOwned, IgnoredAny};
use tar::{Archive, Entry, EntryType};

use crate::{
    Error, MAX_TOTAL, SCHEMA, Snapshot,
    manifest::{self, Expected, FORMAT, Head, Manifest, PathEntry, SCHEMA_OF_PATHS},
    runtimes, verbs,
};

const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
/// The largest window that a decoder must support (RFC 8878, 3.1.1.1.2), which is also the window of `zstd -19`.
const MAX_WINDOW: u64 = 8 << 20;
/// The number of bytes from which on the ratio is checked.
const RATIO_FROM: u64 = 8 << 20;
/// Maximum compression ratio; that of a node's files is about 30.
const MAX_RATIO: u64 = 500;

/// The most bytes of a document. What is kept of the manifest and of what was remembered is about as large as its text.
/// That of the others may be many times as large: an expectation is read into a tree, and what may follow a probe's failure
/// is held until its kind is known. So those have the room that a node can need: two thousand probes, and expectations as
/// long as a configuration file may be. What libibverbs said is long where GID tables are full, so it is read without a
/// tree, and has room for all that a helper can say at once, indented.
pub(crate) fn most(document: &str) -> u64 {
    match document {
        VERBS => 16 << 20,
        PROBES => 2 << 20,
        EXPECTATIONS => 1 << 20,
        _ => 24 << 20,
    }
}

impl Snapshot {
    /// Reads an archive.
    ///
    /// # Errors
    /// Any [`Error`]: everything that [`Snapshot::write`] cannot have written is rejected.
    pub fn read(input: impl Read) -> Result<Self, Error> {
        let mut input = Counted { input, bytes: 0 };
        let mut magic = [0; MAGIC.len()];
        if let Err(error) = input.read_exact(&mut magic) {
            return Err(match error.kind() {
                ErrorKind::UnexpectedEof => Error::NotCompressed,
                _ => error.into(),
            });
        }
        if magic != MAGIC {
            return Err(Error::NotCompressed);
        }
        let decoder = StreamingDecoder::new_with_max_window_size(MAGIC.chain(input), MAX_WINDOW)
            .map_err(|error| Error::Broken(error.to_string()))?;
        let mut archive = Archive::new(Bounded {
            decoder,
            bytes: 0,
            refused: None,
        });
        let snapshot = read_archive(&mut archive);
        let mut rest = archive.into_inner();
        // Report the error of the decoder or of a limit, not the resulting error of tar.
        if let Some(refused) = rest.refused.take() {
            return Err(refused);
        }
        let snapshot = snapshot?;
        rest.finish()?;
        Ok(snapshot)
    }
}

fn read_archive(archive: &mut Archive<impl Read>) -> Result<Snapshot, Error> {
    let broken = |error: std::io::Error| Error::Broken(error.to_string());
    // Raw: headers must not change other headers or contain the names of other entries.
    let mut entries = archive.entries().map_err(broken)?.raw(true);
    let mut document = |name: &str| -> Result<Vec<u8>, Error> {
        let missing = || Error::NotASnapshot(format!("{name} is missing or not in its place"));
        let mut entry = entries.next().ok_or_else(missing)?.map_err(|error| match name {
            FIRST => Error::NotASnapshot(format!("{error}")),
            _ => broken(error),
        })?;
        let found = checked_name(&entry)?;
        if found != name {
            return Err(Error::entry(&found, format!("expected {name} here")));
        }
        let size = entry.size();
        let most = most(name);
        if size > most {
            let reason = format!("it has {size} bytes, at most {most} are allowed");
            return Err(Error::entry(name, reason));
        }
        content(&mut entry, name, size)
    };

    let text = document(FIRST)?;
    let head: Head = parsed(FIRST, &text)?;
    if head.format != FORMAT {
        return Err(Error::NotASnapshot(format!("{FIRST} has another format")));
    }
    if head.schema > SCHEMA {
        return Err(Error::Future {
            found: head.schema,
            known: SCHEMA,
            version: head.version.chars().take(40).collect(),
        });
    }
    let manifest = if head.schema > SCHEMA_OF_PATHS {
        parsed::<Manifest<manifest::Entry>>(FIRST, &text)?
    } else {
        without_legacy(parsed(FIRST, &text)?)?
    };
    drop(text);
    let verbs = match manifest.schema {
        ..=SCHEMA_OF_PATHS => {
            let document = document(VERBS)?;
            verbs::legacy_answer(&document).map_err(|error| not_json(VERBS, &error))?
        }
        _ => None,
    };
    let probes = parsed(PROBES, &document(PROBES)?)?;
    let expectations = parsed(EXPECTATIONS, &document(EXPECTATIONS)?)?;
    let history = match manifest.schema {
        ..=1 => None,
        _ => history(&document(HISTORY)?)?,
    };

    let (mut recording, mut expected) = manifest::into_recording(manifest.answers)?;
    recording.hung = manifest.hung;
    if let Some(answer) = verbs {
        recording.insert(Question::VerbsDevices, answer);
    }
    for entry in entries {
        let mut entry = entry.map_err(broken)?;
        let name = checked_name(&entry)?;
        let Some((question, size)) = expected.remove(&name) else {
            return Err(Error::entry(&name, unexpected(&name)));
        };
        let bytes = content(&mut entry, &name, size)?;
        check_document(&question, &bytes).map_err(|error| not_json(&name, &error))?;
        recording.insert(question, Answer::Bytes(bytes.into()));
    }
    all_came(&expected)?;
    Ok(Snapshot {
        version: manifest.version,
        time: manifest.time,
        live: manifest.live,
        anonymized: manifest.anonymized,
        recording,
        probes,
        history,
        expectations,
    })
}

/// A manifest of version 1 or 2 with answers as those of today.
fn without_legacy(manifest: Manifest<PathEntry>) -> Result<Manifest<manifest::Entry>, Error> {
    let answers = manifest.answers.into_iter().map(TryInto::try_into);
    Ok(Manifest {
        answers: answers.collect::<Result<_, _>>()?,
        format: manifest.format,
        schema: manifest.schema,
        version: manifest.version,
        time: manifest.time,
        live: manifest.live,
        anonymized: manifest.anonymized,
        hung: manifest.hung,
    })
}

/// Checks that a document is one, and that of libibverbs is what it can have said.
fn check_document(question: &Question, bytes: &[u8]) -> serde_json::Result<()> {
    match (question, question.form()) {
        (Question::VerbsDevices, _) => verbs::devices(bytes).map(|_| ()),
        (Question::Runtimes, _) => runtimes::runtimes(bytes)
            .map(|_| ())
            .map_err(serde::de::Error::custom),
        (_, Form::Document) => serde_json::from_slice::<IgnoredAny>(bytes).map(|_| ()),
        _ => Ok(()),
    }
}

/// The history of the node, within the limits of an agent.
fn history(bytes: &[u8]) -> Result<Option<Arc<History>>, Error> {
    let history: Option<Arc<History>> = parsed(HISTORY, bytes)?;
    if let Some(history) = &history {
        history.check().map_err(|reason| Error::entry(HISTORY, reason))?;
    }
    Ok(history)
}

pub(crate) const FIRST: &str = "manifest.json";
pub(crate) const VERBS: &str = "verbs.json";
pub(crate) const PROBES: &str = "probes.json";
pub(crate) const EXPECTATIONS: &str = "expectations.json";
pub(crate) const HISTORY: &str = "history.json";

fn all_came(expected: &Expected) -> Result<(), Error> {
    match expected.keys().next() {
        None => Ok(()),
        Some(missing) => Err(Error::entry(
            missing,
            "announced in manifest.json and not there; the archive may be cut off",
        )),
    }
}

/// The name of a regular file.
fn checked_name(entry: &Entry<'_, impl Read>) -> Result<String, Error> {
    let raw = entry.path_bytes();
    let shown = String::from_utf8_lossy(&raw);
    let kind = match entry.header().entry_type() {
        EntryType::Regular => None,
        EntryType::Link => Some("a hard link"),
        EntryType::Symlink => Some("a symbolic link"),
        EntryType::Char | EntryType::Block => Some("a device"),
        EntryType::Fifo => Some("a FIFO"),
        EntryType::Directory => Some("a directory"),
        EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader | EntryType::XGlobalHeader => {
            Some("an extended header")
        }
        _ => Some("an unknown type of entry"),
    };
    if let Some(kind) = kind {
        return Err(Error::entry(
            &shown,
            format!("it is {kind}; a snapshot contains only regular files"),
        ));
    }
    match std::str::from_utf8(&raw) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(Error::entry(&shown, "its name is not UTF-8")),
    }
}

/// Why a name that the manifest does not announce is rejected.
fn unexpected(name: &str) -> &'static str {
    if name.starts_with('/') {
        "an absolute path"
    } else if name.split('/').any(|part| part == "..") {
        "a path that leads out of the archive"
    } else {
        "not announced in manifest.json, or there twice"
    }
}

fn content(entry: &mut Entry<'_, impl Read>, name: &str, size: u64) -> Result<Vec<u8>, Error> {
    if entry.size() != size {
        let reason = format!("it has {} bytes, expected {size}", entry.size());
        return Err(Error::entry(name, reason));
    }
    let mut bytes = Vec::new();
    entry
        .read_to_end(&mut bytes)
        .map_err(|error| Error::Broken(format!("{name}: {error}")))?;
    // The tar crate treats the end of the data as the end of the entry.
    if bytes.len() as u64 != size {
        return Err(Error::Broken(format!("{name} ends early")));
    }
    Ok(bytes)
}

fn parsed<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| not_json(name, &error))
}

fn not_json(name: &str, error: &serde_json::Error) -> Error {
    // The message may quote the content of the file.
    Error::entry(name, excerpt(&error.to_string(), 400))
}

/// Counts the bytes that are read.
struct Counted<R> {
    input: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.input.read(buffer)?;
        self.bytes += n as u64;
        Ok(n)
    }
}

type Input<R> = std::io::Chain<&'static [u8], Counted<R>>;

/// The uncompressed data, up to the limits.
struct Bounded<R: Read> {
    decoder: StreamingDecoder<Input<R>, FrameDecoder>,
    bytes: u64,
    /// Why the data ended early.
    refused: Option<Error>,
}

impl<R: Read> Bounded<R> {
    fn compressed(&self) -> u64 {
        self.decoder.get_ref().get_ref().1.bytes
    }

    /// Reads to the end, which must be near.
    fn finish(mut self) -> Result<(), Error> {
        let mut rest = [0; 4096];
        loop {
            let n = match self.read(&mut rest) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) => return Err(self.refused.unwrap_or(error.into())),
            };
            if rest[..n].iter().any(|byte| *byte != 0) {
                return Err(Error::Broken("there is data after the end of the archive".into()));
            }
        }
        let decoder = &self.decoder.decoder;
        let (written, computed) = (
            decoder.get_checksum_from_data(),
            decoder.get_calculated_checksum(),
        );
        if written.is_some() && written != computed {
            return Err(Error::Broken("the checksum does not match".into()));
        }
        let (_, after) = self.decoder.get_mut().get_mut();
        match after.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Error::Broken(
                "there is data after the end of the compressed data".into(),
            )),
            Err(error) => Err(error.into()),
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.refused.is_some() {
            return Err(ErrorKind::InvalidData.into());
        }
        let n = match self.decoder.read(buffer) {
            Ok(n) => n,
            Err(error) => {
                self.refused = Some(Error::Broken(error.to_string()));
                return Err(ErrorKind::InvalidData.into());
            }
        };
        self.bytes += n as u64;
        let compressed = self.compressed();
        if self.bytes > MAX_TOTAL {
            self.refused = Some(Error::TooBig(format!(
                "it contains more than {} MiB",
                MAX_TOTAL >> 20
            )));
        } else if self.bytes > RATIO_FROM && self.bytes / MAX_RATIO > compressed {
            self.refused = Some(Error::TooBig(format!(
                "{compressed} bytes decompress to more than {MAX_RATIO} times as many: a decompression bomb"
            )));
        }
        if self.refused.is_some() {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(n)
    }
}
