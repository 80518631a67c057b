//! Why a fact could not be read: one vocabulary for JSON, metrics, help texts and rules.

use std::{borrow::Cow, cmp::Ordering, fmt};

pub use rustix::io::Errno;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a fact could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unread {
    /// The file as a path on the node itself (without the `--root` prefix), or another source.
    pub source: String,
    /// What went wrong, from a fixed vocabulary.
    pub kind: UnreadKind,
    /// Details for a person.
    pub detail: String,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.source, self.detail, self.kind)
    }
}

/// What went wrong when a fact was read. In JSON and in metrics it is its [name](UnreadKind::name).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnreadKind {
    /// The kernel answered with an error.
    Errno(Errno),
    /// The content does not have the format that the kernel documents.
    Malformed,
    /// The content is too long or has too many entries.
    TooLong,
    /// The path is not a regular file.
    NotAFile,
    /// A file that every node should have does not exist.
    Missing,
    /// The snapshot or support bundle does not contain it.
    NotCollected,
    /// Reading did not finish in time.
    Hung,
    /// The reader failed, which is a bug of this program.
    Panic,
    /// A libibverbs call on one device failed.
    VerbsCall,
    /// A service rejected the request.
    Refused,
    /// The verbs helper did not respond.
    Helper(HelperTrouble),
    /// A kind from another version of this program.
    Other(Box<str>),
}

/// Why the verbs helper did not respond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperTrouble {
    /// It could not be started or reached.
    Unreachable,
    /// It was started or reached, and did not even greet: it is stopped, or gets no processor time.
    Silent,
    /// It speaks another version of the protocol.
    Version,
    /// It did not respond in time and was killed, or an earlier one still hangs.
    Hung,
    /// Its libraries could not be loaded.
    NotLoaded,
    /// It ended, or its connection closed.
    Ended,
    /// It sent an invalid message.
    Malformed,
    /// It rejected the request.
    Refused,
}

impl HelperTrouble {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Unreachable,
        Self::Silent,
        Self::Version,
        Self::Hung,
        Self::NotLoaded,
        Self::Ended,
        Self::Malformed,
        Self::Refused,
    ];

    /// Its name as the reason of a restart (`unreachable`).
    pub fn reason(self) -> &'static str {
        self.kind().trim_start_matches("helper_")
    }

    /// Its name as the kind of an unread fact (`helper_unreachable`).
    const fn kind(self) -> &'static str {
        match self {
            Self::Unreachable => "helper_unreachable",
            Self::Silent => "helper_silent",
            Self::Version => "helper_version",
            Self::Hung => "helper_hung",
            Self::NotLoaded => "helper_not_loaded",
            Self::Ended => "helper_ended",
            Self::Malformed => "helper_malformed",
            Self::Refused => "helper_refused",
        }
    }
}

impl UnreadKind {
    /// Every kind except errno values, with its meaning.
    pub const ALL: [(Self, &str); 17] = [
        (
            Self::Malformed,
            "The content does not have the format that the kernel documents.",
        ),
        (Self::TooLong, "The content is too long or has too many entries."),
        (Self::NotAFile, "The path is not a regular file."),
        (
            Self::Missing,
            "A file that every node should have does not exist.",
        ),
        (
            Self::NotCollected,
            "The snapshot or support bundle does not contain it.",
        ),
        (
            Self::Hung,
            "Reading did not finish in time: the driver or device does not respond.",
        ),
        (Self::Panic, "The reader failed, which is a bug of rdma-health."),
        (Self::VerbsCall, "A libibverbs call on one device failed."),
        (Self::Refused, "A service, the kubelet, rejected the request."),
        (
            Self::Helper(HelperTrouble::Unreachable),
            "The verbs helper could not be started or reached.",
        ),
        (
            Self::Helper(HelperTrouble::Silent),
            "The verbs helper did not greet: it is stopped, or gets no processor time.",
        ),
        (
            Self::Helper(HelperTrouble::Version),
            "The verbs helper speaks another version of the protocol.",
        ),
        (
            Self::Helper(HelperTrouble::Hung),
            "The verbs helper did not respond in time.",
        ),
        (
            Self::Helper(HelperTrouble::NotLoaded),
            "The libraries of the verbs helper could not be loaded.",
        ),
        (
            Self::Helper(HelperTrouble::Ended),
            "The verbs helper ended, or its connection closed.",
        ),
        (
            Self::Helper(HelperTrouble::Malformed),
            "The verbs helper sent an invalid message.",
        ),
        (
            Self::Helper(HelperTrouble::Refused),
            "The verbs helper rejected the request.",
        ),
    ];

    /// The names of the kinds of failed kernel reads, in addition to errno symbols.
    pub const OF_READS: [&str; 6] = [
        Self::Malformed.word(),
        Self::TooLong.word(),
        Self::NotAFile.word(),
        Self::Missing.word(),
        Self::NotCollected.word(),
        Self::Panic.word(),
    ];

