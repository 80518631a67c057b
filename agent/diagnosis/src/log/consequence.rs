//! Which failures in a log follow from an earlier one.

use rdma_health_protocol::WcStatus;

use super::{
    ended,
    grade::{Level, level},
};
use crate::symptom::{Grade, Symptom, SymptomKind as K};

/// Marks the failures that follow from an earlier line: the first independent one decides.
pub(super) fn settle(symptoms: &mut Vec<Symptom>) {
    // The end of a process that no failure follows is left out.
    if is_excused(symptoms) {
        return;
    }
    blame_first(symptoms);
    doubt_passthrough(symptoms);
    follow_device(symptoms);
    end_by_limit(symptoms);
    let first = |least: Grade, is_root: fn(&Symptom) -> bool| {
        symptoms
            .iter()
            .filter(|symptom| symptom.grade >= least && is_root(symptom))
            .filter_map(|symptom| symptom.line)
            .min()
    };
    let prevented = symptoms
        .iter()
        .any(|symptom| symptom.grade == Grade::Failure && prevents_start(symptom.kind));
    let root = first(Grade::Failure, |symptom| !follows(symptom));
    let setup = first(Grade::Failure, |symptom| prevents_use(symptom.kind));
    // A program can go on without its plugin, over TCP or not at all.
    let plugin = first(Grade::Degraded, |symptom| symptom.kind == K::BackendMissing);
    let created = first(Grade::Failure, |symptom| {
        matches!(
            symptom.kind,
            K::CreateFailed | K::ResourceLimit | K::CreateRefused | K::CommandRefused
        )
    });
    let dead = first(Grade::Failure, |symptom| {
        matches!(symptom.kind, K::DeviceFatal | K::DeviceStalled | K::ResourceLimit)
    });
    let refused_command = first(Grade::Failure, |symptom| symptom.kind == K::CommandRefused);
    let unmatched = first(Grade::Failure, |symptom| symptom.kind == K::SettingUnmatched);
    let ended_queue = first(Grade::Failure, |symptom| symptom.kind == K::QueueFatal);
    let connected = first(Grade::Failure, |symptom| matches!(symptom.kind, K::Completion(_)));
    let completed = symptoms
        .iter()
        .filter(|symptom| matches!(symptom.kind, K::Completion(status) if status != WcStatus::WrFlushErr))
        .filter_map(|symptom| symptom.line)
        .max();
    let unfit = first(Grade::Degraded, |symptom| {
        matches!(symptom.kind, K::GidUnusable | K::NoGid)
    });
    let bus = first(Grade::Failure, |symptom| symptom.kind == K::PciFault);
    let inactive = first(Grade::Failure, |symptom| symptom.kind == K::PortNotActive);
    // Why the modules are not there, wherever the log says it.
    let refused = symptoms
        .iter()
        .any(|symptom| symptom.grade == Grade::Failure && keeps_modules_out(symptom) && !is_start(symptom));
    for symptom in symptoms.iter_mut() {
        let after =
            |line: Option<u64>| matches!((line, symptom.line), (Some(root), Some(line)) if line > root);
        let is_consequence = prevented && symptom.kind == K::AdapterNotStarted
            || matches!(symptom.kind, K::DeviceFatal | K::DeviceStalled | K::DeviceGone) && after(bus)
            || follows(symptom) && after(root)
            || is_without_device(symptom.kind) && after(setup)
            || is_without_device(symptom.kind) && after(unfit)
            || symptom.kind == K::NoDevice && after(inactive)
            // Only a queue pair that was connected completes a request: this attribute did not matter.
            || is_warned_attribute(symptom) && symptom.line < completed
            || (symptom.kind == K::ModuleMissing || is_start(symptom)) && refused
            || is_without_plugin(symptom) && after(plugin)
            // The program repeats it without the reason.
            || symptom.kind == K::CreateUnexplained && after(created)
            || symptom.kind == K::NoMemory && after(refused_command)
            // The core of the stack cannot use the port of an adapter that does not answer.
            || symptom.kind == K::CommandRefused && after(dead) && symptom.text.contains("Couldn't ")
            // What nvme connect prints stands before or after what the adapter refused.
            || symptom.kind == K::OptionsRefused && created.is_some()
            // PSM opens a unit and creates its queues in one step.
            || symptom.kind == K::OpenFailed && after(created) && symptom.text.to_ascii_lowercase().contains("psm")
            || symptom.kind == K::PeerUnreachable && after(unmatched) && symptom.text.contains("will not be handled")
            // The plugin repeats the completion without its reason.
            || symptom.kind == K::PeerUnreachable && after(connected) && symptom.text.contains("NET/OFI")
            // The adapter gave up the queue, and flushes what is posted there.
            || symptom.kind == K::Completion(WcStatus::WrFlushErr) && after(ended_queue)
            // Queue pairs like it worked until then.
            || symptom.kind == K::CreateRefused && after(connected);
        if is_consequence && symptom.grade > Grade::Secondary {
            symptom.grade = Grade::Secondary;
        }
    }
}

