//! Which failures in a log follow from an earlier one.

mod gone;
mod kinds;
mod later;
mod lnet;
mod start;

use rdma_health_protocol::{Errno, WcStatus};

use self::gone::Gone;
use self::kinds::{
    ends_communication, follows, is_left_out, is_local, is_of_endpoint, is_of_exchange, is_of_full_target,
    is_of_psm, is_of_scan, is_of_server, is_of_wait, is_said, is_seen_by_peer, is_start, is_unreached,
    is_unselected, is_warned_attribute, is_without_device, is_without_plugin, is_without_rdma,
    keeps_modules_out, may_share_device, prevents_start, prevents_use,
};
use self::start::Start;
use super::ended;
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// Marks the failures that follow from an earlier line: the first independent one decides.
pub(super) fn settle(symptoms: &mut Vec<Symptom>) {
    // The end of a process that no failure follows is left out.
    if is_excused(symptoms) {
        return;
    }
    judge_among_others(symptoms);
    let first = |least: Grade, is_root: fn(&Symptom) -> bool| {
        symptoms
            .iter()
            .filter(|symptom| symptom.grade >= least && is_root(symptom))
            .filter_map(|symptom| symptom.line)
            .min()
    };
    let failed = |symptom: &&Symptom| symptom.grade == Grade::Failure;
    let prevented = symptoms
        .iter()
        .filter(failed)
        .any(|symptom| prevents_start(symptom.kind));
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
    let crashed = first(Grade::Failure, |symptom| symptom.kind == K::DeviceFatal).is_some();
    let refused_command = first(Grade::Failure, |symptom| symptom.kind == K::CommandRefused);
    let unmatched = first(Grade::Failure, |symptom| symptom.kind == K::SettingUnmatched);
    let ended_queue = first(Grade::Failure, |symptom| symptom.kind == K::QueueFatal);
    let connected = first(Grade::Failure, |symptom| matches!(symptom.kind, K::Completion(_)));
    // Why a connection could not be set up: the program repeats it without the reason.
    let refused_peer = first(Grade::Failure, |symptom| {
        matches!(
            symptom.kind,
            K::ConnectRefused | K::NoListener | K::ExchangeFailed | K::ConnectTimedOut
        )
    });
    let without = first(Grade::Failure, |symptom| symptom.kind == K::NoDevice);
    // MPICH asked libfabric for a transfer.
    let requested = first(Grade::Failure, |symptom| {
        symptom.kind == K::BackendFailed && symptom.text.contains("immediate failed")
    });
    // A process that could not do this by itself ends, and its peers see that.
    let local = first(Grade::Failure, |symptom| is_local(symptom.kind));
    let start = Start::of(symptoms);
    // perftest's ends exchange their addresses before they connect: one that fails later closes the connection of the other.
    let tested = symptoms
        .iter()
        .any(|symptom| symptom.grade == Grade::Failure && symptom.kind == K::ConnectFailed);
    let completed = symptoms
        .iter()
        .filter(|symptom| matches!(symptom.kind, K::Completion(status) if status != WcStatus::WrFlushErr))
        .filter_map(|symptom| symptom.line)
        .max();
    let unsupported = first(Grade::Failure, |symptom| symptom.kind == K::UnsupportedAdapter).is_some();
    // The kernel says in its log what it did not accept of the peer.
    let differs = first(Grade::Failure, |symptom| symptom.kind == K::PeerDiffers).is_some();
    let unfit = first(Grade::Degraded, |symptom| {
        matches!(symptom.kind, K::GidUnusable | K::NoGid)
    });
    let gone = Gone::of(symptoms);
    let inactive = first(Grade::Failure, |symptom| symptom.kind == K::PortNotActive);
    // Why the modules are not there, wherever the log says it.
    let refused = first(Grade::Failure, |symptom| {
        keeps_modules_out(symptom) && !is_start(symptom)
    })
    .is_some();
    for symptom in symptoms.iter_mut() {
        let after =
            |line: Option<u64>| matches!((line, symptom.line), (Some(root), Some(line)) if line > root);
        let is_consequence = prevented && symptom.kind == K::AdapterNotStarted
            || (follows(symptom) || is_unselected(symptom)) && after(root)
            || is_without_device(symptom.kind) && after(setup)
            || is_without_device(symptom.kind) && after(unfit)
            // Open MPI's help texts about parts that it then leaves out.
            || is_left_out(symptom) && after(setup)
            || symptom.kind == K::NoDevice && after(inactive)
            || gone.explains(symptom)
            || matches!(symptom.kind, K::PeerClosed | K::ExchangeFailed | K::CmFailed) && after(local)
            || start.explains(symptom)
            || symptom.kind == K::PeerClosed && is_of_exchange(symptom) && tested
            // Only a queue pair that was connected completes a request: this attribute did not matter.
            || is_warned_attribute(symptom) && symptom.line < completed
            || (symptom.kind == K::ModuleMissing || is_start(symptom)) && refused
            || is_without_plugin(symptom) && (after(plugin) || symptom.kind == K::SettingUnmatched && plugin.is_some())
            || repeats_creation(symptom) && after(created)
            || symptom.kind == K::ConnectFailed && symptom.named.errno.is_none() && after(refused_peer)
            || symptom.kind == K::AddressUnresolved && after(without) && symptom.text.contains("request failed on listener")
            // UCX repeats the status of a connection for which it has no device.
            || symptom.kind == K::PeerUnreachable && after(without) && symptom.text.contains("estination is unreachable")
            || symptom.kind == K::NoMemory && after(refused_command)
            || symptom.kind == K::NoMemory && after(created) && symptom.text.contains("ucp_ep_create")
            // The tool may run elsewhere: the job had its endpoints.
            || symptom.kind == K::NoDevice && after(requested) && symptom.text.contains("fi_getinfo")
            // The core of the stack cannot use the port of an adapter that does not answer.
            || symptom.kind == K::CommandRefused && after(dead) && symptom.text.contains("Couldn't ")
            // Over the adapter that crashed: clients of storage may notice it before the driver does.
            || crashed && is_unreached(symptom)
            // What nvme connect prints stands before or after what the adapter refused.
            || symptom.kind == K::OptionsRefused && (created.is_some() || differs)
            // PSM3 says before or after it that the adapter is not one that it can use.
            || symptom.kind == K::OpenFailed && unsupported && symptom.text.contains("PSM3")
            || symptom.kind == K::PeerUnreachable && after(unmatched) && symptom.text.contains("will not be handled")
            // The plugin repeats the completion without its reason.
            || symptom.kind == K::PeerUnreachable && after(connected) && symptom.text.contains("NET/OFI")
            // SPDK's words for the end of a queue, whatever ended it.
            || after(connected) && symptom.text.contains("abort requests after")
            // The adapter gave up the queue, and flushes what is posted there.
            || symptom.kind == K::Completion(WcStatus::WrFlushErr) && after(ended_queue)
            // Queue pairs like it worked until then.
            || symptom.kind == K::CreateRefused && after(connected);
        if is_consequence && symptom.grade > Grade::Secondary {
            symptom.grade = Grade::Secondary;
        }
    }
}

