//! What the services of the kernel that use RDMA report: storage, file systems, network protocols, and RDMA in software.
//!
//! They name no adapter, and each has its own words. What they have in common is how a line begins, and that it says that something failed or
//! works again.

use crate::{
    classify::Report,
    event::{Device, EventKind},
    record::Record,
};

/// `LOGLEVEL_WARNING`.
const WARNING: u8 = 4;
/// How the lines of a service begin, before `:`, and its module.
const SERVICES: [(&str, &str); 15] = [
    ("rpcrdma", "rpcrdma"),
    ("svcrdma", "rpcrdma"),
    ("rdma_rxe", "rdma_rxe"),
    ("siw", "siw"),
    ("iser", "ib_iser"),
    ("isert", "ib_isert"),
    ("ib_srp", "ib_srp"),
    ("ib_srpt", "ib_srpt"),
    ("nvmet_rdma", "nvmet_rdma"),
    ("rtrs_client", "rtrs_client"),
    ("rtrs_server", "rtrs_server"),
    ("smc", "smc"),
    ("RDS/IB", "rds_rdma"),
    ("LNetError", "ko2iblnd"),
    ("LNet", "ko2iblnd"),
];
/// What marks a line of a service that works without RDMA, too, as one about RDMA.
const OF_RDMA: [&str; 6] = ["rdma", "o2ib", "ib_", "iblnd", " mr pool", "mr_pool"];
/// Words of a failure.
const FAILURES: [&str; 9] = [
    "fail",
    "error",
    "unable to",
    "cannot",
    "can't",
    "could not",
    "timed out",
    "refused",
    "rejected",
];
/// Words of a failure after which the service tries again.
const RETRIES: [&str; 4] = ["retry", "reconnecting", "will reconnect", "trying again"];
/// Words that say that a service works.
const RECOVERIES: [&str; 4] = [
    "successfully reconnected",
    "successfully connected",
    "connection established",
    "mapped ",
];

/// The module and the words of a service's line.
fn service(text: &str) -> Option<(&'static str, &str)> {
    if let Some(rest) = text.strip_prefix("nvidia-fs:") {
        return Some(("nvidia_fs", rest));
    }
    let (name, rest) = text.split_once(": ")?;
    // `nvme nvme1: …` is also what a local disk says.
    if name
        .strip_prefix("nvme nvme")
        .is_some_and(|number| number.parse::<u16>().is_ok())
    {
        return Some(("nvme_rdma", rest));
    }
    let (_, module) = SERVICES.iter().find(|(begin, _)| *begin == name)?;
    Some((module, rest))
}

/// What a service of the kernel reports, with its module as the device. A line without severity counts as one of an error.
pub(crate) fn report(record: &Record<'_>) -> Option<Report> {
    let (module, rest) = service(record.text)?;
    let lower = rest.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let is_shared = matches!(module, "nvme_rdma" | "ko2iblnd");
    let is_failure = has(&FAILURES) && !has(&RETRIES) && record.level.is_none_or(|level| level <= WARNING);
    let kind = if has(&RECOVERIES) && !has(&["not "]) {
        EventKind::Started
    } else if is_failure && (!is_shared || has(&OF_RDMA)) {
        EventKind::DriverError
    } else {
        return None;
    };
    Some(Report {
        kind,
        device: Device::Driver(module.to_owned()),
        driver: module.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use super::*;

    fn of(line: &str) -> Option<(String, EventKind)> {
        let report = report(&Record::parse(line).unwrap())?;
        Some((report.device.to_string(), report.kind))
    }

    #[test]
    fn a_service_says_that_it_failed_or_works_again() {
        for (line, module, kind) in [
            (
                "3,1,1,-;nvme nvme1: rdma connection establishment failed (-22)",
                "nvme_rdma",
                EventKind::DriverError,
            ),
            (
                "nvme nvme1: failed to initialize pi mr pool sized 128 for qid 1",
                "nvme_rdma",
                EventKind::DriverError,
            ),
            (
                "6,1,1,-;nvme nvme1: Successfully reconnected (2 attempts)",
                "nvme_rdma",
                EventKind::Started,
            ),
            (
                "3,1,1,-;rpcrdma: Recv: local length error (1/0xd7)",
                "rpcrdma",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;rdma_rxe: failed to allocate crc algorithm err:-2",
                "rdma_rxe",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;LNetError: 7:0:(api-ni.c:2533:lnet_startup_lndnet()) Can't load LND o2ib, module ko2iblnd, rc=256",
                "ko2iblnd",
                EventKind::DriverError,
            ),
            (
                "3,1,1,-;nvidia-fs:write IO failed :-512",
                "nvidia_fs",
                EventKind::DriverError,
            ),
        ] {
            assert_eq!(of(line), Some((module.to_owned(), kind)), "{line}");
        }
        for line in [
            "3,1,1,-;nvme nvme0: I/O 12 QID 3 timeout, completion polled",
            "3,1,1,-;nvme nvme0: failed to set APST feature (2)",
            "3,1,1,-;nvme nvme1: failed to connect socket: -111",
            "3,1,1,-;nvme nvme1: rdma connection failed, reconnecting in 10 seconds",
            "6,1,1,-;rdma_rxe: loaded",
            "6,1,1,-;smc: adding ib device mlx5_0 with port count 1",
            "3,1,1,-;LNetError: 7:0:(socklnd.c:12:ksocknal_create()) Error -110 creating socket",
            "3,1,1,-;usb 1-1: rdma failed",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
