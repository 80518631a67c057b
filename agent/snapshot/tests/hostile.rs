//! Archives that somebody made who means no good, or whose disk was full.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{collections::BTreeMap, io::Read, sync::Arc};

use proptest::prelude::*;
use rdma_health_node::{
    Fact,
    recording::{Names, Recording},
};
use rdma_health_snapshot::{Error, Snapshot};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tar::{Builder, EntryType, Header};

fn small() -> Snapshot {
    let mut recording = Recording::default();
    recording.entry("/proc/cmdline").read = Some(Ok(Arc::from(&b"iommu=pt\n"[..])));
    recording.entry("/sys/class/infiniband").list = Some(Ok(Names {
        text: vec!["mlx5_0".into()],
        not_text: Vec::new(),
    }));
    Snapshot {
        version: "1.2.3".into(),
        time: 1_700_000_000,
        live: false,
        anonymized: false,
        hung: BTreeMap::new(),
        recording,
        verbs: Fact::Absent,
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
        let told = refusal(&pack(&entries));
        assert!(told.contains(reason), "{told}");
        let plain = String::from_utf8_lossy(&name[..5]).into_owned();
        assert!(told.contains(&plain), "{told}");
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
        let told = refusal(&pack(&entries));
        assert!(
            told.contains(word) && told.contains("files/proc/cmdline"),
            "{told}"
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
        let told = refusal(&pack(&entries[..count]));
        assert!(
            told.contains(".json") || told.contains("files/"),
            "{count}: {told}"
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
        let told = refusal(&compress(other));
        assert!(
            told.contains("no snapshot") || told.contains("manifest"),
            "{told}"
        );
    }
    let told = refusal(&pack(&[entry(b"passwd", EntryType::Regular, b"root")]));
    assert!(told.contains("expected manifest.json"), "{told}");
    let told = refusal(&with_manifest("rdma-health snapshot", "something else"));
    assert!(told.contains("no snapshot"), "{told}");
}

#[test]
fn a_snapshot_of_the_future_is_refused_even_where_its_form_is_another() {
    let text = br#"{"format":"rdma-health snapshot","schema":3,"version":"9.0.0","answers":"elsewhere"}"#;
    let told = refusal(&pack(&[entry(b"manifest.json", EntryType::Regular, text)]));
    assert!(told.contains("version 3") && told.contains("9.0.0"), "{told}");
}

#[test]
fn answers_that_make_no_sense_are_refused() {
    for (from, to, reason) in [
        ("\"/proc/cmdline\"", "\"/proc/../cmdline\"", "leads out"),
        ("\"/proc/cmdline\"", "\"proc/cmdline\"", "not an absolute path"),
        ("\"/proc/cmdline\"", "\"/proc/\\u001b[31m\"", "control characters"),
        ("\"bytes\": 9", "\"bytes\": 99999999999", "longer than any file"),
        ("\"bytes\": 9", "\"bytes\": 10", "9 bytes where 10"),
        ("\"bytes\": 9", "\"target\": \"x\"", "does not fit"),
        ("\"bytes\": 9", "\"bytes\": -1", "manifest.json"),
        ("\"mlx5_0\"", "\"../../etc\"", "no directory can hold"),
        ("\"/sys/class/infiniband\"", "\"/proc/cmdline\"", ""),
    ] {
        let archive = with_manifest(from, to);
        if reason.is_empty() {
            // Two questions about one path are no contradiction.
            Snapshot::read(archive.as_slice()).unwrap();
            continue;
        }
        let told = refusal(&archive);
        assert!(told.contains(reason), "{told}");
        assert!(!told.contains('\u{1b}'), "{told}");
    }
}

#[test]
fn bombs_are_refused_before_they_go_off() {
    // A file of zeroes as large as all may be: swells a thousandfold.
    let zeroes = vec![0; 40 << 20];
    let mut entries = entries();
    entries[1] = entry(b"verbs.json", EntryType::Regular, &zeroes);
    let told = refusal(&pack(&entries));
    assert!(told.contains("are allowed") || told.contains("bomb"), "{told}");
    // The same, announced as small: the rest is met between the entries.
    let told = refusal(&compress(&[pack_plain(&self::entries()), zeroes].concat()));
    assert!(told.contains("bomb"), "{told}");
    // One that does not swell: too long in all.
    let mut plain = pack_plain(&self::entries());
    plain.extend_from_slice(&vec![0; 70 << 20]);
    let told = refusal(&compress_to_vec(plain.as_slice(), CompressionLevel::Uncompressed));
    assert!(told.contains("64 MiB"), "{told}");
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
    let told = refusal(&frame);
    assert!(told.to_lowercase().contains("window"), "{told}");
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
    let told = refusal(&compress_to_vec(plain.as_slice(), CompressionLevel::Uncompressed));
    assert!(told.contains("more than 200000 entries"), "{told}");
    let huge = vec![b' '; 25 << 20];
    let told = refusal(&pack(&[entry(b"manifest.json", EntryType::Regular, &huge)]));
    assert!(told.contains("are allowed") || told.contains("bomb"), "{told}");
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
        let _ = Snapshot::read(archive.as_slice());
    }

    #[test]
    fn any_manifest_is_read_or_refused(at: prop::sample::Index, text in "\\PC{0,12}") {
        let mut entries = entries();
        let mut manifest = String::from_utf8(entries[0].1.clone()).unwrap();
        let places: Vec<_> = manifest.char_indices().map(|(at, _)| at).collect();
        manifest.insert_str(places[at.index(places.len())], &text);
        entries[0] = entry(b"manifest.json", EntryType::Regular, manifest.as_bytes());
        let _ = Snapshot::read(pack(&entries).as_slice());
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
        let told = refusal(&with_document(name, &swelling(most)));
        assert!(
            told.contains(name) && told.contains(&format!("{most} are allowed")),
            "{told}"
        );
    }
    let expected = swelling(1000);
    let snapshot = Snapshot::read(with_document("expectations.json", &expected).as_slice()).unwrap();
    assert!(snapshot.expectations.is_some());
}

/// What was said is a tree of devices, ports and GIDs or it is refused where it is something else, before the rest of it
/// is in memory.
#[test]
fn what_libibverbs_cannot_have_said_is_refused() {
    let gid = r#"{"index":0,"gid":"::1","kind":"IB","netdev_index":null}"#;
    let device = |gids: usize| {
        let gids = vec![gid; gids].join(",");
        format!(
            r#"{{"x":{{"device":{{"name":"x","node_guid":1,"firmware":"","vendor_id":1,"vendor_part_id":1,"max_mr_size":1,"ports":[{{"number":1,"state":4,"phys_state":5,"link_layer":2,"active_mtu":1024,"max_mtu":4096,"lid":0,"sm_lid":0,"gid_table_len":9,"gids":[{gids}]}}]}}}}}}"#
        )
    };
    for (text, reason) in [
        (r#"{"x":[0,0,0]}"#, "line 1"),
        (r#"{"x":{"device":{}}}"#, "missing field"),
        (r#"{"unread":{"source":"x"},"y":0}"#, "unknown variant"),
        ("[]", "invalid type"),
        (&device(70_000), "more than 65536 entries"),
    ] {
        let told = refusal(&with_document("verbs.json", text));
        assert!(
            told.contains("verbs.json") && told.contains(reason),
            "{text:.40}: {told}"
        );
    }
    // All that can have been said is read back.
    for (text, known) in [
        ("null", false),
        (
            r#"{"unread":{"source":"x","kind":"helper_hung","detail":"y"}}"#,
            false,
        ),
        ("{}", true),
        (r#"{"x":{"error":{"device":"x","call":"y","errno":5}}}"#, true),
        // As a person may have called a device.
        (
            r#"{"unread":{"error":{"device":"x","call":"y","errno":5}}}"#,
            true,
        ),
        (&device(10_000), true),
    ] {
        let archive = with_document("verbs.json", text);
        let snapshot = Snapshot::read(archive.as_slice()).unwrap();
        assert_eq!(snapshot.verbs.known().is_some(), known, "{text:.40}");
        assert_eq!(Snapshot::read(bytes(&snapshot).as_slice()).unwrap(), snapshot);
    }
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
        let told = refusal(&archive);
        assert!(told.contains(reason) && told.contains("history.json"), "{told}");
    }
}

#[test]
fn an_archive_of_the_first_form_knows_no_past_and_is_read() {
    let mut entries = entries();
    entries.retain(|(header, _)| &*header.path_bytes() != b"history.json");
    let text = String::from_utf8(entries[0].1.clone()).unwrap();
    assert!(text.contains("\"schema\": 2"), "{text}");
    let text = text.replace("\"schema\": 2", "\"schema\": 1");
    entries[0] = entry(b"manifest.json", EntryType::Regular, text.as_bytes());
    assert_eq!(Snapshot::read(pack(&entries).as_slice()).unwrap(), small());
}
