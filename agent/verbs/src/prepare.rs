//! Gives a directory of the host to the agent's user, as the pod's init container: the agent has no privilege to do so, and the
//! kubelet creates the directory of a `hostPath` volume as root's.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, XattrFlags, chmod, chownat, fstat, getxattr, open,
        openat, setxattr,
    },
    io::Errno,
};

/// Others may list the directory, because a later run has no privilege to read what is another user's; its files are 0640.
const MODE: Mode = Mode::from_raw_mode(0o755);
/// The attribute with the `SELinux` label of a file.
const LABEL: &str = "security.selinux";
/// The label of files that any container may use. That of a file which a container creates has the categories of its pod, and no
/// later pod may use it.
const SHARED: &str = "system_u:object_r:container_file_t:s0";
/// Maximum number of entries of the directory that are labelled; the agent keeps one file there.
const MAX_ENTRIES: usize = 64;

/// Makes `directory` that of the user and group `uid`, and what is in it usable under `SELinux`.
///
/// The user may have put anything into the directory. Nothing that is not the user's own regular file is changed, and no
/// symbolic link is followed. Returns why a label could not be set, if one could not.
///
/// # Errors
/// If the directory does not exist, is a symbolic link, or cannot be changed.
pub fn prepare(directory: &Path, uid: u32) -> io::Result<Option<io::Error>> {
    let (owner, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    let path_only = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = open(directory, path_only | OFlags::DIRECTORY, Mode::empty())?;
    let stat = fstat(&found)?;
    if stat.st_uid != uid || stat.st_gid != uid {
        chmod(itself(found.as_fd()), MODE)?;
        chownat(&found, "", Some(owner), Some(group), AtFlags::EMPTY_PATH)?;
    }
    let mut unlabelled = label(found.as_fd()).err();
    for name in names(&found)? {
        let entry = match openat(&found, &name, path_only, Mode::empty()) {
            Ok(entry) => entry,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&entry)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_file && stat.st_uid == uid && stat.st_nlink == 1 {
            unlabelled = unlabelled.or(label(entry.as_fd()).err());
        }
    }
    Ok(unlabelled)
}

/// The names of the first entries of a directory.
fn names(directory: &OwnedFd) -> io::Result<Vec<std::ffi::CString>> {
    let listed = openat(directory, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(listed)?.take(MAX_ENTRIES) {
        let name = entry?.file_name().to_owned();
        if name.to_bytes() != b"." && name.to_bytes() != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Sets the `SELinux` label, if the file has another one. Files have none where `SELinux` is off.
fn label(file: BorrowedFd<'_>) -> io::Result<()> {
    let mut current = [0_u8; 256];
    match getxattr(itself(file), LABEL, &mut current) {
        Ok(length) if current[..length].starts_with(SHARED.as_bytes()) && length <= SHARED.len() + 1 => {
            return Ok(());
        }
        Err(Errno::NODATA | Errno::NOTSUP) => return Ok(()),
        Ok(_) | Err(Errno::RANGE) => {}
        Err(error) => return Err(error.into()),
    }
    let set = setxattr(itself(file), LABEL, SHARED.as_bytes(), XattrFlags::empty());
    set.map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("the SELinux label {SHARED} cannot be set: {error}"),
        )
    })
}

/// A path to an open file, for calls that take no descriptor opened with `O_PATH`.
fn itself(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    };

    use super::*;

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn a_directory_of_this_user_stays_and_what_is_in_it_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        fs::write(state.join("history"), "x").unwrap();
        symlink("/etc/shadow", state.join("link")).unwrap();
        prepare(&state, own()).unwrap();
        let made = fs::metadata(&state).unwrap();
        assert_eq!((made.uid(), made.gid()), (own(), own()));
        assert_eq!(fs::read_to_string(state.join("history")).unwrap(), "x");
    }

    #[test]
    fn a_directory_of_root_becomes_the_users() {
        if own() != 0 {
            return; // needs the privilege of the init container
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let foreign = folder.path().join("foreign");
        fs::write(&foreign, "").unwrap();
        for _ in 0..2 {
            prepare(folder.path(), 65_521).unwrap();
            let made = fs::metadata(folder.path()).unwrap();
            assert_eq!(
                (made.uid(), made.gid(), made.mode() & 0o7777),
                (65_521, 65_521, 0o755)
            );
        }
        assert_eq!(
            fs::metadata(&foreign).unwrap().uid(),
            0,
            "only the directory changes hands"
        );
    }

    #[test]
    fn a_link_and_a_missing_directory_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/", &link).unwrap();
        for path in [link, folder.path().join("none")] {
            prepare(&path, own()).unwrap_err();
        }
    }
}
