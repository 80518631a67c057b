use std::fs;
use std::os::unix::fs::MetadataExt as _;

use proptest::prelude::*;

use rdma_health_kernel::{Fact, recording::Question, root::Scope};
use serde_json::Value;

use super::{Entry, Tree, unpack};

const SAMPLE: &str = r#"# A comment.

dir 755 sys/kernel/iommu_groups
error 444 EINVAL sys/class/infiniband/rxe0/ports/1/gid_attrs/types/7
file 444 sys/class/infiniband/rxe0/ports/1/rate
|10 Gb/sec (1X QDR)
file 400 sys/empty
file 644 sys/no newline at the end
|one
|two
\
file 644 sys/pci/config
=0000 8680
=0040 01
=0100
file 444 sys/long
|begins
~
link sys/class/net/eth0 -> ../../pci
answer netlink ethtool pause-get eth0
|{"rx": true,
| "tx": false}
answer netlink devlink port-get
|[]
\
answer verbs devices
|{}
answer kubelet List
|{"podResources": []}
failure EOPNOTSUPP netlink ethtool fec-get eth0
"#;

#[test]
fn unpacks_what_the_text_says() {
    let root = unpack(SAMPLE).unwrap();
    let read = |path: &str| fs::read(root.path().join(path));
    assert_eq!(
        read("sys/class/infiniband/rxe0/ports/1/rate").unwrap(),
        b"10 Gb/sec (1X QDR)\n"
    );
    assert_eq!(read("sys/no newline at the end").unwrap(), b"one\ntwo");
    assert_eq!(read("sys/long").unwrap(), b"begins\n");
    let config = read("sys/class/net/eth0/config").unwrap();
    assert_eq!(
        (config.len(), &config[..2], config[0x40]),
        (0x100, &[0x86, 0x80][..], 1)
    );
    assert_eq!(
        fs::metadata(root.path().join("sys/empty")).unwrap().mode() & 0o777,
        0o400
    );
    assert!(
        fs::read_dir(root.path().join("sys/kernel/iommu_groups"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn the_root_of_a_tree_answers_what_no_file_does() {
    let (folder, root) = Tree::parse(SAMPLE).unwrap().open().unwrap();
    let scope = Scope::new(&root);
    let ask =
        |question: Question| -> Fact<Value> { scope.service(question, || panic!("no tree has services")) };
    let netlink = |family: &str, command: &str, object: &str| Question::Netlink {
        family: family.into(),
        command: command.into(),
        object: object.into(),
    };
    let pause = ask(netlink("ethtool", "pause-get", "eth0"));
    assert_eq!(pause.known().unwrap()["rx"], true);
    assert_eq!(
        ask(netlink("devlink", "port-get", "")).known().unwrap(),
        &Value::Array(Vec::new())
    );
    let fec = ask(netlink("ethtool", "fec-get", "eth0"));
    assert_eq!(fec.unread().unwrap().kind.name(), "EOPNOTSUPP");
    assert!(ask(Question::VerbsDevices).known().is_some());
    let method = "List".to_owned();
    assert!(ask(Question::Kubelet { method }).known().is_some());
    // Its files are there as ever.
    let rate = scope.optional("/sys/class/infiniband/rxe0/ports/1/rate");
    assert_eq!(rate.known().unwrap(), "10 Gb/sec (1X QDR)");
    assert!(!folder.path().join("netlink").exists());
}

#[test]
fn an_unreadable_file_opens_and_fails_when_read() {
    let root = unpack(SAMPLE).unwrap();
    let path = root
        .path()
        .join("sys/class/infiniband/rxe0/ports/1/gid_attrs/types/7");
    let mut file = fs::File::open(path).unwrap();
    let error = std::io::Read::read(&mut file, &mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::IsADirectory);
}

#[test]
fn the_text_of_a_tree_is_sorted_and_gives_the_tree_back() {
    let tree = Tree::parse(SAMPLE).unwrap();
    let text = tree.to_string();
    assert_eq!(Tree::parse(&text).unwrap(), tree);
    assert_eq!(
        text.lines().next(),
        Some("error 444 EINVAL sys/class/infiniband/rxe0/ports/1/gid_attrs/types/7")
    );
    assert!(text.contains("=0000 8680"), "{text}");
}

#[test]
fn what_leads_out_of_the_tree_or_makes_no_sense_is_refused() {
    for (text, reason) in [
        ("file 644 ../etc/passwd", "inside the tree"),
        ("file 644 /etc/passwd", "inside the tree"),
        ("file 644 sys//class", "inside the tree"),
        ("link sys/a -> /etc", "out of the tree"),
        ("link sys/a -> ../../etc", "out of the tree"),
        ("link sys/a -> b/../../etc", "out of the tree"),
        ("link sys/a -> b\nfile 644 sys/a/c", "not a directory"),
        ("file 644 sys/a\nfile 644 sys/a", "twice"),
        ("file 9 sys/a", "octal"),
        ("file 4755 sys/a", "nine bits"),
        ("fifo 644 sys/a", "expected"),
        ("dir 755 sys/a\n|text", "only a file"),
        ("|text", "expected"),
        ("file 644 sys/a\n=00zz 00", "hexadecimal"),
        ("file 644 sys/a\n=0000 0", "two digits"),
        ("file 644 sys/a\n=0000 0000\n=0000 00", "rise"),
        ("file 644 sys/a\n=ffffffff", "too long"),
        ("file 644 sys/a\n~\n|text", "after the cut"),
        ("answer netlink ethtool", "expected `netlink"),
        ("answer ioctl eth0\n|{}", "expected `netlink"),
        ("answer netlink ethtool  eth0\n|{}", "not a plain question"),
        ("answer kubelet List\n|{", "not a JSON document"),
        ("answer kubelet List", "not a JSON document"),
        ("answer kubelet List\n|{}\n~", "must be whole"),
        ("answer kubelet List\n|{}\nanswer kubelet List\n|{}", "twice"),
        ("failure EWHATEVER kubelet List", "not the name of an errno"),
        ("failure EIO kubelet List\n|{}", "only a file"),
    ] {
        let message = format!("{:#}", Tree::parse(text).expect_err(text));
        assert!(
            message.contains(reason) && (message.contains("line") || reason == "not a directory"),
            "{message}"
        );
    }
}

#[test]
fn a_tree_can_be_changed_before_it_is_unpacked() {
    let mut tree = Tree::parse(SAMPLE).unwrap();
    tree.write("sys/kernel/iommu_groups/0/type", "DMA-FQ\n").unwrap();
    assert!(tree.remove("sys/class/infiniband"));
    assert!(!tree.remove("sys/class/infiniband"));
    let root = tree.unpack().unwrap();
    assert_eq!(
        fs::read_to_string(root.path().join("sys/kernel/iommu_groups/0/type")).unwrap(),
        "DMA-FQ\n"
    );
    assert!(!root.path().join("sys/class/infiniband").exists());
}

proptest! {
    #[test]
    fn any_content_comes_back_byte_for_byte(content: Vec<u8>, cut: bool, lines in "[a-z|=~\\\\\n\t]{0,40}") {
        let mut tree = Tree::default();
        tree.insert("bytes", Entry::File { mode: 0o644, content, cut }).unwrap();
        tree.insert("lines", Entry::File { mode: 0o444, content: lines.into_bytes(), cut }).unwrap();
        prop_assert_eq!(Tree::parse(&tree.to_string()).unwrap(), tree);
    }

    #[test]
    fn a_tree_of_any_text_is_written_as_text_of_the_same_tree(
        entries in proptest::collection::vec(
            "file [0-7]{3} [a-z]{3}\n([|][ -~]{0,4}\n|=[0-9a-f]{4}([0-9a-f]{2}){0,3}\n){0,3}(\\\\\n)?(~\n)?\
            |dir 7[0-7]{2} [a-z]{3}\n|error 444 EIO [a-z]{3}\n|link [a-z]{3} -> [a-z.]{1,3}\n|[ -~]{0,2}\n",
            0..5,
        ),
    ) {
        if let Ok(tree) = Tree::parse(&entries.concat()) {
            prop_assert_eq!(Tree::parse(&tree.to_string()).unwrap(), tree);
        }
    }
}