/// Lowers what programs report in general after an error that is not of RDMA, if nothing shows a failure of RDMA besides; whether it does.
fn is_excused(symptoms: &mut Vec<Symptom>) -> bool {
    /// An exception may come some lines before its reason.
    const BEFORE: u64 = 3;
    let is_other = |symptom: &Symptom| match symptom.kind {
        K::ComputeError | K::SharedMemory | K::TcpError => true,
        K::RankFailed => ended::is_own_error(&symptom.text.to_ascii_lowercase()),
        _ => false,
    };
    let roots = symptoms.iter().filter(|symptom| is_other(symptom));
    let Some((line, kind)) = roots.map(|root| (root.line, root.kind)).min() else {
        return false;
    };
    let is_general = |symptom: &Symptom| {
        let over_tcp = kind == K::TcpError
            && is_seen_by_peer(symptom.kind)
            && !matches!(symptom.kind, K::Completion(_))
            && symptom.named.device.is_none();
        // What the other ranks see of PyTorch's store, which is in the process that ended.
        let of_store = kind == K::RankFailed && symptom.text.contains("c10d");
        // NCCL's own connection over TCP to the process that ended.
        let of_socket = kind == K::RankFailed
            && symptom.kind == K::PeerClosed
            && symptom.named.device.is_none()
            && symptom.text.contains("ocket");
        matches!(symptom.kind, K::JobFailed | K::CollectiveTimeout) || over_tcp || of_store || of_socket
    };
    // Ranks write at the same time, each into its own part of the log: those that wait come first where the log is sorted by rank.
    let rank = |symptom: &Symptom| ended::rank(&symptom.text.to_ascii_lowercase());
    let of_rank = symptoms
        .iter()
        .find(|root| root.line == line)
        .filter(|root| !ended::is_interrupt(&root.text.to_ascii_lowercase()))
        .and_then(rank);
    let is_elsewhere = |symptom: &Symptom| {
        let other = rank(symptom);
        other.is_some() && of_rank.is_some() && other != of_rank
    };
    // NCCL's processes also talk over sockets of TCP. What they see of the one that ended may come first: each writes for itself.
    let of_socket = |symptom: &Symptom| {
        kind == K::ComputeError
            && matches!(symptom.kind, K::PeerClosed | K::Unrecognised)
            && symptom.named.device.is_none()
            && symptom.text.to_ascii_lowercase().contains("nccl warn socket")
    };
    let follows = |symptom: &Symptom| {
        if of_socket(symptom) {
            return true;
        }
        let is_after = symptom.line.map(|line| line + BEFORE) >= line;
        (is_after || is_elsewhere(symptom)) && (is_general(symptom) || is_other(symptom))
    };
    let is_excused = symptoms
        .iter()
        .all(|symptom| symptom.grade <= Grade::Note || follows(symptom));
    if is_excused {
        symptoms.retain(|symptom| symptom.kind != K::RankFailed);
        for symptom in symptoms {
            symptom.grade = symptom.grade.min(Grade::Note);
        }
    }
    is_excused
}

