//! The distribution of the host.
//!
//! Source: `/etc/os-release` or `/usr/lib/os-release` (os-release(5)), of which only identifiers are kept. In a container these
//! files describe its image. There, only those of the host count: where its root is mounted at `/host`, otherwise as a privileged helper
//! reads them.

use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread},
    root::Scope,
    source::{Known, Source},
};

/// The files of the host where its root is mounted in a container. A link in `/etc` that is absolute would lead into the image,
/// so the file in `/usr` is first.
const MOUNTED: [&str; 2] = ["/host/usr/lib/os-release", "/host/etc/os-release"];
/// The files of the machine itself, in their order of precedence.
const OWN: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// What a privileged helper answers; no such file exists.
pub(crate) const OF_HELPER: &str = "/host/os-release";
/// Maximum length of an identifier in bytes.
const MAX_LENGTH: usize = 64;

/// The distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsRelease {
    /// Absent if no file describes the host, or if it was not collected: the kernel's release names the family of the
    /// distribution as well.
    pub release: Fact<Release>,
}

/// The identifiers of a distribution. Each consists of lower-case letters, digits, `.`, `_` and `-`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// `ID`: `ubuntu`, `rhel`, `talos`; `linux` if the file does not name one.
    pub id: String,
    /// `VERSION_ID`: `22.04`, `9.4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `VARIANT_ID`: `coreos`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// `IMAGE_ID`: the name of the image of an image-based system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

impl Source for OsRelease {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        let own: &[&str] = if scope.root().is_of_container() { &[] } else { &OWN };
        let mut release = Fact::Absent;
        for path in MOUNTED.iter().chain(own).chain([&OF_HELPER]) {
            release = scope.collected(path).map(|text| Release::parse(&text));
            if !release.is_absent() {
                break;
            }
        }
        Self { release }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            release: why.clone().into(),
        }
    }
}

impl Release {
    fn parse(text: &str) -> Self {
        let value = |name| identifiers(text).find(|(key, _)| *key == name);
        let owned = |name| value(name).map(|(_, value)| value.to_owned());
        Self {
            id: owned("ID").unwrap_or_else(|| "linux".to_owned()),
            version: owned("VERSION_ID"),
            variant: owned("VARIANT_ID"),
            image: owned("IMAGE_ID"),
        }
    }
}

/// The identifiers in a file, without values that are not of the form that os-release(5) asks for.
fn identifiers(text: &str) -> impl Iterator<Item = (&str, &str)> {
    const KEYS: [&str; 4] = ["ID", "VERSION_ID", "VARIANT_ID", "IMAGE_ID"];
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-');
    text.lines().filter_map(move |line| {
        let (key, value) = line.trim().split_once('=')?;
        let value = value.trim_matches(['"', '\'']);
        let is_valid = !value.is_empty() && value.len() <= MAX_LENGTH && value.bytes().all(plain);
        (KEYS.contains(&key) && is_valid).then_some((key, value))
    })
}

/// The lines that the reader uses, of the machine whose root is read.
pub fn of_host(scope: &Scope<'_>) -> Fact<String> {
    let mut release = Fact::Absent;
    for path in OWN {
        release = scope.collected(path).map(|text| used_lines(&text));
        if !release.is_absent() {
            break;
        }
    }
    release
}

/// Whether the file describes a distribution.
pub fn is_release(path: &str) -> bool {
    MOUNTED.contains(&path) || OWN.contains(&path) || path == OF_HELPER
}

/// The lines that the reader uses.
pub fn used_lines(text: &str) -> String {
    identifiers(text)
        .map(|(key, value)| format!("{key}={value}\n"))
        .collect::<Vec<_>>()
        .concat()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Root;

    fn read(files: &[(&str, &str)]) -> Fact<Release> {
        let tree = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::open(tree.path()).unwrap();
        OsRelease::read(&Scope::new(&root), &Known::default()).release
    }

    #[test]
    fn identifiers_are_kept_and_nothing_else() {
        let text = "PRETTY_NAME=\"Fedora CoreOS 41 of ALICE\"\nID=fedora\nVERSION_ID='41'\nVARIANT_ID=\"coreos\"\nIMAGE_ID=$(reboot)\n\
            BUILD_ID=secret\n";
        let expected = Release {
            id: "fedora".into(),
            version: Some("41".into()),
            variant: Some("coreos".into()),
            image: None,
        };
        assert_eq!(read(&[("etc/os-release", text)]), Fact::Known(expected.clone()));
        assert_eq!(used_lines(text), "ID=fedora\nVERSION_ID=41\nVARIANT_ID=coreos\n");
        assert_eq!(Release::parse(&used_lines(text)), expected);
    }

    #[test]
    fn the_root_of_the_host_counts_before_that_of_a_container() {
        let id = |files: &[(&str, &str)]| read(files).known().map(|release| release.id.clone());
        let (debian, talos) = (
            ("etc/os-release", "ID=debian\n"),
            ("host/etc/os-release", "ID=talos\n"),
        );
        assert_eq!(id(&[debian, talos]).as_deref(), Some("talos"));
        assert_eq!(id(&[debian]).as_deref(), Some("debian"));
        assert_eq!(
            id(&[("usr/lib/os-release", "ID=sles\n")]).as_deref(),
            Some("sles")
        );
        assert_eq!(id(&[("etc/os-release", "\u{1}\n")]).as_deref(), Some("linux"));
        assert_eq!(read(&[]), Fact::Absent);
    }
}
