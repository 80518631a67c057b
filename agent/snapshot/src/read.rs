//! Reads an archive, which anybody may have made.
//!
//! Nothing is unpacked: every entry must be one that the manifest announced, and goes into memory. What bounds it: the
//! decoder's window, the bytes in all, how far few bytes may swell, the number of answers, and each file's own size.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read},
    sync::Arc,
};

use rdma_health_node::{Fact, Unread, history::History, node::VerbsDevice};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use serde::{Deserialize, de::DeserializeOwned};
use tar::{Archive, Entry, EntryType};

use crate::{
    Error, MAX_TOTAL, SCHEMA, Snapshot,
    manifest::{self, Expected, FORMAT, Head, Manifest},
};

const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
/// The largest window that a decoder must support (RFC 8878, 3.1.1.1.2), and what `zstd -19` uses.
const MAX_WINDOW: u64 = 8 << 20;
/// From this many bytes on the ratio is looked at.
const RATIO_FROM: u64 = 8 << 20;
/// The most that one byte may become; a node's files come to 30.
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
    /// Any [`Error`]: whatever is not exactly what [`Snapshot::write`] makes is refused.
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
        // What the decoder or a limit refused is the cause; what tar made of it is not.
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
    // Raw: no header may change what another one says, and no name may come from elsewhere.
    let mut entries = archive.entries().map_err(broken)?.raw(true);
    let mut document = |name: &str| -> Result<Vec<u8>, Error> {
        let missing = || Error::NotASnapshot(format!("{name} is not where it should be"));
        let mut entry = entries.next().ok_or_else(missing)?.map_err(|error| match name {
            FIRST => Error::NotASnapshot(format!("{error}")),
            _ => broken(error),
        })?;
        let found = checked_name(&entry)?;
        if found != name {
            return Err(Error::entry(&found, format!("expected {name} here")));
        }
        let size = entry.size();
        content(&mut entry, name, size.min(most(name)))
    };

    let text = document(FIRST)?;
    let head: Head = parsed(FIRST, &text)?;
    if head.format != FORMAT {
        return Err(Error::NotASnapshot(format!("{FIRST} is of something else")));
    }
    if head.schema > SCHEMA {
        return Err(Error::Future {
            found: head.schema,
            known: SCHEMA,
            version: head.version.chars().take(40).collect(),
        });
    }
    let manifest: Manifest = parsed(FIRST, &text)?;
    drop(text);
    let verbs = verbs(&document(VERBS)?)?;
    let probes = parsed(PROBES, &document(PROBES)?)?;
    let expectations = parsed(EXPECTATIONS, &document(EXPECTATIONS)?)?;

    let history = match manifest.schema {
        ..=1 => None,
        _ => history(&document(HISTORY)?)?,
    };

    let (mut recording, mut expected) = manifest::into_recording(manifest.answers)?;
    for entry in entries {
        let mut entry = entry.map_err(broken)?;
        let name = checked_name(&entry)?;
        let Some((path, size)) = expected.remove(&name) else {
            return Err(Error::entry(&name, unexpected(&name)));
        };
        let bytes = content(&mut entry, &name, size)?;
        recording.entry(&path).read = Some(Ok(bytes.into()));
    }
    all_came(&expected)?;
    Ok(Snapshot {
        version: manifest.version,
        time: manifest.time,
        live: manifest.live,
        anonymized: manifest.anonymized,
        hung: manifest.hung,
        recording,
        verbs,
        probes,
        history,
        expectations,
    })
}

/// What libibverbs said. As a fact is read anywhere else, but not by way of a tree of all that it holds.
fn verbs(bytes: &[u8]) -> Result<Verbs, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Told {
        unread: Unread,
    }
    if let Ok(Told { unread }) = serde_json::from_slice(bytes) {
        return Ok(unread.into());
    }
    parsed::<Option<_>>(VERBS, bytes).map(Fact::from)
}

/// What was remembered of the node, within the bounds that an agent keeps.
fn history(bytes: &[u8]) -> Result<Option<Arc<History>>, Error> {
    let history: Option<Arc<History>> = parsed(HISTORY, bytes)?;
    if let Some(history) = &history {
        history.check().map_err(|reason| Error::entry(HISTORY, reason))?;
    }
    Ok(history)
}

type Verbs = Fact<Arc<BTreeMap<String, VerbsDevice>>>;

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
        _ => Some("of an unknown type"),
    };
    if let Some(kind) = kind {
        return Err(Error::entry(
            &shown,
            format!("it is {kind}; a snapshot holds regular files only"),
        ));
    }
    match std::str::from_utf8(&raw) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(Error::entry(&shown, "its name is not UTF-8")),
    }
}

/// Why a name that nobody announced is refused.
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
        let reason = format!("it has {} bytes where {size} are allowed", entry.size());
        return Err(Error::entry(name, reason));
    }
    let mut bytes = Vec::new();
    entry
        .read_to_end(&mut bytes)
        .map_err(|error| Error::Broken(format!("{name}: {error}")))?;
    // tar itself takes the end of the data for the end of the entry.
    if bytes.len() as u64 != size {
        return Err(Error::Broken(format!("{name} ends early")));
    }
    Ok(bytes)
}

fn parsed<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| {
        // The message may quote what the file holds.
        let shown: String = error.to_string().chars().flat_map(char::escape_debug).collect();
        Error::entry(name, shown)
    })
}

/// Counts what was read.
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
    /// Why no more comes.
    refused: Option<Error>,
}

impl<R: Read> Bounded<R> {
    fn compressed(&self) -> u64 {
        self.decoder.get_ref().get_ref().1.bytes
    }

    /// Reads to the end, which must come soon.
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
                "it holds more than {} MiB",
                MAX_TOTAL >> 20
            )));
        } else if self.bytes > RATIO_FROM && self.bytes / MAX_RATIO > compressed {
            self.refused = Some(Error::TooBig(format!(
                "{compressed} bytes swell to more than {MAX_RATIO} times as many: a decompression bomb"
            )));
        }
        if self.refused.is_some() {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(n)
    }
}
