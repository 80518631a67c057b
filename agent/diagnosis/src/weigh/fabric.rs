//! What the tools of an InfiniBand fabric report, and libraries that do not fit together.

use rdma_health_protocol::Errno;

use super::{Case, Scales, cluster::GUID_STEP};
use crate::log::{ZeroGuid, is_of_build};
use crate::symptom::{Software, Symptom, SymptomKind};

/// A GUID of zero that a tool showed, where `rdma_cm` then found no device: it looks for one by its GUID.
pub(super) fn without_guid<'a>(case: &Case<'a>) -> Option<&'a ZeroGuid> {
    let zero = case.log?.zero_guid.as_ref()?;
    let is_unfound =
        |symptom: &Symptom| symptom.line > Some(zero.line) && symptom.named.errno == Some(Errno::ENODEV);
    let mut unresolved = case.seen(&[SymptomKind::AddressUnresolved]);
    unresolved.any(is_unfound).then_some(zero)
}

/// Whether the device with a GUID of zero has ports of Ethernet, by what the tool printed or by this node.
fn is_of_ethernet(case: &Case<'_>, zero: &ZeroGuid) -> bool {
    zero.is_ethernet.unwrap_or_else(|| {
        let mut hcas = case.node.hcas();
        let own = hcas.find(|hca| zero.device.as_deref() == Some(&*hca.name));
        own.is_some_and(|hca| case.node.ports_of(hca).any(|port| port.is_ethernet()))
    })
}

/// What to do about a virtual function with a GUID of zero.
pub(super) fn step_of_zero(case: &Case<'_>, zero: &ZeroGuid) -> &'static str {
    if is_of_ethernet(case, zero) {
        MAC_STEP
    } else {
        GUID_STEP
    }
}

/// How a virtual function of Ethernet gets its GUID: its driver makes it of the administrative MAC address when it starts.
const MAC_STEP: &str = "Give the virtual function an administrative MAC address on the host, and bind its driver again, which makes the GUID of it: ip link set PF vf N mac MAC, then echo \
    ADDRESS > /sys/bus/pci/drivers/mlx5_core/unbind, and the same with bind. The SR-IOV operator does so for policies with isRdma: true. rdma_cm finds no device without a \
    GUID; programs that connect without it work. ibv_devinfo must show a node_guid that is not zero.";

/// Two devices with one GUID, or one without.
pub(crate) fn guids(case: &Case<'_>, scales: &mut Scales) {
    let only_shown = || {
        case.seen(&[SymptomKind::GuidZero]).next()?;
        case.log?.zero_guid.as_ref()
    };
    if let Some(zero) = without_guid(case).or_else(only_shown) {
        scales.shows(format!("log line {}", zero.line), &zero.text);
        if is_of_ethernet(case, zero) {
            scales.next_step = Some(MAC_STEP.to_owned());
            return;
        }
        scales.next_step = Some(
            "Give the device its GUID: rdma_cm finds no device whose node GUID is zero. A virtual function: on the host, ip link set PF vf N node_guid GUID and the same with port_guid, \
            then bind its driver again. A physical one: update its firmware (mlxfwmanager), and flash its GUIDs (flint -d ADDRESS query shows them; flint sg sets them). ibv_devinfo must \
            show a node_guid that is not zero."
                .into(),
        );
        return;
    }
    let Some(symptom) = case.seen(&[SymptomKind::GuidDuplicated]).next() else {
        return;
    };
    scales.fits(&symptom.source, &symptom.text);
    scales.next_step = Some(
        "Find the two devices that have the GUID: ibnetdiscover | grep -i GUID, and ibstat on the nodes that the log names. A copied virtual \
        machine, a virtual function or a wrongly flashed adapter has that of another one: set its own GUID (ip link set PF vf N node_guid …, \
        mlxconfig or mstflint). If one cable connects a switch or adapter to itself, remove it."
            .into(),
    );
}

/// The step for what a subnet manager refuses, or why it does not start; `None` if the cause's own text applies.
pub(super) fn step(symptom: &Symptom) -> Option<&'static str> {
    let text = symptom.text.to_ascii_lowercase();
    Some(match symptom.kind {
        SymptomKind::ManagerNotStarted => {
            "Read why the subnet manager stopped: journalctl -u opensm, and the end of /var/log/opensm.log. Only one can manage a port: check that no other opensm runs on this node (pgrep -a \
            opensm), that it runs as root, that ib_umad is loaded, and that the port with the GUID in the log exists and is InfiniBand (ibstat)."
        }
        SymptomKind::JoinRefused if text.contains("err ") || text.contains("mgid") => {
            "Compare the port with the group: saquery -g shows the partition, MTU and rate of the group, ibstat and ibv_devinfo those of the port. \
            A port whose rate or MTU is below the group's is refused: repair its link, or lower mtu and rate of the group in opensm's \
            partitions.conf. A port outside the partition needs an entry there."
        }
        _ => return None,
    })
}

