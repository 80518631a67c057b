//! A kernel source: one part of the facts, read by a separate job.
//!
//! To add one:
//!
//! 1. Write its file: the type of its facts, and [`Source`] for that type, which reads them.
//! 2. Add the file to `lib.rs`, and a row to the list in [`crate::facts`].
//!
//! The field of [`Facts`](crate::Facts), the job, the state "not read yet" and the name in metrics follow from the row. RDMA
//! devices are the one exception: each one is a separate source, which the [collector](crate::collector) starts by name.

use std::collections::BTreeSet;

use crate::{
    fact::{Unread, UnreadKind},
    facts::LastRead,
    root::Scope,
};

/// Facts that one job reads.
pub(crate) trait Source: Sized {
    /// Its dependencies.
    const AFTER: After = After::Nothing;

    /// Reads them.
    fn read(scope: &Scope<'_>, known: &Known) -> Self;

    /// The facts if none of them could be read.
    fn unread(why: &Unread) -> Self;

    /// These facts with what an earlier reading found and this one could no longer find.
    fn completed(self, _earlier: &Self) -> Self {
        self
    }

    /// The facts of the source `name` before it was read.
    fn not_read_yet(name: &str) -> Self {
        Self::unread(&not_read_yet(name))
    }
}

/// The dependencies of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// None: it starts with the pass.
    Nothing,
    /// It needs the RDMA devices in [`Known`].
    Devices,
}

/// The RDMA devices when a source is read; empty for sources that start with the pass.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// PCI addresses of their functions.
    pub(crate) functions: BTreeSet<String>,
    /// Those of them below which there are devices in software only (`rdma_rxe`).
    pub(crate) software: BTreeSet<String>,
    /// Network devices of their ports.
    pub(crate) netdevs: BTreeSet<String>,
}

/// A source as the collector runs it.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name in [`Facts::sources`](crate::Facts::sources) and in metrics: the name of its field.
    pub(crate) name: &'static str,
    /// Its dependencies.
    pub(crate) after: After,
    /// Reads it.
    pub(crate) read: fn(&Scope<'_>, &Known) -> Store,
}

/// Stores the result of a job.
pub(crate) type Store = Box<dyn FnOnce(&mut LastRead) + Send>;

/// Why the facts of a source are unread before its first reading has ended.
pub(crate) fn not_read_yet(source: &str) -> Unread {
    Unread {
        source: source.into(),
        kind: UnreadKind::Hung,
        detail: "reading it has not finished yet".into(),
    }
}
