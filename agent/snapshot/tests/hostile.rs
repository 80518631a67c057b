//! Archives from an attacker, or from a full disk.

#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Read;

use proptest::{prelude::*, test_runner::TestCaseError};
use rdma_health_kernel::{
    fact::Errno,
    recording::{Answer, Failure, FileKind, Names, Question, Recording, Target},
};
use rdma_health_snapshot::{Error, Snapshot, verbs};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::{Builder, EntryType, Header};

fn small() -> Snapshot {
    let mut recording = Recording::default();
    recording.insert_file("/proc/cmdline", &b"iommu=pt\n"[..]);
    recording.insert_list("/sys/class/infiniband", vec!["mlx5_0".into()]);
    Snapshot {
        version: "1.2.3".into(),
        time: 1_700_000_000,
        live: false,
        anonymized: false,
        recording,
        probes: Vec::new(),
        history: None,
        expectations: None,
    }
}

fn bytes(snapshot: &Snapshot) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes).unwrap();
    bytes
}

/// The entries of a good archive, to be changed.
fn entries() -> Vec<(Header, Vec<u8>)> {
    let bytes = bytes(&small());
    let decoder = ruzstd::decoding::StreamingDecoder::new(bytes.as_slice()).unwrap();
    let mut archive = tar::Archive::new(decoder);
    archive
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.header().clone(), content)
        })
        .collect()
}

