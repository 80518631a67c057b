//! Any text as the output of each command that a sosreport or must-gather holds.
#![no_main]

use std::fs;

use rdma_health_fuzz::read;
use rdma_health_snapshot::foreign;

libfuzzer_sys::fuzz_target!(|outputs: [&[u8]; 4]| {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| folder.path().join(name);
    for name in ["sos_commands/kernel", "sos_commands/infiniband"] {
        fs::create_dir_all(at(name)).expect("a directory");
    }
    let names = [
        "sos_commands/kernel/dmesg",
        "sos_commands/kernel/lsmod",
        "sos_commands/kernel/uname_-a",
        "sos_commands/infiniband/ibstat",
    ];
    fs::write(at("version.txt"), "").expect("a file");
    for (name, output) in names.iter().zip(outputs) {
        fs::write(at(name), output).expect("a file");
    }
    let found = foreign::open(folder.path())
        .expect("a tree")
        .expect("a sosreport");
    read(found.root);
});
