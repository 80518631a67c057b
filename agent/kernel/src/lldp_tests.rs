use std::{collections::BTreeSet, sync::Arc};

use proptest::prelude::*;

use super::*;
use crate::{recording::Recording, root::Root};

/// A frame as IEEE 802.1AB (clause 8) lays it out, and as a switch sends it: chassis id and port id, lifetime, port description, system name,
/// an organisation's own part, end.
fn frame(parts: &[(u16, &[u8])]) -> Vec<u8> {
    let mut frame = b"\x01\x80\xc2\x00\x00\x0e\x52\x54\x00\x00\x00\x01\x88\xcc".to_vec();
    for (kind, value) in parts {
        frame.extend((kind << 9 | u16::try_from(value.len()).unwrap()).to_be_bytes());
        frame.extend(*value);
    }
    frame
}

const LEAF: [(u16, &[u8]); 7] = [
    (1, b"\x04\x52\x54\x00\x12\x34\x56"),
    (2, b"\x05Ethernet12/1"),
    (3, b"\x00\x78"),
    (4, b"gpu-17 rail 3"),
    (5, b"leaf-3"),
    (127, b"\x00\x80\xc2\x01\x00\x01"),
    (0, b""),
];

fn file(frames: &[Vec<u8>]) -> Vec<u8> {
    let one = |frame: &Vec<u8>| [&(frame.len() as u64).to_le_bytes()[..], frame].concat();
    frames.iter().flat_map(one).collect()
}

fn read(files: &[(&str, Vec<u8>)]) -> (Lldp, usize) {
    let mut recording = Recording::default();
    recording.insert_list(
        DIRECTORY,
        files.iter().map(|(index, _)| (*index).to_owned()).collect(),
    );
    for (netdev, index) in [("eth0", "4\n"), ("eth1", "5\n")] {
        recording.insert_file(&format!("/sys/class/net/{netdev}/ifindex"), index.as_bytes());
    }
    for (index, content) in files {
        recording.insert_file(&format!("{DIRECTORY}/{index}"), content.as_slice());
    }
    let root = Root::replay(Arc::new(recording), true);
    let scope = Scope::new(&root);
    let known = Known {
        netdevs: BTreeSet::from(["eth0".to_owned(), "eth1".to_owned()]),
        ..Known::default()
    };
    (Lldp::read(&scope, &known), scope.finish().len())
}

fn of(lldp: &Lldp, netdev: &str) -> Option<(String, String)> {
    let neighbour = lldp.netdevs.known()?.get(netdev)?;
    Some((neighbour.switch.clone(), neighbour.port.clone()))
}

#[test]
fn a_neighbour_is_named_by_its_system_name_or_else_by_its_chassis() {
    let nameless: Vec<_> = LEAF.into_iter().filter(|(kind, _)| *kind != 5).collect();
    let (lldp, failed) = read(&[("4", file(&[frame(&LEAF)])), ("5", file(&[frame(&nameless)]))]);
    assert_eq!(failed, 0);
    assert_eq!(of(&lldp, "eth0"), Some(("leaf-3".into(), "Ethernet12/1".into())));
    assert_eq!(
        of(&lldp, "eth1"),
        Some(("52:54:00:12:34:56".into(), "Ethernet12/1".into()))
    );
}

#[test]
fn a_chassis_or_port_with_a_network_address_is_named_by_it() {
    let v6 = [
        b"\x04\x02".as_slice(),
        &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
    ]
    .concat();
    let by_address = [
        (1, b"\x05\x01\x0a\x00\x00\x07".as_slice()),
        (2, v6.as_slice()),
        (0, b""),
    ];
    let unknown = [(1, b"\x05\x06\xab\xcd".as_slice()), (2, b"\x05eth7"), (0, b"")];
    let (lldp, failed) = read(&[
        ("4", file(&[frame(&by_address)])),
        ("5", file(&[frame(&unknown)])),
    ]);
    assert_eq!(failed, 0);
    assert_eq!(of(&lldp, "eth0"), Some(("10.0.0.7".into(), "fd00::9".into())));
    assert_eq!(of(&lldp, "eth1"), Some(("ab:cd".into(), "eth7".into())));
}

#[test]
fn a_link_that_went_down_keeps_the_neighbour_that_it_had() {
    let (up, _) = read(&[("4", file(&[frame(&LEAF)]))]);
    let (down, _) = read(&[]);
    let kept = down.completed(&up);
    assert_eq!(of(&kept, "eth0"), Some(("leaf-3".into(), "Ethernet12/1".into())));
    assert!(kept.netdevs.known().unwrap()["eth0"].is_past);
}

