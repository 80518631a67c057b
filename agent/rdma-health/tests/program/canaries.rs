//! Words that must not leave the node, planted where they occur, and looked for in everything that does.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use rdma_health_tests::{scrape, tree};

use super::{PRODUCT, err, run, text};

/// In no output at all: secrets and processes, wherever the kernel or a user writes them.
const SECRETS: [&str; 13] = [
    "PWcanary",
    "LUKScanary",
    "TOKENcanary",
    "31337",
    "41337",
    "51337",
    "proc-canary",
    "train-canary",
    "task-canary",
    "podcanary",
    "unitcanary",
    "forgedcanary",
    "shellcanary",
];

/// In nothing that is anonymous: names, users, addresses and serial numbers.
const NAMES: [&str; 19] = [
    "canary-host",
    "canary.test",
    "usercanary",
    "SERIALcanary",
    "1650221034567",
    "77665544",
    "b8599fca",
    "b8-59-9f-ca",
    "b859.9fca",
    "b8:59:9f:ca:0a:01",
    "b859:9f03:00ca:0a01",
    "b8599f0300ca0a01",
    "10.99.88.77",
    "fd00:c0de::77",
    "peercanary",
    "labelcanary",
    "switchcanary",
    "swportcanary",
    "rackcanary",
];

fn plant(root: &Path) {
    let write = |path: &str, content: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("proc/sys/kernel/hostname", "canary-host.canary.test\n");
    write(
        "proc/cmdline",
        "root=UUID=x iommu=pt ds=nocloud-net;s=http://user:PWcanary@h/ rd.luks.key=LUKScanary -- TOKENcanary\n",
    );
    for (pid, name, uid, cgroup) in [
        (31337, "proc-canary", 0, "/system.slice/unitcanary.service"),
        (41337, "containerd", 12345, "/system.slice/containerd.service"),
        (51337, "kubelet", 0, "/kubepods.slice/podcanary.slice/cri-1.scope"),
    ] {
        write(&format!("proc/{pid}/comm"), &format!("{name}\n"));
        write(&format!("proc/{pid}/cgroup"), &format!("0::{cgroup}\n"));
        write(
            &format!("proc/{pid}/status"),
            &format!("Name:\tshellcanary\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"),
        );
        write(&format!("proc/{pid}/limits"), "Limit Soft Hard Units\n");
    }
    let log = "\
        6,1,1,-;Command line: iommu=pt rd.luks.key=LUKScanary\n\
        5,2,2,-;Unknown kernel command line parameters \"iommu=pt ds=nocloud-net;s=http://user:PWcanary@h\", will be passed to user space.\n\
        30,3,3,-;dracut-cmdline[312]: Using kernel command line parameters: rd.luks.key=LUKScanary intel_iommu=on\n\
        6,4,4,-;proc-canary[31337]: segfault at 0 ip 0 sp 0 error 4 in libmlx5.so.1[7f0+10]\n\
        5,5,5,-;audit: type=1400 apparmor=\"DENIED\" name=\"/dev/nvidiactl\" pid=41337 comm=\"train-canary\"\n\
        6,6,6,-;oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/kubepods/podcanary,task=nvidia-task-canary,pid=51337\n\
        3,7,7,-;NVRM: Xid (PCI:0000:18:00): 31, pid=41337, name=train-canary, Ch 00000008\n\
        3,8,8,-;mlx5_core 0000:18:00.0: mlx5_cmd_check:772:(pid 31337): CREATE_QP failed\n\
        11,9,9,-;mlx5_core 0000:18:00.0: forgedcanary\n\
        4,10,10,-;mlx5_core 0000:18:00.0: node canary-host (canary-host.canary.test) usercanary@h /home/usercanary failed\n\
        6,11,11,-;nvidia 0000:18:00.0: Serial Number: 77665544, board SERIALcanary 1650221034567\n\
        4,12,12,-;mlx5_core 0000:18:00.0: mac b8:59:9f:ca:0a:01 b8-59-9f-ca-0a-01 b859.9fca.0a01 b8599fca0a01\n\
        4,13,13,-;infiniband mlx5_0: guid=b8599f0300ca0a01 0xb8599f0300ca0a01 b859:9f03:00ca:0a01\n\
        4,14,14,-;mlx5_core 0000:18:00.0: peer 10.99.88.77:4791 fd00:c0de::77 timeout\n";
    write("dev/kmsg", log);
    neighbour(root);
}

