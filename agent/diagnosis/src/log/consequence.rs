//! Which failures in a log follow from an earlier one.

mod device;
mod excused;
mod gone;
mod kinds;
mod later;
mod lnet;
mod local;
mod peers;
mod start;

use rdma_health_protocol::WcStatus;

pub(crate) use self::device::is_without_transport;
use self::device::{
    end_by_last_words, end_by_limit, end_endpoint, end_opening, end_transports, end_without_provider,
    follow_device, follow_report, follow_room, name_transports, open_without_memory,
};
use self::excused::{doubt_passthrough, excuse_flushes, go_on_without, is_excused};
use self::gone::Gone;
use self::kinds::{
    follows, is_left_out, is_local, is_of_exchange, is_of_scan, is_start, is_unreached, is_unselected,
    is_warned_attribute, is_without_device, is_without_plugin, is_without_rdma, keeps_modules_out,
    prevents_start, prevents_use,
};
use self::peers::{blame_first, yield_to_neighbour, yield_to_target};
use self::start::Start;
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
    let mut failures = symptoms.iter().filter(failed);
    let prevented = failures.any(|symptom| prevents_start(symptom.kind));
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
            || symptom.kind == K::PeerUnreachable && after(unmatched)
                && ["will not be handled", "estination is unreachable"].iter().any(|words| symptom.text.contains(words))
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
    follow_room(symptoms);
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
        end_by_last_words,
        end_transports,
        lnet::end_start,
        local::blame_own_request,
        local::without_files,
        later::doubt_rejection,
        later::end_fabric,
        later::precede_reason,
        later::follow_module,
        later::pass_over,
        later::end_parts,
        later::end_transfer,
        later::end_endpoint_of_ucx,
        later::end_worker_of_ucx,
        later::end_own_address,
        later::end_own_work,
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
