//! A number of the protocol's own source, so that two builds that differ in it refuse each other even if both have the same version.

/// Every file that decides what messages look like.
const SOURCES: [&[u8]; 14] = [
    include_bytes!("bounded.rs"),
    include_bytes!("end.rs"),
    include_bytes!("errno.rs"),
    include_bytes!("facts.rs"),
    include_bytes!("frame.rs"),
    include_bytes!("gid.rs"),
    include_bytes!("host.rs"),
    include_bytes!("kubelet.rs"),
    include_bytes!("lib.rs"),
    include_bytes!("message.rs"),
    include_bytes!("path.rs"),
    include_bytes!("probe.rs"),
    include_bytes!("runtime.rs"),
    include_bytes!("status.rs"),
];

/// The fingerprint of this build: FNV-1a over all sources, without the highest bits, which not every reader of JSON keeps.
pub const FINGERPRINT: u64 = of(&SOURCES) & ((1 << 48) - 1);

const fn of(sources: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    // Iterators do not work in constants.
    let mut file = 0;
    while file < sources.len() {
        let mut at = 0;
        while at < sources[file].len() {
            hash = (hash ^ sources[file][at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        file += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_file_that_decides_about_messages_is_in_it() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let names = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let mut missing: Vec<_> = names
            .filter(|name| {
                let source = fs::read(format!("{folder}/{}", name.display())).unwrap();
                !SOURCES.contains(&source.as_slice())
            })
            .collect();
        missing.sort();
        assert_eq!(missing, ["fingerprint.rs", "text.rs"]);
    }

    #[test]
    fn one_changed_byte_changes_it() {
        assert_eq!(
            of(&[b"foobar"]),
            0x8594_4171_f739_67e8,
            "the published value of FNV-1a"
        );
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"ab", b"d"]));
    }
}
