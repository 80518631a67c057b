//! Messages of package managers, of storage clients of older kernels, and of devices that are not of RDMA: what they show, and what not.

use rdma_health_diagnosis::{
    log::LogReader,
    symptom::{Grade, SymptomKind as K},
};
use rdma_health_protocol::WcStatus;

/// The kinds that make a log one of a failure.
fn failures(text: &str) -> Vec<K> {
    let mut reader = LogReader::default();
    reader.feed(text.as_bytes());
    let symptoms = reader.finish().symptoms;
    let grave = symptoms.iter().filter(|symptom| symptom.grade > Grade::Secondary);
    grave.map(|symptom| symptom.kind).collect()
}

#[test]
fn older_clients_name_events_by_their_number() {
    let line = |event: u8, status: i32| {
        format!(
            "Jul 21 09:08:07 init1 kernel: iser: iser_cma_handler: event {event} status {status} conn ffff88102b4ae000 id ffff88\n"
        )
    };
    for (event, status, expected) in [
        (1, -110, Some(K::PeerUnreachable)),
        (1, -19, Some(K::AddressUnresolved)),
        (3, -22, Some(K::RouteUnresolved)),
        (6, -110, Some(K::PeerUnreachable)),
        (7, -110, Some(K::PeerUnreachable)),
        (8, 8, Some(K::NoListener)),
        (8, 28, Some(K::ConnectRefused)),
        (11, 0, Some(K::DeviceGone)),
        (0, 0, None),
        (2, 0, None),
        (9, 0, None),
        (99, 0, None),
    ] {
        assert_eq!(
            failures(&line(event, status)).first().copied(),
            expected,
            "event {event} {status}"
        );
    }
}

#[test]
fn the_reason_comes_before_a_bare_return_value() {
    let srq = "rdma.c:3274:nvmf_rdma_poll_group_create: *ERROR*: Unable to create shared receive queue, errno 95\n\
               nvmf_rpc.c:1961:nvmf_rpc_tgt_add_transport_done: *ERROR*: Failed to add transport to tgt.(-1)\n";
    assert!(!failures(srq).contains(&K::NotPermitted) && failures(srq).contains(&K::CreateRefused));
    assert!(!failures("test_rdma: ibv_create_qp failed on mlx5_0 (rc=-1)\n").contains(&K::NotPermitted));
    let denied = "test_rdma: ibv_create_qp failed on mlx5_0: errno 1\n";
    assert_eq!(failures(denied), [K::NotPermitted]);
    // The error of an operation that a list names.
    let list = "  OMPI source: btl_openib.c:190\n  Function:    ibv_create_cq()\n  Error:       Cannot allocate memory (errno=12)\n";
    assert_eq!(failures(list), [K::CreateFailed]);
}

#[test]
fn a_service_that_is_named_after_managing_is_not_an_adapter() {
    for text in [
        "[ 3.1] systemd[1]: Failed to start Network Manager Wait Online.\n",
        "[53901.1] mlx5_core 0000:3b:00.0: Successfully registered panic handler for port 1\n",
        "[ 22.1] RDS/tcp: connect to 10.0.0.7 failed, rc -111\n",
        "[ 5512.1] nvmet_rdma: disconnected (10): status 0 id 00000000f2\n",
        "xhci_hcd 0000:97:00.0: AER: can't recover (no error_detected callback)\n\
         pcieport 0000:80:1b.4: AER: device recovery failed\n",
        "[ 365.1] vfio-pci 0000:0a:00.0: not ready 65535ms after FLR; giving up\n\
         0a:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 10\n",
    ] {
        assert_eq!(failures(text), [], "{text}");
    }
}

#[test]
fn what_each_program_says_is_read() {
    for (text, expected) in [
        (
            "rdma_rxe: rxe creation allowed on top of a real device only\n",
            K::SettingUnmatched,
        ),
        (
            "rdma_rxe: failed to allocate crc algorithm err:-2\n",
            K::ModuleMissing,
        ),
        (
            "libiscsi:3 wr id 5559208da690 status 1 vend_err d7\n",
            K::Completion(WcStatus::LocLenErr),
        ),
        (
            "Error: One or more devices are not supported: ConnectX-3 (MT27500)\n",
            K::UnsupportedAdapter,
        ),
        (
            "[6.3] mlx4_core 0000:04:00.0: Installed FW has unsupported command interface revision 1\n",
            K::FirmwareMismatch,
        ),
        (
            "libfabric:7:cxi:ep_data:report():1 <warn> error: 0x2b (err: 5, UNDELIVERABLE)\n",
            K::PeerUnreachable,
        ),
        (
            "Infiniband post_chunkibv_post_srq_recv failed (12) Cannot allocate memory\n",
            K::QueueFull,
        ),
        // A time since 1970 is not one of the kernel: the causes of programs stay.
        (
            "[1787147912.586073501] n:rank0.prog: Unable to initialize verbs NIC /sys/class/infiniband/mana_0 (unit 0:0)\n",
            K::UnsupportedAdapter,
        ),
    ] {
        let mut reader = LogReader::default();
        reader.feed(text.as_bytes());
        let kinds: Vec<K> = reader
            .finish()
            .symptoms
            .iter()
            .map(|symptom| symptom.kind)
            .collect();
        assert_eq!(kinds, [expected], "{text}");
    }
}
