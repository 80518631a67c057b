//! Failures that programs report in plain words, without one of failure or an error number.

#![allow(missing_docs)]

mod common;

use common::primary;
use rdma_health_diagnosis::symptom::SymptomKind as K;

#[test]
fn a_failure_in_plain_words_is_read() {
    for (line, expected) in [
        ("  what():  Port 0 is down.", K::PortNotActive),
        (
            "mlx5_net: PF 0 doesn't have Verbs device matches PCI device 0000:3b:00.0, are kernel drivers loaded?",
            K::NoDevice,
        ),
        (
            "mlx5_net: port is not configured in Ethernet mode",
            K::LinkTypeOther,
        ),
        (
            "[ 412.1] beegfs: mount(2222): __IBVSocket_cmaHandler:1876: Device has been removed: mlx5_0",
            K::DeviceGone,
        ),
        (
            "2026-03-11 09:14:22.518 7f1c2a7fc700 -1 Infiniband init rdma_receive_queue_len (4096) > ms_async_rdma_receive_buffers(1024).",
            K::SettingUnmatched,
        ),
    ] {
        assert_eq!(primary(line), [expected], "{line}");
    }
    let settled = "LNet: 2391:0:(o2iblnd_cb.c:2741:kiblnd_passive_connect()) Conn race 10.1.2.5@o2ib: unresolved after 20 attempts, letting lower NID win";
    assert_eq!(primary(settled), []);
}