/// What to do about links of the fabric that count errors, or run below their speed or width.
pub(super) const COUNTERS: &str = "Clear the counters of the fabric (ibqueryerrors -k), wait an hour, and run ibqueryerrors again. Reseat, then replace the cables of \
    the ports whose error counters rise, and of links below their width or speed (iblinkinfo marks them: Could be …). Totals alone may be of the last time when \
    a cable was plugged.";

/// What to do where PSM3, which uses ports of Ethernet, finds one inactive.
const PSM3_INACTIVE: &str = "PSM3 uses RDMA over Ethernet, which has no fabric manager. Run rdma link and ip -brief address: the port that it names needs a link that is up and an address on its \
    network device (ip link set NETDEV up). If the job should use another network, leave PSM3 out: FI_PROVIDER=^psm3, or --mca mtl ^ofi with Open MPI and UCX.";

/// What to do where an interface of IP over InfiniBand was never set up.
const NOT_SET_UP: &str = "Set the interface up: ip link set NETDEV up, and give it an address: ip address add ADDRESS/PREFIX dev NETDEV (nmcli, netplan or the network's own configuration keeps both). It \
    shows qdisc noop and no flag UP, so that nothing has used it since the node started, and programs that look for an address over it (rdma_cm, libfabric's verbs;ofi_rxm) find none. If it does not come \
    up then, look at the port: ibstat.";

/// The step where the library of Omni-Path finds no port that is active.
pub(super) fn inactive_step(symptom: &Symptom) -> Option<&'static str> {
    let text = symptom.text.to_ascii_lowercase();
    if text.contains("psm3") {
        return Some(PSM3_INACTIVE);
    }
    if text.contains("qdisc noop") {
        return Some(NOT_SET_UP);
    }
    let is_hfi = text.contains("hfi");
    is_hfi.then_some(
        "Run opainfo on the node: it shows the state of the port. Down or Polling: check the cable and the port of the switch. Init: no fabric manager has \
        configured the port: systemctl status opafm on the node that runs it, then systemctl restart opafm.",
    )
}

/// What to do where a node or switch of the fabric does not answer management packets.
const UNANSWERED: &str = "The node or switch at the end of the path that the log shows does not answer management packets. Find it: smpquery -D nodeinfo \
    PATH for a directed route (0,1,…), ibtracert or iblinkinfo for a LID. Check that it is switched on, that its driver is loaded and its cable \
    is plugged, and look for errors on the links: ibqueryerrors. One such message while a node restarts is harmless.";

