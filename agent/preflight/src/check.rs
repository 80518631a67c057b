//! The checks. Each module knows one kind of problem.

mod attachments;
mod environment;
mod events;
mod memlock;
mod pending;
mod quota;
mod resources;
pub(crate) mod security;

use rdma_health_rules::Severity;

use crate::{
    cluster::{Cluster, Listed},
    report::{Finding, Report},
    workload::Workload,
};

/// Finds what keeps the pods from starting, or RDMA from working in them. With `manifests`, only these are checked; else everything
/// in the namespace that uses RDMA.
pub fn preflight(cluster: &Cluster, manifests: &[Workload]) -> Report {
    let mut report = Report::new(&cluster.namespace);
    match &cluster.namespace_object {
        Listed::Read(found) if found.is_empty() => {
            report.add(Finding {
                rule: "namespace-missing",
                severity: Severity::Critical,
                subject: format!("Namespace {}", cluster.namespace),
                summary: "the namespace does not exist".into(),
                evidence: Vec::new(),
                remedy: format!("kubectl create namespace {}", cluster.namespace),
            });
        }
        Listed::Read(_) | Listed::NotInstalled => {}
        Listed::NotRead(why) => report.not_checked("the namespace and its PodSecurity level", why),
    }
    let from_cluster;
    let workloads = if manifests.is_empty() {
        from_cluster = workloads(cluster, &mut report);
        from_cluster.as_slice()
    } else {
        manifests
    };
    for workload in workloads
        .iter()
        .filter(|one| one.exists && one.uses_rdma(cluster))
    {
        pending::check(cluster, workload, &mut report);
    }
    // The pods of a controller repeat its template.
    let of_controller = |one: &Workload| {
        let owner = one.owner.as_ref();
        owner.is_some_and(|(kind, name)| controller(workloads, kind, name).is_some())
    };
    for workload in workloads.iter().filter(|one| !of_controller(one)) {
        if manifests.is_empty() && !workload.uses_rdma(cluster) {
            continue;
        }
        report.workloads.push(workload.subject());
        attachments::check(cluster, workload, &mut report);
        environment::check(workload, &mut report);
        resources::check(cluster, workload, &mut report);
        security::check(cluster, workload, &mut report);
        memlock::check(cluster, workload, &mut report);
        quota::check(cluster, workload, &mut report);
    }
    if manifests.is_empty() {
        events::check(cluster, workloads, &mut report);
    }
    report.sort();
    report
}

/// The workload with this kind and name. A `ReplicaSet` has the name of its Deployment and a hash.
fn controller<'a>(workloads: &'a [Workload], kind: &str, name: &str) -> Option<&'a Workload> {
    let (kind, name) = match name.rsplit_once('-') {
        Some((deployment, _)) if kind == "ReplicaSet" => ("Deployment", deployment),
        _ => (kind, name),
    };
    workloads
        .iter()
        .find(|other| other.kind == kind && other.name == name)
}

/// Everything in the namespace that has pods and has not ended.
fn workloads(cluster: &Cluster, report: &mut Report) -> Vec<Workload> {
    let mut all = Vec::new();
    let named = cluster
        .controllers
        .iter()
        .map(|(name, listed)| (name.as_str(), listed));
    for (name, listed) in named.chain([("pods", &cluster.pods)]) {
        if let Listed::NotRead(why) = listed {
            report.not_checked(&format!("{name} of the namespace"), why);
        }
        let found = listed.items().iter();
        let of_object = found.flat_map(|object| Workload::in_object(object, &cluster.namespace, true));
        all.extend(of_object.filter(|workload| !workload.has_ended()));
    }
    all
}

/// A list for a message, cut after a few.
fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    const MOST: usize = 8;
    let all: Vec<_> = items.into_iter().map(|item| item.as_ref().to_owned()).collect();
    let more = all.len().saturating_sub(MOST);
    let text = all.into_iter().take(MOST).collect::<Vec<_>>().join(", ");
    if more > 0 {
        return format!("{text} and {more} more");
    }
    text
}