fn pack(entries: &[(Header, Vec<u8>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (header, content) in entries {
        builder.append(header, content.as_slice()).unwrap();
    }
    compress(&builder.into_inner().unwrap())
}

fn compress(archive: &[u8]) -> Vec<u8> {
    compress_to_vec(archive, CompressionLevel::Fastest)
}

/// An entry whose name is exactly these bytes, whatever they are.
fn entry(name: &[u8], kind: EntryType, content: &[u8]) -> (Header, Vec<u8>) {
    let mut header = Header::new_ustar();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    header.set_cksum();
    (header, content.to_vec())
}

fn refusal(archive: &[u8]) -> String {
    let refused = Snapshot::read(archive).map(|_| "it was read");
    refused.unwrap_err().to_string()
}

/// The manifest with one text replaced by another.
fn with_manifest(from: &str, to: &str) -> Vec<u8> {
    let mut entries = entries();
    let text = String::from_utf8(entries[0].1.clone()).unwrap();
    assert!(text.contains(from), "{text}");
    let text = text.replace(from, to);
    entries[0] = entry(b"manifest.json", EntryType::Regular, text.as_bytes());
    pack(&entries)
}

#[test]
fn a_good_archive_that_was_packed_again_is_read() {
    assert_eq!(Snapshot::read(pack(&entries()).as_slice()).unwrap(), small());
}

#[test]
fn an_entry_that_was_not_announced_is_refused_by_name() {
    for (name, reason) in [
        (&b"files/../../etc/passwd"[..], "leads out of the archive"),
        (b"/etc/passwd", "an absolute path"),
        (b"files/etc/passwd", "not announced"),
        (b"files/\xff\xfe", "not UTF-8"),
        (b"files/proc/cmdline", "there twice"),
    ] {
        let mut entries = entries();
        entries.push(entry(name, EntryType::Regular, b"iommu=pt\n"));
        let error = refusal(&pack(&entries));
        assert!(error.contains(reason), "{error}");
        let plain = String::from_utf8_lossy(&name[..5]).into_owned();
        assert!(error.contains(&plain), "{error}");
    }
}

#[test]
fn anything_but_a_regular_file_is_refused() {
    for (kind, word) in [
        (EntryType::Symlink, "symbolic link"),
        (EntryType::Link, "hard link"),
        (EntryType::Char, "device"),
        (EntryType::Block, "device"),
        (EntryType::Fifo, "FIFO"),
        (EntryType::Directory, "directory"),
        (EntryType::XHeader, "extended header"),
        (EntryType::GNULongName, "extended header"),
        (EntryType::GNUSparse, "unknown type"),
    ] {
        let mut entries = entries();
        let at = entries.len() - 1;
        entries.insert(at, entry(b"files/proc/cmdline", kind, b""));
        let error = refusal(&pack(&entries));
        assert!(
            error.contains(word) && error.contains("files/proc/cmdline"),
            "{error}"
        );
    }
}

#[test]
fn an_archive_cut_anywhere_is_refused() {
    let whole = bytes(&small());
    for cut in 0..whole.len() {
        assert!(Snapshot::read(&whole[..cut]).is_err(), "cut at {cut}");
    }
    let entries = entries();
    for count in 0..entries.len() {
        let error = refusal(&pack(&entries[..count]));
        assert!(
            error.contains(".json") || error.contains("files/"),
            "{count}: {error}"
        );
    }
}

#[test]
fn data_after_the_end_is_refused() {
    let mut more = bytes(&small());
    more.push(0);
    assert!(refusal(&more).contains("after the end"));
    let decoder = ruzstd::decoding::StreamingDecoder::new(&*bytes(&small())).map(|mut decoder| {
        let mut archive = Vec::new();
        decoder.read_to_end(&mut archive).unwrap();
        archive
    });
    let mut archive = decoder.unwrap();
    archive.extend_from_slice(b"more");
    assert!(refusal(&compress(&archive)).contains("after the end"));
}

#[test]
fn other_files_are_told_apart() {
    for other in [
        &b""[..],
        b"\x28\xb5",
        b"\x1f\x8b\x08\0\0\0\0\0",
        b"PK\x03\x04",
        b"{}",
    ] {
        assert!(matches!(Snapshot::read(other), Err(Error::NotCompressed)));
    }
    for other in [&b""[..], b"not a tar archive", &[0; 2048]] {
        let error = refusal(&compress(other));
        assert!(
            error.contains("not a snapshot") || error.contains("manifest"),
            "{error}"
        );
    }
    let error = refusal(&pack(&[entry(b"passwd", EntryType::Regular, b"root")]));
    assert!(error.contains("expected manifest.json"), "{error}");
    let error = refusal(&with_manifest("rdma-health snapshot", "something else"));
    assert!(error.contains("not a snapshot"), "{error}");
}

#[test]
fn a_snapshot_of_the_future_is_refused_even_where_its_form_is_another() {
    let text = br#"{"format":"rdma-health snapshot","schema":5,"version":"9.0.0","answers":"elsewhere"}"#;
    let error = refusal(&pack(&[entry(b"manifest.json", EntryType::Regular, text)]));
    assert!(error.contains("version 5") && error.contains("9.0.0"), "{error}");
}

#[test]
fn answers_that_make_no_sense_are_refused() {
    for (from, to, reason) in [
        ("\"/proc/cmdline\"", "\"/proc/../cmdline\"", "leads out"),
        ("\"/proc/cmdline\"", "\"proc/cmdline\"", "not an absolute path"),
        ("\"/proc/cmdline\"", "\"/proc/\\u0000\"", "a NUL character"),
        (
            "\"bytes\": 9",
            "\"bytes\": 99999999999",
            "longer than the maximum size",
        ),
        ("\"bytes\": 9", "\"bytes\": 10", "9 bytes, expected 10"),
        (
            "\"bytes\": 9",
            "\"real_path\": \"x\"",
            "does not match the question",
        ),
        ("\"bytes\": 9", "\"failed\": {\"errno\": 0}", "not an errno"),
        (
            "\"bytes\": 9",
            "\"bytes\": 9, \"failed\": \"too_long\"",
            "manifest.json",
        ),
        (
            "\"read\": \"/proc/cmdline\"",
            "\"kubelet\": {\"method\": \"\\u001b[31m\"}",
            "words that no reader",
        ),
        (
            "\"list\": \"/sys",
            "\"read\": \"/sys",
            "does not match the question",
        ),
        ("\"bytes\": 9", "\"bytes\": -1", "manifest.json"),
        ("\"mlx5_0\"", "\"../../etc\"", "invalid in a directory"),
        ("\"/sys/class/infiniband\"", "\"/proc/cmdline\"", ""),
    ] {
        let archive = with_manifest(from, to);
        if reason.is_empty() {
            // Two questions about one path are not a contradiction.
            Snapshot::read(archive.as_slice()).unwrap();
            continue;
        }
        let error = refusal(&archive);
        assert!(error.contains(reason), "{error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn bombs_are_refused_before_they_go_off() {
    // A file of zeroes as large as all may be: swells a thousandfold.
    let zeroes = vec![0; 40 << 20];
    let mut entries = entries();
    entries[1] = entry(b"probes.json", EntryType::Regular, &zeroes);
    let error = refusal(&pack(&entries));
    assert!(error.contains("are allowed") || error.contains("bomb"), "{error}");
    // The same, announced as small: the rest is met between the entries.
    let error = refusal(&compress(&[pack_plain(&self::entries()), zeroes].concat()));
    assert!(error.contains("bomb"), "{error}");
    // One that does not swell: too long in all.
    let mut plain = pack_plain(&self::entries());
    plain.extend_from_slice(&vec![0; 70 << 20]);
    let error = refusal(&compress_to_vec(plain.as_slice(), CompressionLevel::Uncompressed));
    assert!(error.contains("64 MiB"), "{error}");
}

fn pack_plain(entries: &[(Header, Vec<u8>)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (header, content) in entries {
        builder.append(header, content.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn a_window_larger_than_a_decoder_must_have_is_refused() {
    // Magic, descriptor, window of 1 GiB, one empty last block.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3, 0x01, 0x00, 0x00];
    let error = refusal(&frame);
    assert!(error.to_lowercase().contains("window"), "{error}");
}

#[test]
fn a_million_entries_are_refused_at_the_first_that_is_too_many() {
    let mut entries = entries();
    let more = entry(b"files/x", EntryType::Regular, b"");
    entries.extend(std::iter::repeat_n(more, 100_000));
    assert!(refusal(&pack(&entries)).contains("not announced"));

    let answer = r#"{"path":"/x","ask":"read","error":"too_long"},"#;
    let manifest = format!(
        r#"{{"format":"rdma-health snapshot","schema":1,"version":"1","time":0,"live":false,"anonymized":false,"answers":[{}]}}"#,
        answer.repeat(300_000).trim_end_matches(',')
    );
    let plain = pack_plain(&[entry(b"manifest.json", EntryType::Regular, manifest.as_bytes())]);
    let error = refusal(&compress_to_vec(plain.as_slice(), CompressionLevel::Uncompressed));
    assert!(error.contains("more than 200000 entries"), "{error}");
    let huge = vec![b' '; 25 << 20];
    let error = refusal(&pack(&[entry(b"manifest.json", EntryType::Regular, &huge)]));
    assert!(error.contains("are allowed") || error.contains("bomb"), "{error}");
}

/// The archive is refused with a reason, or holds what the good one holds.
fn assert_noticed_or_harmless(archive: &[u8]) -> Result<(), TestCaseError> {
    match Snapshot::read(archive) {
        Ok(snapshot) => prop_assert_eq!(snapshot, small()),
        Err(error) => prop_assert!(!error.to_string().trim().is_empty()),
    }
    Ok(())
}

#[test]
fn one_flipped_bit_is_noticed_or_harmless() {
    let whole = bytes(&small());
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut archive = whole.clone();
            archive[at] ^= 1 << bit;
            assert_noticed_or_harmless(&archive).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_refused(noise: Vec<u8>, good_start: bool) {
        let mut archive = if good_start { vec![0x28, 0xb5, 0x2f, 0xfd] } else { Vec::new() };
        archive.extend(noise);
        prop_assert!(Snapshot::read(archive.as_slice()).is_err());
    }

    #[test]
    fn one_changed_byte_is_noticed_or_harmless(at: prop::sample::Index, value: u8) {
        let mut archive = bytes(&small());
        let at = at.index(archive.len());
        archive[at] = value;
        assert_noticed_or_harmless(&archive)?;
    }

    #[test]
    fn whatever_manifest_is_read_is_written_and_read_again_as_the_same(at: prop::sample::Index, text in "[0-9a-z ]{0,3}|\\PC{0,12}") {
        let mut entries = entries();
        let mut manifest = String::from_utf8(entries[0].1.clone()).unwrap();
        let places: Vec<_> = manifest.char_indices().map(|(at, _)| at).collect();
        manifest.insert_str(places[at.index(places.len())], &text);
        entries[0] = entry(b"manifest.json", EntryType::Regular, manifest.as_bytes());
        if let Ok(read) = Snapshot::read(pack(&entries).as_slice()) {
            prop_assert_eq!(Snapshot::read(bytes(&read).as_slice()).unwrap(), read);
        }
    }
}

/// The archive with something else in place of one of its documents.
fn with_document(name: &str, text: &str) -> Vec<u8> {
    let mut entries = entries();
    let place = entries
        .iter()
        .position(|(header, _)| &*header.path_bytes() == name.as_bytes())
        .unwrap();
    entries[place] = entry(name.as_bytes(), EntryType::Regular, text.as_bytes());
    pack(&entries)
}

fn with_history(text: &str) -> Vec<u8> {
    with_document("history.json", text)
}

/// A short text can be a large tree: seven bytes of it become hundreds.
#[test]
fn a_document_that_swells_in_memory_is_refused_by_its_length() {
    let swelling = |bytes: usize| format!("[{}0]", r#"{"":0},"#.repeat(bytes / 7 + 1));
    for (name, most) in [("probes.json", 2 << 20), ("expectations.json", 1 << 20)] {
        let error = refusal(&with_document(name, &swelling(most)));
        assert!(
            error.contains(name) && error.contains(&format!("{most} are allowed")),
            "{error}"
        );
    }
    let expected = swelling(1000);
    let snapshot = Snapshot::read(with_document("expectations.json", &expected).as_slice()).unwrap();
    assert!(snapshot.expectations.is_some());
}

/// The devices that libibverbs may have said are there: one port with so many GIDs.
fn devices(gids: usize) -> String {
    let gid = r#"{"index":0,"gid":"::1","kind":"IB","netdev_index":null}"#;
    let gids = vec![gid; gids].join(",");
    format!(
        r#"{{"x":{{"device":{{"name":"x","node_guid":1,"firmware":"","vendor_id":1,"vendor_part_id":1,"max_mr_size":1,"ports":[{{"number":1,"state":4,"phys_state":5,"link_layer":2,"active_mtu":1024,"max_mtu":4096,"lid":0,"sm_lid":0,"gid_table_len":9,"gids":[{gids}]}}]}}}}}}"#
    )
}

/// The archive in which libibverbs said this.
fn with_verbs(text: &str) -> Vec<u8> {
    let mut snapshot = small();
    let said = Answer::Bytes(text.as_bytes().into());
    snapshot.recording.insert(Question::VerbsDevices, said);
    bytes(&snapshot)
}

/// What was said is a tree of devices, ports and GIDs or it is refused where it is something else, before the rest of it
/// is in memory.
#[test]
fn what_libibverbs_cannot_have_said_is_refused() {
    for (text, reason) in [
        (r#"{"x":[0,0,0]}"#, "line 1"),
        (r#"{"x":{"device":{}}}"#, "missing field"),
        ("[]", "invalid type"),
        (&devices(70_000), "more than 65536 entries"),
    ] {
        for (name, archive) in [
            ("documents/", with_verbs(text)),
            ("verbs.json", of_version(2, text)),
        ] {
            let error = refusal(&archive);
            assert!(
                error.contains(name) && error.contains(reason),
                "{text:.40}: {error}"
            );
        }
    }
    // All that can have been said is read back.
    for text in [
        "{}",
        r#"{"x":{"error":{"device":"x","call":"y","errno":5}}}"#,
        // As a person may have called a device.
        r#"{"unread":{"error":{"device":"x","call":"y","errno":5}}}"#,
        &devices(10_000),
    ] {
        let said = |archive: Vec<u8>| {
            let snapshot = Snapshot::read(archive.as_slice()).unwrap();
            assert_eq!(Snapshot::read(bytes(&snapshot).as_slice()).unwrap(), snapshot);
            verbs::replay(&snapshot.recording)
        };
        let now = said(with_verbs(text));
        assert!(now.known().is_some(), "{text:.40}");
        assert_eq!(said(of_version(2, text)), now, "{text:.40}");
    }
}

#[test]
fn a_document_that_is_none_is_refused() {
    let mut snapshot = small();
    let question = Question::Kubelet {
        method: "List".into(),
    };
    let answer = Answer::Bytes(b"no document".as_slice().into());
    snapshot.recording.insert(question, answer);
    assert!(refusal(&bytes(&snapshot)).contains("documents/"));
}

#[test]
fn a_past_that_nobody_could_have_recorded_is_refused() {
    let past = |boots: &str, ports: &str| {
        with_history(&format!(
            r#"{{"schema":1,"boots":[{boots}],"ports":{{{ports}}},"functions":{{}}}}"#
        ))
    };
    assert!(Snapshot::read(past("", "").as_slice()).unwrap().history.is_some());
    let boot = |id: &str| {
        format!(
            r#"{{"id":"{id}","first":0,"last":0,"kernel":null,"arguments":[],"domains":{{}},"hcas":{{}}}}"#
        )
    };
    let downs = vec!["18446744073709551615"; 100_000].join(",");
    let port = format!(
        r#""x:1":{{"last":0,"counters":{{"samples":[]}},"downs":[{downs}],"down_count":null,"active":null,"measured":[],"rate":null}}"#
    );
    for (archive, reason) in [
        (past(&vec![boot("x"); 5000].join(","), ""), "5000 boots"),
        (past(&boot(&"x".repeat(1 << 20)), ""), "bytes in a text"),
        (past("", &port), "100000 times that a port went down"),
        (
            with_history(r#"{"schema":1,"boots":[],"ports":{},"functions":[]}"#),
            "invalid type",
        ),
        (
            with_history(r#"{"schema":7,"boots":[],"ports":{},"functions":{}}"#),
            "version 7",
        ),
        (with_history("no history"), "expected"),
    ] {
        let error = refusal(&archive);
        assert!(
            error.contains(reason) && error.contains("history.json"),
            "{error}"
        );
    }
}

/// What version 1 or 2 made of a node of which every kind of answer was recorded.
fn of_version(schema: u32, verbs: &str) -> Vec<u8> {
    let answers = r#"[
        {"path":"/proc/cmdline","ask":"read","bytes":9},
        {"path":"/proc/modules","ask":"read","error":"not_collected"},
        {"path":"/sys/class/infiniband","ask":"list","names":["mlx5_0"],"names_not_text":["\ufffd"]},
        {"path":"/sys/class/infiniband","ask":"link","error":{"errno":22}},
        {"path":"/sys/class/net/eth0","ask":"link","target":"../../x"},
        {"path":"/sys/class/net/eth1","ask":"link","target_not_text":"\ufffd"},
        {"path":"/sys/class/net/eth0","ask":"real_path","target":"/sys/x"},
        {"path":"/dev/kmsg","ask":"read","error":{"not_a_file":"a FIFO"}}
    ]"#;
    let manifest = format!(
        r#"{{"format":"rdma-health snapshot","schema":{schema},"version":"1.2.3","time":1700000000,"live":false,"anonymized":false,"hung":{{"iommu":7}},"answers":{answers}}}"#
    );
    let mut files = vec![
        ("manifest.json", manifest.as_str()),
        ("verbs.json", verbs),
        ("probes.json", "[]"),
        ("expectations.json", "null"),
        ("history.json", "null"),
        ("files/proc/cmdline", "iommu=pt\n"),
    ];
    files.retain(|(name, _)| schema > 1 || *name != "history.json");
    let entries = files
        .iter()
        .map(|(name, text)| entry(name.as_bytes(), EntryType::Regular, text.as_bytes()));
    pack(&entries.collect::<Vec<_>>())
}

#[test]
fn archives_of_earlier_versions_are_read() {
    let mut expected = small();
    let recording = &mut expected.recording;
    recording.hung.insert("iommu".into(), 7);
    let names = Names {
        text: vec!["mlx5_0".into()],
        not_text: vec!["\u{fffd}".into()],
    };
    let path = str::to_owned;
    for (question, answer) in [
        (
            Question::Read(path("/proc/modules")),
            Answer::Failed(Failure::NotCollected),
        ),
        (
            Question::List(path("/sys/class/infiniband")),
            Answer::Names(names),
        ),
        (
            Question::Link(path("/sys/class/infiniband")),
            Answer::Failed(Failure::Errno(Errno::INVAL)),
        ),
        (
            Question::Link(path("/sys/class/net/eth0")),
            Answer::Target(Target::Text("../../x".into())),
        ),
        (
            Question::Link(path("/sys/class/net/eth1")),
            Answer::Target(Target::NotText("\u{fffd}".into())),
        ),
        (
            Question::RealPath(path("/sys/class/net/eth0")),
            Answer::RealPath("/sys/x".into()),
        ),
        (
            Question::Read(path("/dev/kmsg")),
            Answer::Failed(Failure::NotAFile(FileKind::Fifo)),
        ),
    ] {
        recording.insert(question, answer);
    }
    for schema in [1, 2] {
        assert_eq!(
            Snapshot::read(of_version(schema, "null").as_slice()).unwrap(),
            expected
        );
    }
    let failed = r#"{"unread":{"source":"x","kind":"helper_hung","detail":"y"}}"#;
    let snapshot = Snapshot::read(of_version(2, failed).as_slice()).unwrap();
    let unread = verbs::replay(&snapshot.recording);
    assert_eq!(serde_json::to_string(&unread).unwrap(), failed);
    assert_eq!(Snapshot::read(bytes(&snapshot).as_slice()).unwrap(), snapshot);
    let error = refusal(&of_version(2, r#"{"unread":{"source":"x"},"y":0}"#));
    assert!(error.contains("verbs.json"), "{error}");
}