/// The step where the tools of the fabric got no answer.
pub(super) fn unanswered(case: &Case<'_>) -> Option<&'static str> {
    let mut silent = case.seen(&[SymptomKind::PeerUnreachable]);
    silent
        .any(|symptom| symptom.software == Some(Software::Fabric))
        .then_some(UNANSWERED)
}

/// What to do where a program that uses RDMA does not compile or link.
const HEADERS: &str = "Install the headers and libraries where the program is built: apt-get install libibverbs-dev librdmacm-dev on Debian and Ubuntu, dnf install \
    rdma-core-devel on RHEL and Fedora, zypper install rdma-core-devel on SUSE. If they are there and a name is still missing, the program needs a newer rdma-core \
    (or the one of MLNX_OFED or DOCA). Nothing has run yet, so no device failed.";

/// What to do where Intel MPI does not find the library of DAPL.
const DAPL: &str = "Let Intel MPI use another network than DAPL: I_MPI_FABRICS=shm:ofi with Intel MPI 2019 and later, shm:ofa before. Or install DAPL \
    (package dapl, which newer distributions no longer have) and register the adapter in /etc/dat.conf. The lines after it (I_MPI_DEBUG=5) show which network \
    Intel MPI took in the end.";

/// The step for a library that is missing, or fits neither the driver of the kernel nor the others.
pub(super) fn library_step(symptom: &Symptom) -> Option<&'static str> {
    let text = symptom.text.to_ascii_lowercase();
    if is_of_build(&text) {
        return Some(HEADERS);
    }
    if text.contains("libdat") {
        return Some(DAPL);
    }
    if text.contains("ernel abi") {
        return Some(
            "The provider in user space and the driver of the kernel are of different releases. Install both from one source: the adapter \
            vendor's driver package with its own library, or the kernel's driver with the distribution's rdma-core. In a container, \
            install the provider that belongs to the host's driver. Then check with ibv_devinfo.",
        );
    }
    // A package manager's words; the loader's are others.
    let of_packages = [
        "conflict",
        "depends",
        "which is newer",
        "also in package",
        "cannot install",
        "needed by",
        "package: ",
        "none of the providers",
    ]
    .iter()
    .any(|words| text.contains(words));
    if symptom.kind == SymptomKind::LibraryMismatch && of_packages {
        return Some(
            "Packages of the distribution's rdma-core and of MLNX_OFED or DOCA-OFED, or of two releases of them, exclude each other. Show \
            what is installed: ofed_info -s, dpkg -l | grep -e ibverbs -e rdma, rpm -qa | grep -e ibverbs -e rdma. Keep one source: install \
            all of them from the vendor's package in one release (and hold or exclude those of the distribution at updates), or remove the \
            vendor's with its ofed_uninstall.sh and install rdma-core. Software such as UCX needs the build for that release.",
        );
    }
    if text.contains("version `ibverbs_") && !text.contains("`ibverbs_private_") {
        return Some(
            "The program was built with a newer libibverbs than the one that the loader found, whose path stands before its version in the message. Update rdma-core in the image \
            (libibverbs1 and ibverbs-providers) to the release that the program was built with, or a newer one; if there is one already, remove the older copy from \
            LD_LIBRARY_PATH. Or install the build of the program for this distribution.",
        );
    }
    (symptom.kind == SymptomKind::LibraryMismatch).then_some(
        "The libraries are of different releases of rdma-core or MLNX_OFED. Show which ones the program loads: ldd PROGRAM, and the packages \
        that they come from (dpkg -S, rpm -qf). Install libibverbs, librdmacm and the providers from one release, and remove old copies \
        from LD_LIBRARY_PATH.",
    )
}

/// The step for a program that calls the experimental verbs.
pub(super) const EXPERIMENTAL: &str = "The program was built for the experimental verbs (ibv_exp_*) of older MLNX_OFED. They work only if library and \
    kernel driver come from the same such release. Use a build of the program (UCX, MPI, HPC-X) for rdma-core or current drivers, or install the \
    driver on the node that its library belongs to. ofed_info -s shows the driver package, ldd PROGRAM the library.";

/// Whether the driver refused the initiator of a dynamically connected transport (DC).
pub(super) fn is_of_initiator(symptom: &Symptom) -> bool {
    symptom.text.to_ascii_lowercase().contains("dci")
}

/// The step for such an initiator.
pub(super) const INITIATOR: &str = "Install library and driver of one release, or leave the transport DC out: UCX_TLS=rc,ud,sm,self. The driver of the \
    kernel does not know what the library sets. Compare them: modinfo -n mlx5_ib (a path with /kernel/drivers/ is the kernel's own driver, /extra or /updates \
    that of MLNX_OFED or DOCA-OFED), and rpm -q rdma-core or dpkg -l rdma-core.";

/// The step where Omni-Path's library, or PSM3, could not open its device.
pub(super) fn psm_step(case: &Case<'_>) -> Option<&'static str> {
    let is_psm = |symptom: &&Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        ["hfi", "nic unit", "psm"].iter().any(|word| text.contains(word))
    };
    case.symptoms.iter().copied().find(is_psm)?;
    Some(
        "Where the job runs, check that the library's device is there and may be opened: ls -l /dev/hfi1_* and opainfo for Omni-Path (PSM2, \
        OPX), ls -l /dev/infiniband and fi_info -p psm3 for PSM3. On nodes without such an adapter choose another transport: \
        FI_PROVIDER=verbs or tcp, or --mca pml ucx.",
    )
}