#[test]
fn several_neighbours_are_counted_and_many_are_no_damage() {
    for (number, others, words) in [
        (1, 0, "port Ethernet12/1 of leaf-3"),
        (2, 1, "port Ethernet12/1 of leaf-3 (and 1 other LLDP neighbour)"),
        (5, 4, "port Ethernet12/1 of leaf-3 (and 4 other LLDP neighbours)"),
        (
            20,
            15,
            "port Ethernet12/1 of leaf-3 (and 15 or more other LLDP neighbours)",
        ),
        (
            300,
            15,
            "port Ethernet12/1 of leaf-3 (and 15 or more other LLDP neighbours)",
        ),
    ] {
        let (lldp, failed) = read(&[("4", file(&vec![frame(&LEAF); number]))]);
        let neighbour = &lldp.netdevs.known().unwrap()["eth0"];
        assert_eq!((neighbour.others, failed), (others, 0), "{number}");
        assert_eq!(neighbour.to_string(), words);
    }
}

#[test]
fn no_daemon_is_absent_and_a_damaged_file_is_unread() {
    let root = Root::replay(Arc::default(), true);
    let scope = Scope::new(&root);
    assert_eq!(Lldp::read(&scope, &Known::default()), Lldp::default());
    assert!(scope.finish().is_empty());
    let whole = file(&[frame(&LEAF)]);
    let endless = [u64::MAX.to_le_bytes().as_slice(), &[0; 64]].concat();
    for damaged in [whole[..whole.len() - 1].to_vec(), whole[..5].to_vec(), endless] {
        let (lldp, failed) = read(&[("4", damaged)]);
        assert_eq!((of(&lldp, "eth0"), failed), (None, 1));
    }
    // A part that is longer than the frame.
    let cut = file(&[frame(&LEAF)[..20].to_vec()]);
    assert_eq!(
        read(&[("4", cut)]),
        (
            Lldp {
                netdevs: Fact::Known(BTreeMap::new())
            },
            0
        )
    );
}

#[test]
fn replaced_names_are_read_back_and_nothing_else_is_left() {
    let replaced = replaced(&file(&[frame(&LEAF), frame(&LEAF)]), |name| {
        format!("x{}", name.len())
    })
    .unwrap();
    for word in ["leaf-3", "Ethernet12", "gpu-17", "\x52\x54\x00\x12"] {
        assert!(
            !replaced.windows(word.len()).any(|part| part == word.as_bytes()),
            "{word}"
        );
    }
    let (lldp, _) = read(&[("4", replaced)]);
    assert_eq!(of(&lldp, "eth0"), Some(("x6".into(), "x12".into())));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0..90_usize, byte: u8) {
        let _ = (neighbour(&bytes), frames(&bytes), replaced(&bytes, str::to_owned));
        let mut changed = file(&[frame(&LEAF)]);
        if let Some(one) = changed.get_mut(at) {
            *one = byte;
        }
        let _ = replaced(&changed, str::to_owned);
    }
}

#[test]
fn the_excerpt_of_a_file_has_the_names_of_the_first_neighbour() {
    let tree = tempfile::tempdir().unwrap();
    let folder = tree.path().join(&DIRECTORY[1..]);
    std::fs::create_dir_all(&folder).unwrap();
    let mut spine = LEAF;
    spine[4] = (5, b"spine-1");
    let whole = file(&[frame(&[(0, b"")]), frame(&LEAF), frame(&spine)]);
    std::fs::write(folder.join("4"), &whole).unwrap();
    std::fs::write(folder.join("5"), &whole[..100]).unwrap();
    let root = Root::open(tree.path()).unwrap();
    let scope = Scope::new(&root);
    assert_eq!(saved(&scope), Fact::Known(vec![4, 5]));
    let excerpts = [4, 5].map(|index| nearest(&scope, index).known().cloned().unwrap());
    assert!(!excerpts[0].windows(4).any(|bytes| bytes == b"\x01\x80\xc2\x00"));
    let [good, damaged] = excerpts;
    let (lldp, failed) = read(&[("4", good), ("5", damaged)]);
    assert_eq!(lldp.netdevs.known().unwrap()["eth0"].others, 1);
    assert_eq!(
        (of(&lldp, "eth0"), failed),
        (
            Some(("leaf-3".into(), "Ethernet12/1".into())),
            1 // a damaged file stays damaged
        )
    );
    assert!(nearest(&scope, 6).is_absent());
}
