use std::path::Path;

use super::capture;
use crate::tree::{Entry, Tree};

fn tree(lines: &[String]) -> Tree {
    Tree::parse(&lines.join("\n")).unwrap()
}

#[test]
fn a_captured_tree_is_captured_again_unchanged() {
    let before = tree(&[
        "link sys/class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0".into(),
        "file 444 sys/devices/virtual/infiniband/rxe0/parent\n|eth0".into(),
        "link sys/class/net/eth0 -> ../../devices/virtual/net/eth0".into(),
        "file 444 sys/devices/virtual/net/eth0/mtu\n|1500".into(),
        "file 444 proc/cmdline\n|iommu=pt".into(),
        "file 644 dev/kmsg\n|6,0,0,-;Command line: iommu=pt".into(),
        "dir 755 sys/bus/pci/devices".into(),
        "dir 755 sys/kernel/iommu_groups".into(),
    ]);
    let root = before.unpack().unwrap();
    assert_eq!(capture(root.path()).unwrap().to_string(), before.to_string());
}

#[test]
fn empty_entries_of_a_gid_table_are_left_out_beyond_the_first() {
    let port = "sys/class/infiniband/rxe0/ports/1";
    let mut before = Tree::default();
    before
        .insert(
            "sys/class/infiniband/rxe0",
            Entry::Link {
                target: "../../devices/rxe0".into(),
            },
        )
        .unwrap();
    for index in 0..64 {
        let gid = if index == 40 { "fe80::1\n" } else { "0000:0000\n" };
        before
            .write(&format!("sys/devices/rxe0/ports/1/gids/{index}"), gid)
            .unwrap();
    }
    let root = before.unpack().unwrap();
    let after = capture(root.path()).unwrap();
    assert!(
        after.get(&format!("{port}/gids/40")).is_none(),
        "nothing lies below a link"
    );
    let kept: Vec<_> = after
        .entries()
        .filter(|(path, _)| path.contains("/gids/"))
        .collect();
    assert_eq!(kept.len(), 17);
}

#[test]
fn a_long_file_is_cut() {
    let mut before = Tree::default();
    before.write("proc/modules", "x".repeat(100_000)).unwrap();
    let root = before.unpack().unwrap();
    let after = capture(root.path()).unwrap();
    let Some(Entry::File { content, cut, .. }) = after.get("proc/modules") else {
        panic!("{after}")
    };
    assert_eq!((content.len(), *cut), (64 << 10, true));
}

#[test]
fn the_machine_at_hand_can_be_captured() {
    let tree = capture(Path::new("/")).unwrap();
    assert!(tree.get("proc/version").is_some());
    assert_eq!(Tree::parse(&tree.to_string()).unwrap(), tree);
}