    /// The name of a kind; empty for an errno or a kind of another version.
    const fn word(&self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLong => "too_long",
            Self::NotAFile => "not_a_file",
            Self::Missing => "missing",
            Self::NotCollected => "not_collected",
            Self::Hung => "hung",
            Self::Panic => "panic",
            Self::VerbsCall => "helper",
            Self::Refused => "refused",
            Self::Helper(trouble) => trouble.kind(),
            Self::Errno(_) | Self::Other(_) => "",
        }
    }

    /// Its name: an errno symbol (`EINVAL`), `malformed`, `hung`, `helper_unreachable`, …
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::Errno(errno) => match errno_name(*errno) {
                Some(name) => name.into(),
                None => format!("errno {}", errno.raw_os_error()).into(),
            },
            Self::Other(word) => (&**word).into(),
            own => own.word().into(),
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Self {
        if let Some((kind, _)) = Self::ALL.into_iter().find(|(kind, _)| kind.word() == name) {
            return kind;
        }
        let symbol = ERRNO_NAMES.iter().find(|(_, symbol)| *symbol == name);
        let number = || errno(name.strip_prefix("errno ")?.parse().ok()?);
        symbol
            .map(|(errno, _)| *errno)
            .or_else(number)
            .map_or_else(|| Self::Other(name.into()), Self::Errno)
    }
}

impl fmt::Display for UnreadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl PartialOrd for UnreadKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

// By name: that is the order in which a reader of metrics and JSON sees them.
impl Ord for UnreadKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(&other.name())
    }
}

impl Serialize for UnreadKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for UnreadKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_name(&String::deserialize(deserializer)?))
    }
}

/// The errno of this number, from 1 to 4095; `None` where Linux has no such number.
pub fn errno(number: i32) -> Option<Errno> {
    (1..4096)
        .contains(&number)
        .then(|| Errno::from_raw_os_error(number))
}

/// The symbol of an errno that sysfs, procfs and their drivers return.
pub fn errno_name(errno: Errno) -> Option<&'static str> {
    ERRNO_NAMES
        .iter()
        .find(|(known, _)| *known == errno)
        .map(|(_, name)| *name)
}

const ERRNO_NAMES: [(Errno, &str); 36] = [
    (Errno::PERM, "EPERM"),
    (Errno::NOENT, "ENOENT"),
    (Errno::INTR, "EINTR"),
    (Errno::IO, "EIO"),
    (Errno::NXIO, "ENXIO"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::ACCESS, "EACCES"),
    (Errno::BUSY, "EBUSY"),
    (Errno::NODEV, "ENODEV"),
    (Errno::NOTDIR, "ENOTDIR"),
    (Errno::ISDIR, "EISDIR"),
    (Errno::INVAL, "EINVAL"),
    (Errno::MFILE, "EMFILE"),
    (Errno::NFILE, "ENFILE"),
    (Errno::LOOP, "ELOOP"),
    (Errno::NAMETOOLONG, "ENAMETOOLONG"),
    (Errno::NODATA, "ENODATA"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
    (Errno::CONNREFUSED, "ECONNREFUSED"),
    (Errno::STALE, "ESTALE"),
    (Errno::NOSYS, "ENOSYS"),
    (Errno::XDEV, "EXDEV"),
    (Errno::PROTONOSUPPORT, "EPROTONOSUPPORT"),
    (Errno::AFNOSUPPORT, "EAFNOSUPPORT"),
    (Errno::PROTO, "EPROTO"),
    (Errno::NOBUFS, "ENOBUFS"),
    (Errno::MSGSIZE, "EMSGSIZE"),
    (Errno::PIPE, "EPIPE"),
    (Errno::NOTCONN, "ENOTCONN"),
    (Errno::CONNRESET, "ECONNRESET"),
    (Errno::RANGE, "ERANGE"),
    (Errno::REMOTEIO, "EREMOTEIO"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::EXIST, "EEXIST"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own_that_reads_back() {
        let errnos = (1..200).filter_map(errno).map(UnreadKind::Errno);
        let kinds = UnreadKind::ALL.into_iter().map(|(kind, _)| kind).chain(errnos);
        let mut names = std::collections::BTreeSet::new();
        for kind in kinds {
            let name = kind.name().into_owned();
            assert!(!name.is_empty());
            assert_eq!(UnreadKind::from_name(&name), kind);
            assert!(names.insert(name.clone()), "{name} stands for two kinds");
        }
        for trouble in HelperTrouble::ALL {
            let name = UnreadKind::Helper(trouble).name().into_owned();
            assert!(names.contains(&name), "{name} has no meaning in ALL");
            assert_eq!(format!("helper_{}", trouble.reason()), name);
        }
    }

    #[test]
    fn what_a_socket_answers_without_a_protocol_has_a_name() {
        for (number, name) in [(93, "EPROTONOSUPPORT"), (97, "EAFNOSUPPORT"), (105, "ENOBUFS")] {
            assert_eq!(UnreadKind::Errno(errno(number).unwrap()).name(), name);
        }
    }

    #[test]
    fn a_word_of_another_version_is_kept() {
        for word in ["", "frozen", "errno 0", "errno 4096", "errno -1", "EFROZEN"] {
            let kind = UnreadKind::from_name(word);
            assert_eq!(
                (kind.name().as_ref(), &kind),
                (word, &UnreadKind::Other(word.into()))
            );
        }
    }
}