/// What systemd-networkd saves of a switch, for the network device with the index 5: chassis, port, its description, name.
fn neighbour(root: &Path) {
    let mut frame = b"\x01\x80\xc2\x00\x00\x0e\xb8\x59\x9f\xca\x0a\x01\x88\xcc".to_vec();
    for (kind, value) in [
        (1_u16, "\u{7}switchcanary-chassis"),
        (2, "\u{5}swportcanary"),
        (4, "rackcanary"),
        (5, "switchcanary"),
        (8, "managementcanary peercanary"),
        (0, ""),
    ] {
        frame.extend((kind << 9 | u16::try_from(value.len()).unwrap()).to_be_bytes());
        frame.extend(value.as_bytes());
    }
    let folder = root.join("run/systemd/netif/lldp");
    fs::create_dir_all(&folder).unwrap();
    let file = [&(frame.len() as u64).to_le_bytes()[..], &frame].concat();
    fs::write(folder.join("5"), file).unwrap();
}

/// What is in a snapshot, uncompressed.
fn archive(root: &Path, more: &[&str]) -> Vec<u8> {
    let mut arguments = vec!["snapshot", "--root", text(root), "-o", "-"];
    arguments.extend(more);
    let saved = run(&arguments);
    assert!(saved.status.success(), "{}", err(&saved));
    let mut plain = Vec::new();
    ruzstd::decoding::StreamingDecoder::new(saved.stdout.as_slice())
        .unwrap()
        .read_to_end(&mut plain)
        .unwrap();
    plain
}

/// The status page of an agent on the tree.
fn page(root: &Path) -> Vec<u8> {
    let address: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut agent = Command::new(PRODUCT)
        .args(["agent", "--no-probe", "--helper", "/nonexistent"])
        .args(["--root", text(root), "--listen", &address.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let read = |scrape: &scrape::Scrape| scrape.count("rdma_verdict", &[]) > 0;
    scrape::wait_until(address, Duration::from_secs(30), "a reading", read).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut page = Vec::new();
    stream.read_to_end(&mut page).unwrap();
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(page.starts_with(b"HTTP/1.1 200"));
    page
}

fn assert_without(what: &str, output: &[u8], canaries: &[&str]) {
    assert!(output.len() > 200, "{what}");
    let output = String::from_utf8_lossy(output).to_lowercase();
    // A measured time may have the digits of a process's number.
    let is_of_number = |at: usize| output[..at].ends_with(|c: char| c.is_ascii_digit() || c == '.');
    for canary in canaries {
        let is_number = canary.bytes().all(|byte| byte.is_ascii_digit());
        let canary = canary.to_lowercase();
        let mut places = output.match_indices(&canary).map(|(at, _)| at);
        let at = places.find(|at| !(is_number && is_of_number(*at)));
        let around = at.map(|at| {
            output[at.saturating_sub(80)..]
                .chars()
                .take(160)
                .collect::<String>()
        });
        assert_eq!(around, None, "{what}: {canary}");
    }
}

#[test]
fn no_secret_is_in_any_output_and_no_name_in_an_anonymous_one() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let root = tree.path();
    plant(root);
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    fs::write(&config, "expect:\n  ports_up: [mlx5_0, \"canary-host\"]\n").unwrap();
    let config = ["--config", text(&config)];
    let check = |more: &[&str]| {
        let mut arguments = vec!["check", "--root", text(root)];
        arguments.extend(more);
        run(&arguments).stdout
    };
    assert_without("text", &check(&[]), &SECRETS);
    assert_without("JSON", &check(&["--output", "json"]), &SECRETS);
    assert_without("page", &page(root), &SECRETS);
    assert_without("snapshot", &archive(root, &config), &SECRETS);

    let anonymous = archive(root, &[&["--anonymize"], &config[..]].concat());
    assert_without("anonymous snapshot", &anonymous, &SECRETS);
    assert_without("anonymous snapshot", &anonymous, &NAMES);
    let saved = folder.path().join("saved");
    let output = run(&[
        "snapshot",
        "--root",
        text(root),
        "--anonymize",
        config[0],
        config[1],
        "-o",
        text(&saved),
    ]);
    assert!(output.status.success(), "{}", err(&output));
    for more in [&[][..], &["--output", "json"]] {
        let mut arguments = vec!["check", "--snapshot", text(&saved)];
        arguments.extend(more);
        let output = run(&arguments).stdout;
        assert_without("check of an anonymous snapshot", &output, &SECRETS);
        assert_without("check of an anonymous snapshot", &output, &NAMES);
    }
    // They are there where nothing is anonymous.
    let devices = run(&["devices", "--root", text(root)]).stdout;
    assert!(String::from_utf8_lossy(&devices).contains("switchcanary swportcanary"));
    let named = String::from_utf8_lossy(&archive(root, &config)).into_owned();
    assert!(named.contains("switchcanary"));
    // What drivers say of the devices is still there.
    let kept = String::from_utf8_lossy(&anonymous);
    assert!(kept.contains("CREATE_QP failed"), "{kept}");
}