/// A process or adapter that failed is the reason why its peers wait in vain: what the log reports of it earlier comes first. The end of a
/// process without any consequence for RDMA is left out.
fn blame_first(symptoms: &mut Vec<Symptom>) {
    let is_missed = |root: &Symptom| {
        symptoms.iter().any(|symptom| {
            let is_grave = symptom.grade == Grade::Failure || root.kind == K::RankFailed;
            is_seen_by_peer(symptom.kind)
                && is_grave
                && symptom.line > root.line
                && may_share_device(root, symptom)
        })
    };
    let roots = symptoms
        .iter()
        .filter(|root| root.grade >= Grade::Secondary && ends_communication(root.kind) && is_missed(root));
    let first = roots.map(|root| (root.line, root.kind)).min();
    symptoms.retain(|symptom| symptom.kind != K::RankFailed || Some((symptom.line, symptom.kind)) == first);
    let Some((line, kind)) = first else { return };
    for symptom in symptoms {
        if (symptom.line, symptom.kind) == (line, kind) {
            symptom.grade = Grade::Failure;
        } else if symptom.line > line && is_seen_by_peer(symptom.kind) {
            symptom.grade = symptom.grade.min(Grade::Secondary);
        }
    }
}

/// RCCL warns of a command line without `iommu=pt` on every start, also where the IOMMU translates nothing. The warning is not a lead to a
/// failure that a translation does not cause.
fn doubt_passthrough(symptoms: &mut [Symptom]) {
    let may_follow = |symptom: &Symptom| {
        symptom.grade < Grade::Failure
            || matches!(
                symptom.kind,
                K::Completion(WcStatus::LocProtErr | WcStatus::LocAccessErr | WcStatus::RemOpErr)
                    | K::IommuFault
                    | K::Corrupted
            )
    };
    if symptoms.iter().all(may_follow) {
        return;
    }
    for symptom in symptoms {
        if symptom.kind == K::PassthroughMissing {
            symptom.grade = Grade::Note;
        }
    }
}

/// What an adapter reports after a fault in it, in its module or in its power supply follows from that fault: its link goes down, its driver
/// waits in vain, its firmware gives up in the heat.
fn follow_device(symptoms: &mut [Symptom]) {
    let roots: Vec<(K, Option<u64>, Option<String>)> = symptoms
        .iter()
        .filter(|symptom| symptom.grade > Grade::Secondary && symptom.line.is_some())
        .map(|symptom| (symptom.kind, symptom.line, symptom.named.function.clone()))
        .collect();
    for symptom in symptoms {
        let is_root = |kind: K| match symptom.kind {
            K::PortError => matches!(
                kind,
                K::DeviceFatal
                    | K::DeviceStalled
                    | K::AdapterHot
                    | K::SlotPower
                    | K::PciFault
                    | K::ModuleFault
            ),
            K::DriverCrashed => matches!(kind, K::DeviceFatal | K::DeviceStalled),
            K::QueueError | K::QueueFatal | K::QueueAccess => kind == K::Completion(WcStatus::FatalErr),
            // The same report of the adapter's health names the heat.
            K::DeviceFatal => kind == K::AdapterHot,
            _ => false,
        };
        let follows = roots.iter().any(|(kind, line, function)| {
            let same = match (function, &symptom.named.function) {
                (Some(one), Some(other)) => one == other,
                _ => true,
            };
            is_root(*kind) && same && *line < symptom.line
        });
        if follows && symptom.grade > Grade::Secondary {
            symptom.grade = Grade::Secondary;
        }
    }
}

/// A warning of a low memlock limit is the reason where the program then ends and nothing else in the log says why.
fn end_by_limit(symptoms: &mut [Symptom]) {
    let has_other = symptoms
        .iter()
        .any(|symptom| symptom.grade == Grade::Failure && !follows(symptom));
    let last = symptoms
        .iter()
        .filter(|symptom| {
            let text = symptom.text.to_ascii_lowercase();
            let ends = ["assert", "abort", "terminat", "exit"]
                .iter()
                .any(|word| text.contains(word));
            symptom.kind == K::JobFailed || symptom.kind == K::Unrecognised && ends
        })
        .filter_map(|symptom| symptom.line)
        .max();
    if has_other {
        return;
    }
    for symptom in symptoms {
        if symptom.kind == K::MemlockWarning && symptom.line < last {
            symptom.grade = Grade::Failure;
        }
    }
}