/// What neighbours, devices, limits and providers explain, each by itself.
fn judge_among_others(symptoms: &mut Vec<Symptom>) {
    name_transports(symptoms);
    excuse_flushes(symptoms);
    blame_first(symptoms);
    doubt_passthrough(symptoms);
    yield_to_neighbour(symptoms);
    yield_to_target(symptoms);
    follow_device(symptoms);
    let is_mild = |symptom: &&mut Symptom| is_of_scan(symptom) || is_without_rdma(symptom);
    for symptom in symptoms.iter_mut().filter(is_mild) {
        symptom.grade = symptom.grade.min(Grade::Degraded);
    }
    for find_end in [
        end_by_limit,
        end_without_provider,
        end_opening,
        go_on_without,
        follow_report,
        open_without_memory,
        end_endpoint,
        lnet::end_start,
        later::doubt_rejection,
        later::end_fabric,
        later::pass_over,
    ] {
        find_end(symptoms);
    }
}

/// Whether the program repeats, without the reason, that something was not created: what the GPU would have used, too.
fn repeats_creation(symptom: &Symptom) -> bool {
    match symptom.kind {
        K::CreateUnexplained => true,
        K::GpuDoorbellFailed => symptom.named.errno.is_none(),
        K::OpenFailed => symptom.software == Some(Software::Dpdk),
        _ => false,
    }
}

/// libfabric's providers return the error number of missing memory for an endpoint, whatever the adapter was refused for.
fn end_endpoint(symptoms: &mut [Symptom]) {
    let is_unopened = |symptom: &&Symptom| {
        symptom.grade == Grade::Failure
            && matches!(symptom.kind, K::OpenFailed | K::NotPermitted)
            && is_of_psm(symptom)
    };
    let unopened = symptoms
        .iter()
        .filter(is_unopened)
        .filter_map(|symptom| symptom.line)
        .min();
    let Some(unopened) = unopened else {
        return;
    };
    let is_repeated = |symptom: &&mut Symptom| {
        symptom.kind == K::NoMemory && symptom.line > Some(unopened) && is_of_endpoint(symptom)
    };
    for symptom in symptoms.iter_mut().filter(is_repeated) {
        symptom.grade = symptom.grade.min(Grade::Secondary);
    }
}

