//! Errors of GPUs that say nothing about RDMA by themselves: an application's, and those from which the driver recovered.

use super::{Log, foreign::is_of_gpu_memory};
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// Whether a line in lower case has a number of NVIDIA's driver that an application causes: an exception, an illegal access, its end.
pub(super) fn is_of_application(lower: &str) -> bool {
    const NUMBERS: [&str; 8] = ["13", "31", "43", "45", "68", "69", "109", "137"];
    let Some((_, rest)) = lower.split_once("nvrm: xid (") else {
        return false;
    };
    let number = rest
        .split_once("): ")
        .and_then(|(_, rest)| rest.split(',').next());
    number.is_some_and(|number| NUMBERS.contains(&number.trim()))
}

/// Whether a kind is one of a GPU from which it may recover.
pub(super) fn can_recover(kind: K) -> bool {
    matches!(kind, K::GpuStopped | K::GpuError)
}

/// Errors that are a note by themselves count where something else failed: they may be the reason.
pub(super) fn settle(symptoms: &mut [Symptom]) {
    let has_other = symptoms
        .iter()
        .any(|symptom| symptom.grade > Grade::Note && !can_recover(symptom.kind));
    if !has_other {
        return;
    }
    for symptom in symptoms.iter_mut().filter(|symptom| can_recover(symptom.kind)) {
        symptom.grade = symptom.kind.grade();
    }
}

/// UCX over TCP gave the kernel memory that it cannot read (EFAULT). Where no line names a GPU, the log does not show that it is a GPU's.
pub(super) fn doubt_memory(log: &mut Log) {
    if log.names_gpu {
        return;
    }
    let is_one = |symptom: &Symptom| is_of_gpu_memory(symptom) && symptom.software == Some(Software::Ucx);
    for symptom in log.symptoms.iter_mut().filter(|symptom| is_one(symptom)) {
        symptom.kind = K::TcpError;
        symptom.grade = symptom.kind.grade();
        symptom.named.errno = None;
    }
}

/// The manager of the `NVLink` fabric ends where it finds no switch. Most nodes have none and need no manager; on others, what starts the switches is missing.
pub(super) fn doubt_manager(log: &mut Log) {
    if !log.marks.no_nvswitch {
        return;
    }
    let is_of_manager = |symptom: &Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        symptom.kind == K::GpuLinkError && (text.contains("fabricmanager") || text.contains("fabric manager"))
    };
    for symptom in log.symptoms.iter_mut().filter(|symptom| is_of_manager(symptom)) {
        symptom.grade = symptom.grade.min(Grade::Note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogReader;

    #[test]
    fn errors_of_gpus_count_unless_the_driver_recovered_or_an_application_caused_them() {
        const RING: &str = "[ 1.1] amdgpu 0000:28:00.0: ring gfx_0.0.0 timeout, signaled seq=1\n";
        const BEGIN: &str = "[ 1.2] amdgpu 0000:28:00.0: GPU reset begin!. Source:  1\n";
        const END: &str = "[ 1.3] amdgpu 0000:28:00.0: GPU reset succeeded, trying to resume\n";
        const RETRIES: &str = "a:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.9.0.3<5> with status=12 opcode=129 len=1 vendor err 129 (Recv)\n";
        let xid =
            |number: u32| format!("[ 2.1] NVRM: Xid (PCI:0000:cb:00): {number}, pid=1, name=python3, x\n");
        let one = |text: &str| text.to_owned();
        for (log, expected) in [
            (one(BEGIN), Some(Grade::Failure)),
            (format!("{RING}{BEGIN}{END}"), None),
            (format!("{BEGIN}{END}{BEGIN}"), Some(Grade::Failure)),
            (
                format!("{BEGIN}[ 1.3] amdgpu 0000:29:00.0: GPU reset succeeded\n"),
                Some(Grade::Failure),
            ),
            (
                format!("{RING}[ 1.3] amdgpu 0000:28:00.0: amdgpu: Ring gfx_0.0.0 reset succeeded\n"),
                None,
            ),
            (format!("{BEGIN}{END}{RETRIES}"), Some(Grade::Failure)),
            // Another GPU recovered.
            (
                format!("{BEGIN}{}{END}", BEGIN.replace("28", "29")),
                Some(Grade::Failure),
            ),
            (xid(13), None),
            (format!("{}{}", xid(13), xid(94)), Some(Grade::Secondary)),
            (xid(79), Some(Grade::Failure)),
            (
                one(
                    "[ 1.1] NVRM: The NVIDIA GPU 0000:b3:00.0\n       NVRM: (PCI ID: 10de:26b5) installed in this system has\n       \
                     NVRM: fallen off the bus and is not responding to commands.\n",
                ),
                Some(Grade::Failure),
            ),
        ] {
            let mut reader = LogReader::default();
            reader.feed(log.as_bytes());
            let symptoms = reader.finish().symptoms;
            let of_gpu = symptoms.iter().filter(|symptom| can_recover(symptom.kind));
            let found = of_gpu
                .map(|symptom| symptom.grade)
                .filter(|grade| *grade > Grade::Note);
            assert_eq!(found.max(), expected, "{log}: {symptoms:?}");
        }
    }
}