/// Whether two symptoms can be about one device.
fn may_share_device(one: &Symptom, other: &Symptom) -> bool {
    match (&one.named.device, &other.named.device) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

/// What ends the communication of a process or of an adapter with all peers.
fn ends_communication(kind: K) -> bool {
    matches!(
        kind,
        K::RankFailed | K::PeerClosed | K::PortError | K::GidChanged | K::DeviceFatal | K::DeviceStalled
    )
}

/// What a peer sees that waits for an answer.
fn is_seen_by_peer(kind: K) -> bool {
    matches!(
        kind,
        K::Completion(
            WcStatus::RetryExcErr
                | WcStatus::RnrRetryExcErr
                | WcStatus::RespTimeoutErr
                | WcStatus::RemOpErr
                | WcStatus::WrFlushErr
        ) | K::PeerUnreachable
            | K::PeerClosed
            | K::ExchangeFailed
            | K::ConnectRefused
            | K::CollectiveTimeout
            | K::NoListener
    )
}

/// What a job reports after any other failure. A failure without a reason follows from one with a reason.
fn follows(symptom: &Symptom) -> bool {
    let is_unexplained = matches!(symptom.kind, K::ConnectFailed | K::CreateUnexplained)
        && symptom.named.errno.is_none()
        || symptom.kind == K::RegMrFailed && symptom.named.errno.is_none() && symptom.named.gpu.is_none();
    is_unexplained || is_report(symptom.kind)
}

/// What programs report of a failure that happened elsewhere.
fn is_report(kind: K) -> bool {
    matches!(
        kind,
        K::JobFailed
            | K::PeerClosed
            | K::ExchangeFailed
            | K::ConnectRefused
            | K::CmFailed
            | K::CollectiveTimeout
            | K::BackendFailed
            | K::QueueError
            | K::QueueFatal
            | K::Completion(WcStatus::WrFlushErr)
    )
}

/// What a program reports that could not use its devices.
fn is_without_device(kind: K) -> bool {
    matches!(
        kind,
        K::NoDevice | K::OpenFailed | K::DeviceAbsent | K::SocketFallback
    )
}

/// What a program reports whose plugin could not be loaded: it finds neither the network that the plugin offers nor another one.
fn is_without_plugin(symptom: &Symptom) -> bool {
    is_without_device(symptom.kind)
        || matches!(symptom.kind, K::SettingUnmatched | K::RegMrFailed) && symptom.named.errno.is_none()
}

/// Why a driver does not start an adapter. Its driver may report it before or after it gives up.
fn prevents_start(kind: K) -> bool {
    matches!(
        kind,
        K::FirmwareMissing
            | K::FirmwareMismatch
            | K::PciRoom
            | K::HostMemory
            | K::ResourceLimit
            | K::DeviceFatal
            | K::DeviceStalled
            | K::PciFault
            | K::CommandRefused
    )
}

/// A change of a queue pair that failed, for which the program only warns and names no reason.
fn is_warned_attribute(symptom: &Symptom) -> bool {
    symptom.kind == K::ConnectFailed
        && symptom.named.errno.is_none()
        && symptom.named.transition.is_none()
        && level(&symptom.text) == Some(Level::Warning)
}

/// What the service that loads the driver reports of all its modules: `Loading HCA driver and Access Layer: [FAILED]`.
fn is_start(symptom: &Symptom) -> bool {
    matches!(symptom.kind, K::ModuleMismatch | K::ModuleMissing)
        && symptom.text.to_ascii_lowercase().contains("[failed]")
}

/// Why modules of the RDMA stack could not be loaded or replaced.
fn keeps_modules_out(symptom: &Symptom) -> bool {
    matches!(
        symptom.kind,
        K::ModuleUnsigned | K::ModuleMismatch | K::ModuleInUse | K::DriverNotBuilt | K::PeerMemorySymbol
    )
}

/// What keeps a program from its devices.
fn prevents_use(kind: K) -> bool {
    matches!(
        kind,
        K::ModuleMissing
            | K::ModuleMismatch
            | K::CmUnavailable
            | K::UnsupportedAdapter
            | K::VersionMismatch
            | K::ResourceUnavailable
            | K::NotPermitted
            | K::AdmissionRefused
            | K::AdapterNotStarted
            | K::DeviceFatal
    )
}
