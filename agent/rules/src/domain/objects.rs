//! What limits registered memory and RDMA objects, other than the memlock limit.

use rdma_health_node::{Node, objects::Reached, platform::Architecture, words::size};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Subject, Writer, draft::Draft,
};

/// `registration-limit`.
pub static REGISTRATION_LIMIT: Rule = Rule {
    id: "registration-limit",
    domain: Domain::Limits,
    policy: Policy::of(Severities::WARNING),
    title: "A setting limits registered memory or RDMA objects",
    explanation: "The driver of ConnectX-3 (mlx4_core) maps only as much memory as its table has entries: 2^log_num_mtt segments of \
        2^log_mtts_per_seg pages. If that is less than the memory of the node, registration fails with ENOMEM while memory is free, and Open MPI \
        warns about 'registering only part of your physical memory'. Or an RDMA cgroup (rdma.max) has all the open devices or objects (queues, memory \
        regions) that it may have, so that ibv_open_device or the creation of an object fails with ENOMEM or EAGAIN.",
    remedy: Remedy::all(
        "Raise the limit that the finding names, or remove the setting, and start the programs again.",
    ),
    false_alarms: "The table is judged only if its size was set, on x86, and if it maps less than the memory of the node; without a setting, the driver sizes it \
        by that memory. A limit of a cgroup is reported only if it was reached; cgroups below the first level are not read.",
    inputs: &[Writer::HostRoot, Writer::Process],
    judge: registration_limit,
};

const TABLE: Remedy = Remedy {
    any: "Raise log_num_mtt of the module mlx4_core, so that 2^log_num_mtt x 2^log_mtts_per_seg x 4096 is twice the memory of the node, or remove the \
    setting: the line 'options mlx4_core' in /etc/modprobe.d. If the module is in the initramfs, write that again (dracut -f, update-initramfs -u), then reboot.",
    host: "grep -r mlx4_core /etc/modprobe.d; grep . /sys/module/mlx4_core/parameters/log_*",
    ..Remedy::all("")
};

const CGROUP: Remedy = Remedy {
    any: "Raise the limit, or remove it, where it was set: the configuration of the slice or of the batch system, which wrote it to rdma.max of the cgroup. See what holds the \
        objects: rdma resource show.",
    host: "cd /sys/fs/cgroup/GROUP; cat rdma.max rdma.current; echo 'DEVICE hca_handle=max hca_object=max' > rdma.max",
    ..Remedy::all("")
};

fn registration_limit(node: &Node, _: &Expectations) -> Vec<Draft> {
    let reached = node.objects.reached.known().into_iter().flatten();
    let reached = reached.filter(|reached| {
        let hcas = node.hcas.known();
        hcas.is_some_and(|hcas| hcas.contains_key(reached.device.as_str()))
    });
    let of_groups = reached.take(MAX_FINDINGS).map(of_group);
    table_too_small(node).into_iter().chain(of_groups).collect()
}

/// The most findings about cgroups.
const MAX_FINDINGS: usize = 16;

/// The table of `mlx4_core` maps less than the memory of the node.
fn table_too_small(node: &Node) -> Option<Draft> {
    const PAGE: u64 = 4096;
    const PARAMETERS: &str = "/sys/module/mlx4_core/parameters";
    let table = node.objects.mlx4.known()?;
    let is_of_driver = |driver: &String| driver.starts_with("mlx4");
    let is_used = node
        .hcas()
        .any(|hca| hca.driver.known().is_some_and(is_of_driver));
    let maps = table.maps(PAGE);
    if !is_used || node.platform().architecture != Some(Architecture::X86) || maps >= table.memory {
        return None;
    }
    let (segments, pages) = (table.log_num_mtt, table.log_mtts_per_seg);
    let message = format!(
        "mlx4_core can map {} of registered memory (log_num_mtt={segments}, log_mtts_per_seg={pages}); the node has {}",
        size(maps),
        size(table.memory)
    );
    let finding = Draft::new(&REGISTRATION_LIMIT, Subject::node(), message)
        .case(FindingCase::RegistrationRefused)
        .remedy(TABLE)
        .evidence(format!("{PARAMETERS}/log_num_mtt"), segments)
        .evidence(format!("{PARAMETERS}/log_mtts_per_seg"), pages)
        .evidence("/proc/meminfo", size(table.memory));
    Some(finding)
}

/// A cgroup that has all it may have, or was refused more.
fn of_group(reached: &Reached) -> Draft {
    let (group, device) = (&reached.group, &reached.device);
    let name = group.strip_prefix("/sys/fs/cgroup/").unwrap_or(group);
    let what = if reached.resource == "hca_handle" {
        "open devices"
    } else {
        "RDMA objects"
    };
    let refused = match reached.refused {
        0 => String::new(),
        times => format!(", and was refused more {times} times"),
    };
    let message = format!(
        "the cgroup {group} has {} of at most {} {what} on {device}{refused}",
        reached.current, reached.limit
    );
    Draft::new(&REGISTRATION_LIMIT, Subject::device(device), message)
        .case(FindingCase::RegistrationRefused)
        .remedy(CGROUP)
        .fill("GROUP", name)
        .evidence(
            format!("{group}/rdma.max"),
            format!("{}={}", reached.resource, reached.limit),
        )
        .evidence(
            format!("{group}/rdma.current"),
            format!("{}={}", reached.resource, reached.current),
        )
}
