//! Writes an archive. The same snapshot gives the same bytes.

use std::io::{Error, Write};

use rdma_health_kernel::root::MAX_FILE;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Serialize;
use tar::{Builder, EntryType, Header};

use crate::{
    FORMAT, MAX_ANSWERS, MAX_TOTAL, SCHEMA, Snapshot, manifest,
    manifest::Manifest,
    read::{self, EXPECTATIONS, FIRST, HISTORY, PROBES},
};

impl Snapshot {
    /// Writes the archive.
    ///
    /// # Errors
    /// If writing fails, or the snapshot exceeds a limit of [`Snapshot::read`].
    pub fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        out.write_all(&compress_to_vec(
            self.archive()?.as_slice(),
            CompressionLevel::Fastest,
        ))
    }

    /// The archive before compression.
    fn archive(&self) -> std::io::Result<Vec<u8>> {
        let (answers, contents) = manifest::from_recording(&self.recording);
        if answers.len() > MAX_ANSWERS {
            return Err(Error::other(format!(
                "{} answers exceed the limit of a snapshot",
                answers.len()
            )));
        }
        let manifest = Manifest {
            format: FORMAT.to_owned(),
            schema: SCHEMA,
            version: self.version.clone(),
            time: self.time,
            live: self.live,
            anonymized: self.anonymized,
            hung: self.recording.hung.clone(),
            answers,
        };
        let mut archive = Archive {
            builder: Builder::new(Vec::new()),
            time: self.time,
        };
        archive.document(FIRST, &manifest)?;
        archive.document(PROBES, &self.probes)?;
        archive.document(EXPECTATIONS, &self.expectations)?;
        archive.document(HISTORY, &self.history)?;
        for content in contents {
            if content.bytes.len() > MAX_FILE {
                return Err(Error::other(format!(
                    "{} has {} bytes, and a snapshot holds {MAX_FILE} of it",
                    content.entry,
                    content.bytes.len()
                )));
            }
            archive.add(&content.entry, &content.bytes)?;
        }
        let bytes = archive.builder.into_inner()?;
        if bytes.len() as u64 > MAX_TOTAL {
            return Err(Error::other(format!(
                "{} bytes exceed the limit of a snapshot",
                bytes.len()
            )));
        }
        Ok(bytes)
    }
}

struct Archive {
    builder: Builder<Vec<u8>>,
    time: u64,
}

impl Archive {
    fn document(&mut self, name: &str, content: &impl Serialize) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(content)?;
        let most = read::most(name);
        if text.len() as u64 > most {
            return Err(Error::other(format!(
                "{name} has {} bytes, and a snapshot holds {most} of it",
                text.len()
            )));
        }
        self.add(name, &text)
    }

    fn add(&mut self, name: &str, content: &[u8]) -> std::io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_path(name)?;
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(self.time);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.builder.append(&header, content)
    }
}
