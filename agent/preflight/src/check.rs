//! The checks. Each module knows one kind of problem.

mod affinity;
mod attachments;
mod devices;
mod environment;
mod events;
mod limit_range;
mod memlock;
mod messages;
mod pending;
mod policy;
mod quota;
mod rejected;
mod resources;
mod room;
pub(crate) mod scc;
mod scheduling;
mod security;
mod waiting;

use rdma_health_rules::Severity;

use crate::{
    cluster::{Cluster, Holder, Listed},
    report::{Finding, NAMESPACE_MISSING, Report},
    workload::Workload,
};

/// What the checks of one workload have in common.
struct Scope<'a> {
    cluster: &'a Cluster,
    /// Everything that is known to create pods.
    all: &'a [Workload],
}

/// Finds what keeps the pods from starting, or RDMA from working in them. With the workloads of `manifests`, only these are checked;
/// else everything in the namespace that uses RDMA.
pub fn preflight(cluster: &Cluster, manifests: Option<&[Workload]>) -> Report {
    let mut report = Report::new(&cluster.namespace);
    match &cluster.namespace_object {
        Listed::Read(found) if found.is_empty() => {
            report.add(Finding {
                rule: NAMESPACE_MISSING,
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
    for (what, why) in &cluster.not_understood {
        report.not_checked(what, why);
    }
    let from_cluster;
    let workloads = if let Some(manifests) = manifests {
        manifests
    } else {
        from_cluster = workloads(cluster, &mut report);
        from_cluster.as_slice()
    };
    let scope = Scope {
        cluster,
        all: workloads,
    };
    for workload in workloads
        .iter()
        .filter(|one| one.exists && one.uses_rdma(cluster))
    {
        pending::check(cluster, workload, &mut report);
    }
    let pods = workloads
        .iter()
        .filter(|one| one.exists && one.uses_rdma(cluster));
    waiting::check(pods, &mut report);
    // What a controller creates repeats its template.
    let of_controller = |one: &Workload| {
        let owner = one.owner.as_ref();
        owner.is_some_and(|(kind, name)| controller(workloads, kind, name).is_some())
    };
    for workload in workloads.iter().filter(|one| !of_controller(one)) {
        if manifests.is_none() && !workload.uses_rdma(cluster) {
            continue;
        }
        report.add_workload(workload.subject());
        attachments::check(cluster, workload, &mut report);
        environment::check(workload, &mut report);
        resources::check(&scope, workload, &mut report);
        security::check(cluster, workload, &mut report);
        devices::check(cluster, workload, &mut report);
        memlock::check(cluster, workload, &mut report);
        limit_range::check(cluster, workload, &mut report);
        quota::check(cluster, workload, &mut report);
        for what in workload.not_evaluated() {
            report.not_checked(
                &format!("{what} of {}", workload.subject()),
                "preflight does not evaluate them",
            );
        }
    }
    if manifests.is_none() {
        events::check(cluster, workloads, &mut report);
        rejected::check(cluster, workloads, &mut report);
    }
    report.sort();
    report
}

/// A `ReplicaSet` has the name of its Deployment and a hash.
fn deployment<'a>(kind: &'a str, name: &'a str) -> (&'a str, &'a str) {
    match name.rsplit_once('-') {
        Some((deployment, _)) if kind == "ReplicaSet" => ("Deployment", deployment),
        _ => (kind, name),
    }
}

/// The workload with this kind and name, or the Deployment of a `ReplicaSet`.
fn controller<'a>(workloads: &'a [Workload], kind: &str, name: &str) -> Option<&'a Workload> {
    let (above, above_name) = deployment(kind, name);
    let find = |kind, name| workloads.iter().find(|other: &&Workload| other.is(kind, name));
    find(above, above_name).or_else(|| find(kind, name))
}

impl Scope<'_> {
    /// Whether a pod is one of a workload's own: the pod itself, or created by it, directly or through other controllers.
    fn is_own(&self, workload: &Workload, holder: &Holder) -> bool {
        /// A pod of a `LeaderWorkerSet` is three below it.
        const DEEPEST: usize = 8;
        if holder.namespace != workload.namespace {
            return false;
        }
        if workload.is("Pod", &holder.name) {
            return true;
        }
        let mut above = holder.owner.clone();
        for _ in 0..DEEPEST {
            let Some((kind, name)) = above else { return false };
            let (of, of_name) = deployment(&kind, &name);
            if workload.is(of, of_name) || workload.is(&kind, &name) {
                return true;
            }
            above = controller(self.all, &kind, &name).and_then(|found| found.owner.clone());
        }
        false
    }
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

/// `1 pod`, `3 pods`.
fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
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
