//! Empty cages, and how long answers stay valid.

use std::sync::Arc;

use super::*;
use crate::{
    recording::{self, Answer, Recording},
    root::Root,
};

const NETDEV: &str = "eth0";

/// What is read of a module, and what is reported as unread, if the link and the module answer so.
fn read(link: &str, memory: Answer) -> (Fact<Module>, Vec<String>) {
    let mut recording = Recording::default();
    let question = |command: &str| recording::Question::Netlink {
        family: FAMILY.into(),
        command: command.into(),
        object: NETDEV.into(),
    };
    recording.insert(question("linkstate-get"), Answer::Bytes(link.as_bytes().into()));
    recording.insert(question("module-eeprom-get"), memory);
    let root = Root::replay(Arc::new(recording), true);
    let scope = Scope::new(&root);
    let found = module(&scope, &Netlink::new(&scope), NETDEV);
    let misses = scope.finish().into_iter().map(|miss| miss.unread);
    let misses = misses.filter(|unread| unread.source.starts_with("netlink"));
    (found, misses.map(|unread| unread.to_string()).collect())
}

const UP: &str = r#"[{"link": 1}]"#;
const DOWN: &str = r#"[{"link": 0}]"#;
const NO_CABLE: &str = r#"[{"link": 0, "ext-state": 4}]"#;

fn no_byte() -> Answer {
    let pages = br#"[{"address": 80, "page": 0, "offset": 0, "data": ""}]"#;
    Answer::Bytes(pages.as_slice().into())
}

fn failed(errno: Errno) -> Answer {
    Answer::Failed(Failure::Errno(errno))
}

/// `mlx5_core` answers EIO, and before Linux 6.18 success without a byte.
#[test]
fn an_empty_cage_is_no_module_and_no_failure() {
    for link in [DOWN, NO_CABLE] {
        for memory in [no_byte(), failed(Errno::IO), failed(Errno::NODEV)] {
            assert_eq!(read(link, memory), (Fact::Absent, vec![]), "{link}");
        }
    }
    // A module that a link goes through is there.
    let (found, misses) = read(UP, no_byte());
    assert!(found.unread().is_some());
    assert!(
        misses[0].contains("the driver returned no byte of the module's memory"),
        "{misses:?}"
    );
    let (found, misses) = read(UP, failed(Errno::IO));
    assert!(
        found.unread().is_some() && misses[0].ends_with("(EIO)"),
        "{misses:?}"
    );
    // Nothing is known of the link.
    assert!(read("[]", failed(Errno::IO)).0.unread().is_some());
    // Other failures have nothing to do with the cage.
    assert!(read(DOWN, failed(Errno::TIMEDOUT)).0.unread().is_some());
}

/// `mlx5_core` logs an error for each question about the memory of an empty cage.
#[test]
fn a_cage_that_may_be_empty_is_rarely_asked_again() {
    let page = |length: usize| ModulePage {
        address: 0x50,
        page: 0,
        offset: 0,
        data: vec![0x11; length],
        errno: 0,
    };
    for empty in [Ok(vec![page(0)]), Ok(vec![]), Err(Failure::Errno(Errno::IO))] {
        assert_eq!(valid(&empty, Some(Plugged::Unknown)), EMPTY_VALID);
        // A module was plugged in meanwhile.
        assert_eq!(valid(&empty, Some(Plugged::Yes)), FAILURE_VALID);
        assert_eq!(valid(&empty, None), FAILURE_VALID);
    }
    assert_eq!(valid(&Ok(vec![page(64)]), Some(Plugged::Unknown)), VALID);
}

#[test]
fn a_link_that_changed_makes_the_memory_of_its_module_old() {
    let state = |plugged, ups: &str, downs: &str| LinkState {
        plugged: Some(plugged),
        counts: [Some(ups.to_owned()), Some(downs.to_owned())],
    };
    let remembered = Remembered {
        since: Instant::now(),
        link: state(Plugged::Yes, "1", "0"),
        answer: Ok(vec![ModulePage {
            address: 0x50,
            page: 0,
            offset: 0,
            data: vec![0x11; 64],
            errno: 0,
        }]),
    };
    let minute = Duration::from_secs(60);
    assert!(remembered.is_valid(&state(Plugged::Yes, "1", "0"), minute));
    assert!(!remembered.is_valid(&state(Plugged::Yes, "1", "0"), 6 * minute));
    // It is down, or it went down and came up between two readings.
    assert!(!remembered.is_valid(&state(Plugged::Unknown, "1", "1"), minute));
    assert!(!remembered.is_valid(&state(Plugged::Yes, "2", "1"), minute));
}

#[test]
fn the_state_of_a_link_is_what_its_network_device_counts() {
    let tree = tempfile::tempdir().unwrap();
    let directory = tree.path().join("sys/class/net/eth0");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("carrier_up_count"), "3\n").unwrap();
    let root = Root::open(tree.path()).unwrap();
    let scope = Scope::new(&root);
    let link = LinkState::of(&scope, NETDEV, None);
    assert_eq!(link.counts, [Some("3".to_owned()), None]);
    assert!(scope.finish().is_empty(), "an old kernel does not count them");
}
