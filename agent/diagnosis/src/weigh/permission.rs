//! The permission to use a device, which files, security modules, capabilities and workload managers give.

use rdma_health_node::node::VerbsDevice;
use rdma_health_protocol::Errno;

use super::{Case, Scales, pods};
use crate::symptom::{Symptom, SymptomKind};

/// What to do where a device is open and a queue pair of it may not be used.
const OF_TRANSITION: &str = "Let the job use another library or provider, to see which one is refused: FI_PROVIDER=verbs or tcp, --mca pml ucx (HOST:rankN.PROGRAM: begins lines of PSM3, \
    for which FI_PROVIDER=psm3 was chosen). The device is open by then: EPERM at INIT refuses a privileged Q_Key or a raw queue pair, not a partition key. Update the library \
    (PSM3 chose such a Q_Key in some releases); rdma system set privileged-qkey on allows it to all (Linux 6.7 and later), the capability NET_RAW to one process.";

/// What to do where the kernel answers with EPERM at the opening of a device file, which is not what modes of files and security modules answer with.
const OF_CGROUP: &str = "Operation not permitted is the answer of the device cgroup, not of the file's mode: the device is not in the list of the container or job. \
    Give it to them: --device=/dev/infiniband for Docker and Podman (a bind mount of the directory is not enough), the resource of the device plugin for a pod, and for Slurm \
    ConstrainDevices of cgroup.conf or the GRES that owns it. If the file cannot be opened on the host either, ls -lZ /dev/infiniband and id show why.";

/// Whether the kernel refused to open a device file with EPERM.
fn is_of_cgroup(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    symptom.named.errno == Some(Errno::EPERM)
        && ["open", "/dev/infiniband"].iter().any(|word| text.contains(word))
}

pub(crate) fn permission(case: &Case<'_>, scales: &mut Scales) {
    let denied = |errno: Option<Errno>| matches!(errno, Some(Errno::EPERM | Errno::EACCES));
    let by_policy = |symptom: &&&Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        symptom.kind == SymptomKind::NotPermitted && (text.contains("avc:") || text.contains("apparmor"))
    };
    if let Some(symptom) = case.symptoms.iter().find(by_policy) {
        scales.next_step = Some(pods::denied(symptom).to_owned());
        return scales.shows(&symptom.source, &symptom.text);
    }
    let refused = |symptom: &&&Symptom| symptom.kind == SymptomKind::NotPermitted;
    let of_transition = |symptom: &&&Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        ["to init", "state init", "reset to init", "reset->init"]
            .iter()
            .any(|words| text.contains(words))
    };
    if let Some(symptom) = case.symptoms.iter().filter(refused).find(of_transition) {
        scales.next_step = Some(OF_TRANSITION.to_owned());
        return scales.fits(&symptom.source, &symptom.text);
    }
    let changed = |symptom: &&&Symptom| symptom.text.contains("changed security contexts");
    if let Some(symptom) = case.symptoms.iter().filter(refused).find(changed) {
        scales.next_step = Some(
            "The process opened the device and then changed its user, group or capabilities, after which the kernel refuses its requests. Let it \
            give up privileges before it opens the device, or keep those with which it opened it; in a service, set User= and \
            AmbientCapabilities= instead of letting the program change them."
                .into(),
        );
        return scales.shows(&symptom.source, &symptom.text);
    }
    if let Some(symptom) = case.symptoms.iter().find(refused)
        && case.log.is_some_and(|log| log.marks.slingshot)
    {
        scales.next_step = Some(
            "The workload manager must allocate a VNI of the Slingshot adapter for the job: under Slurm start it with srun and check the plugin \
            switch/hpe_slingshot (SwitchType), elsewhere the operator of the VNIs. cxi_service list shows the services and who may use them, echo \
            $SLINGSHOT_VNIS $SLINGSHOT_SVC_IDS what the job got."
                .into(),
        );
        return scales.shows(&symptom.source, &symptom.text);
    }
    // A directory of settings is not the device, and nothing that a program may open makes it.
    let of_device = |symptom: &&&Symptom| !symptom.text.contains("/sys/kernel/config/");
    let symptom = case
        .symptoms
        .iter()
        .filter(of_device)
        .find(|symptom| denied(symptom.named.errno));
    if let Some(symptom) = symptom {
        if is_of_cgroup(symptom) {
            scales.next_step = Some(OF_CGROUP.to_owned());
        }
        return scales.shows(&symptom.source, &symptom.text);
    }
    // DEVX needs a capability that containers do not have by themselves (CAP_NET_RAW, or privileged).
    let of_devx = case
        .seen(&[SymptomKind::GpuDoorbellFailed])
        .find(|symptom| symptom.text.contains("devx_uar") || symptom.text.contains("devx_alloc_uar"));
    if let Some(symptom) = of_devx.filter(|symptom| symptom.named.errno.is_none()) {
        scales.next_step = Some(
            "The program uses DEVX, for which the driver requires the capability NET_RAW. Run the container \
            privileged, or add the capabilities NET_RAW and IPC_LOCK and the RDMA devices. If it fails on the host as root, too, set \
            NVSHMEM_IBGDA_NIC_HANDLER=cpu and update the firmware."
                .into(),
        );
        return scales.shows(&symptom.source, &symptom.text);
    }
    let refused = case
        .node
        .verbs
        .known()
        .into_iter()
        .flat_map(|all| all.iter())
        .find_map(|(name, device)| match device {
            VerbsDevice::Error(error) if denied(Some(Errno(error.errno))) => Some((name, error)),
            _ => None,
        });
    match refused {
        Some((name, error)) => scales.shows(
            format!("{} of {name}", error.call),
            format!("errno {}", error.errno),
        ),
        None => scales.unseen("permissions of /dev/infiniband where the job runs (ls -l)"),
    }
}