/// DPDK names the step that failed, before and after the line with its error number.
fn open_without_memory(symptoms: &mut [Symptom]) {
    let is_short = symptoms.iter().any(|symptom| {
        symptom.grade == Grade::Failure && matches!(symptom.kind, K::NoMemory | K::HostMemory)
    });
    let is_shared = symptoms
        .iter()
        .any(|symptom| symptom.kind == K::BackendFailed && symptom.software == Some(Software::Dpdk));
    let is_step = |symptom: &&mut Symptom| {
        symptom.kind == K::OpenFailed
            && symptom.software == Some(Software::Dpdk)
            && (symptom.named.errno.is_none() || is_shared)
    };
    for symptom in symptoms
        .iter_mut()
        .filter(is_step)
        .filter(|_| is_short || is_shared)
    {
        symptom.follows_another();
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
        // NCCL repeats what failed on a GPU in each of its parts.
        let is_repeated = kind == K::ComputeError
            && symptom.kind == K::Unrecognised
            && symptom.software == Some(Software::Nccl)
            && symptom.named.device.is_none();
        let is_usual = is_repeated || matches!(symptom.kind, K::JobFailed | K::CollectiveTimeout);
        is_usual || over_tcp || of_store || of_socket
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
            && matches!(symptom.kind, K::PeerClosed | K::JobFailed | K::Unrecognised)
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

/// NVSHMEM could start neither of its transports between nodes, and the log does not say why: it found no device that it can use. What it says
/// of IBGDA besides is then no more than that this transport is not there, either.
fn name_transports(symptoms: &mut [Symptom]) {
    let is_remote =
        |symptom: &Symptom| symptom.kind == K::BackendFailed && symptom.text.contains("remote transport");
    let is_explained = symptoms
        .iter()
        .any(|symptom| symptom.grade >= Grade::Degraded && !follows(symptom));
    for symptom in symptoms
        .iter_mut()
        .filter(|symptom| !is_explained && is_remote(symptom))
    {
        symptom.kind = K::NoDevice;
    }
}

/// A process or adapter that failed is the reason why its peers wait in vain: what the log reports of it earlier comes first. The end of a
/// process without any consequence for RDMA is left out.
fn blame_first(symptoms: &mut Vec<Symptom>) {
    // NIXL's next calls for a peer that is gone find no backend.
    let is_seen =
        |root: K, kind: K| is_seen_by_peer(kind) || root == K::PeerClosed && kind == K::BackendFailed;
    let is_missed = |root: &Symptom| {
        symptoms.iter().any(|symptom| {
            let is_grave = symptom.grade == Grade::Failure || root.kind == K::RankFailed;
            is_seen(root.kind, symptom.kind)
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
        } else if symptom.line > line && is_seen(kind, symptom.kind) {
            symptom.follows_another();
        }
    }
}

/// A server of storage flushes what is posted whenever a client disconnects: that alone shows no failure.
fn excuse_flushes(symptoms: &mut [Symptom]) {
    let is_flush =
        |symptom: &Symptom| symptom.kind == K::Completion(WcStatus::WrFlushErr) && is_of_server(symptom);
    let is_minor = |symptom: &Symptom| symptom.grade <= Grade::Note || is_flush(symptom);
    if symptoms.iter().all(is_minor) {
        for symptom in symptoms {
            symptom.grade = Grade::Note;
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

/// A log of both ends has the refusal of a connection because the target has no room, and the target's own line about what it could not get.
fn yield_to_target(symptoms: &mut [Symptom]) {
    let is_short = symptoms.iter().any(|symptom| {
        let of_target = matches!(
            symptom.kind,
            K::NoMemory | K::HostMemory | K::CreateFailed | K::CreateRefused
        );
        of_target && symptom.grade == Grade::Failure
    });
    let refused =
        |symptom: &&mut Symptom| is_short && symptom.kind == K::ResourceLimit && is_of_full_target(symptom);
    for symptom in symptoms.iter_mut().filter(refused) {
        symptom.follows_another();
    }
}

/// An error number alone, in a line that says nothing else, repeats what a line next to it says in full: libfabric prints its own general error
/// above the provider's status.
fn yield_to_neighbour(symptoms: &mut [Symptom]) {
    /// The most lines between the two.
    const WITHIN: u64 = 2;
    let says_all = |symptom: &Symptom| {
        symptom.known && symptom.grade == Grade::Failure && matches!(symptom.kind, K::Completion(_))
    };
    let full: Vec<u64> = symptoms
        .iter()
        .filter(|symptom| says_all(symptom))
        .filter_map(|symptom| symptom.line)
        .collect();
    for symptom in symptoms {
        let is_next = symptom
            .line
            .is_some_and(|line| full.iter().any(|at| at.abs_diff(line) <= WITHIN));
        if is_next && !symptom.known && symptom.named.errno.is_some() && symptom.grade > Grade::Secondary {
            symptom.grade = Grade::Secondary;
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
        let is_wait = is_of_wait(symptom);
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
            // A processor waits in vain for a device that does not respond. An error in a function of the driver is its own.
            K::DriverCrashed => kind == K::DeviceFatal || kind == K::DeviceStalled && is_wait,
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

/// libibverbs found a device and no library for it: the program then has no device, whatever it asks for.
fn end_without_provider(symptoms: &mut [Symptom]) {
    let is_without = |symptom: &Symptom| {
        symptom.kind == K::NoProvider && symptom.text.contains("no userspace device-specific driver")
    };
    let Some(line) = symptoms
        .iter()
        .filter(|symptom| is_without(symptom))
        .filter_map(|symptom| symptom.line)
        .min()
    else {
        return;
    };
    let follows = |symptom: &Symptom| {
        let is_unresolved =
            symptom.kind == K::AddressUnresolved && symptom.named.errno == Some(Errno::ENODEV);
        let is_denied = matches!(symptom.named.errno, Some(Errno::EACCES | Errno::EPERM));
        symptom.line > Some(line) && (is_without_device(symptom.kind) && !is_denied || is_unresolved)
    };
    if !symptoms.iter().any(follows) {
        return;
    }
    for symptom in symptoms {
        if is_without(symptom) {
            symptom.grade = Grade::Failure;
        } else if follows(symptom) {
            symptom.follows_another();
        }
    }
}

/// NVSHMEM's functions report why they failed, and their callers that they returned this number (`NVSHMEMX_ERROR_INTERNAL`).
fn follow_report(symptoms: &mut [Symptom]) {
    let is_repeated = |symptom: &Symptom| symptom.text.contains("non-zero status: 7 ");
    let reported = symptoms
        .iter()
        .filter(|symptom| symptom.grade == Grade::Failure && !is_repeated(symptom))
        .filter_map(|symptom| symptom.line)
        .min();
    for symptom in symptoms.iter_mut().filter(|symptom| is_repeated(symptom)) {
        if reported.is_some() && symptom.line > reported {
            symptom.follows_another();
        }
    }
}

/// Why an adapter could not be opened, or a doorbell of it not be mapped, where another line says it: a queue that could not be created, a
/// socket, doorbell pages that are used up.
fn end_opening(symptoms: &mut [Symptom]) {
    let is_reason = |symptom: &Symptom| match symptom.kind {
        K::CreateFailed | K::ResourceLimit | K::CreateRefused | K::CommandRefused => true,
        K::BackendFailed => symptom.text.contains("UDP socket"),
        _ => false,
    };
    let reasons = symptoms
        .iter()
        .filter(|symptom| symptom.grade == Grade::Failure && is_reason(symptom));
    let Some(line) = reasons.filter_map(|symptom| symptom.line).min() else {
        return;
    };
    for symptom in symptoms {
        let is_opening = symptom.kind == K::OpenFailed && is_of_psm(symptom) && symptom.line > Some(line)
            || symptom.kind == K::GpuDoorbellFailed && symptom.text.contains("_uar");
        if is_opening {
            symptom.follows_another();
        }
    }
}

/// A program that says that it goes on over TCP did without what it complained of before.
fn go_on_without(symptoms: &mut [Symptom]) {
    let said = symptoms
        .iter()
        .filter(|symptom| symptom.kind == K::SocketFallback && is_said(symptom));
    let Some(line) = said.filter_map(|symptom| symptom.line).max() else {
        return;
    };
    for symptom in symptoms {
        let is_before = symptom.line.is_some() && symptom.line <= Some(line);
        if is_before && is_without_device(symptom.kind) && symptom.kind != K::SocketFallback {
            symptom.follows_another();
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
