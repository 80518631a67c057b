//! Messages of storage over RDMA: NVMe over Fabrics, iSER, SRP, Lustre, NFS, GPFS, `BeeGFS`, Ceph, SMB Direct.

use super::Row;
use crate::symptom::SymptomKind::{self as K};

/// Kernel modules and programs in user space.
pub(super) const ROWS: &[Row] = &[
    // The two ends differ: an administrator has to compare their settings.
    (&["kiblnd", "incompatible"], K::PeerDiffers),
    (&["kiblnd", "too large"], K::PeerDiffers),
    (&["kiblnd", "too big"], K::PeerDiffers),
    (&["kiblnd", "is different with requested version"], K::PeerDiffers),
    (&["kiblnd", "o2iblnd version"], K::PeerDiffers),
    (&["invalid sqsize"], K::PeerDiffers),
    (&["kiblnd", "bad dst nid"], K::PeerDiffers),
    (&["kiblnd", "is not privileged"], K::PeerDiffers),
    (&["kiblnd", "number of frags"], K::PeerDiffers),
    (&["kiblnd", "too many fragments"], K::PeerDiffers),
    // The daemons of GPFS lost their connection over TCP.
    (&["close connection to ", ". attempting reconnect"], K::TcpError),
    (&["lost membership in cluster"], K::TcpError),
    (&["fatal device error for ni"], K::DeviceFatal),
    (&["received notification of device removal"], K::DeviceGone),
    (&["detected device removal"], K::DeviceGone),
    // targetcli: the directory of the fabric is there once its module is loaded.
    (
        &["rtslib object for /ib_srpt", "does not exist"],
        K::ModuleMissing,
    ),
    // SPDK: `Port 192.168.100.9:4420 on device mlx5_1 is being removed.`
    (&["on device ", " is being removed"], K::DeviceGone),
    // No answer to a request of the InfiniBand connection manager (SRP).
    (&["ib_srp: sending cm req failed"], K::PeerUnreachable),
    (&["ib_srp: connection ", " failed"], K::CmFailed),
    (&["rds/rdma", "rejected"], K::ConnectRefused),
    (&["login rejected", "authorization"], K::StorageRefused),
    // SMB Direct: the queues of a connection are longer than the adapter allows.
    (&["possible cqe overrun", "max_cqe"], K::ResourceLimit),
    (&["device max_send_sge", "too small"], K::UnsupportedAdapter),
    (&["device max_recv_sge", "too small"], K::UnsupportedAdapter),
    // The module for the transport, by its name and by its number in the configuration of a port.
    (&["failed to load transport rdma"], K::ModuleMissing),
    (&["nvmet: transport type 1 not supported"], K::ModuleMissing),
    // The module of Lustre is missing; one for a mount over TCP has nothing to do with RDMA.
    (&["mount.lustre", "@o2ib", "no such device"], K::ModuleMissing),
    (
        &["mount.lustre", "@o2ib", "input/output error"],
        K::PeerUnreachable,
    ),
    (&["mount.lustre", "@o2ib", "timed out"], K::PeerUnreachable),
    (
        &["mount.lustre", "@o2ib", "endpoint shutdown"],
        K::PeerUnreachable,
    ),
    // A block device that a server of rtrs does not have or does not give away.
    (&["rnbd_client", "map_device: failed"], K::StorageRefused),
    // Targets and clients whose connection did not get further: 3FS.
    (&["ibsocket ", " accept timeout"], K::PeerUnreachable),
    (&["ibsocket ", "still in ", " state after "], K::PeerUnreachable),
    (&["ibvsocket", "device removed"], K::DeviceGone),
    (&["unreachable event"], K::PeerUnreachable),
    (&["connect error event"], K::CmFailed),
    (&["rdma device array was empty"], K::NoDevice),
    (&["exceeds max io size"], K::PeerDiffers),
    (&["drbd", "rdma", "tx timeout"], K::PeerUnreachable),
    (&["drbd", "set max-buffers at least to"], K::SettingUnmatched),
    (&["does not support fmrs nor fastregs"], K::UnsupportedAdapter),
    (&["memory registrations not supported"], K::UnsupportedAdapter),
    (&["does not support memory registrations"], K::UnsupportedAdapter),
    // All memory regions of a connection are in use.
    (&["ib_srp", "out of mrs"], K::ResourceLimit),
    // The other end took leave in the words of the InfiniBand connection manager.
    (&["ib_srp", "dreq received"], K::PeerClosed),
    (&["ib_srp", "received dreq"], K::PeerClosed),
    (&["ib_srp", "got target logout request"], K::PeerClosed),
    (&["srp_login_rej", "too large"], K::PeerDiffers),
    // What a target does not offer that the host over RDMA needs.
    (&["mandatory keyed sgls are not supported"], K::PeerDiffers),
    (&["nvme nvme", "icdoff is not supported"], K::PeerDiffers),
    (&["fmrs are not supported"], K::UnsupportedAdapter),
    (&["kiblnd", "tried too early"], K::PeerClosed),
    (&["kiblnd", "no resources"], K::ResourceLimit),
    (&["ko2iblnd", "interface name mismatch"], K::SettingUnmatched),
    // ksmbd takes most interfaces for those without RDMA, and should take one of IP over InfiniBand for one with it.
    (&["netdev(ib", "rdma capable : false"], K::Unrecognised),
    // What the target answers to the connect command of NVMe, after RDMA connected.
    (&["connect command completed with error"], K::StorageRefused),
    (&["srp login failed"], K::CmFailed),
    // The target's part in the kernel is not there, or of another build than LIO.
    (&["could not create srptfabricmodule"], K::ModuleMismatch),
    // DRBD has no buffer of the peer left for its messages.
    (&["flow_control", "no receive window"], K::SettingAdvised),
    (&["drbd", "rdma: ", "no receive window"], K::SettingAdvised),
    (&["drbd", "rdma: ", "no send window"], K::SettingAdvised),
    (&["starting up lni o2ib"], K::AddressUnresolved),
    (&["ko2iblnd: no matching interfaces"], K::AddressUnresolved),
    (&["can't initialize device", "ko2iblnd"], K::AddressUnresolved),
    (&["lnet", "couldn't query intf"], K::AddressUnresolved),
    (&["couldn't query intf ib"], K::AddressUnresolved),
    // LNet has no network: none is configured, or its interface was not there.
    (&["ioc_libcfs_get_ni", "network is down"], K::AddressUnresolved),
    (&["ioc_libcfs_get_ni error"], K::AddressUnresolved),
    (&["no route to", "@o2ib"], K::RouteUnresolved),
    (
        &["kiblnd", "can't query ipoib interface", "down"],
        K::PortNotActive,
    ),
    // The target knows this host or what it asked for, or not.
    (&["for subsystem", "not allowed"], K::StorageRefused),
    (&["does not allow host"], K::StorageRefused),
    (&["connect invalid data parameter"], K::StorageRefused),
    (&["connect invalid sq parameter"], K::PeerDiffers),
    (&["connect for subsystem", "rejected"], K::StorageRefused),
    (&["due to authorization failure"], K::StorageRefused),
    (&["login authentication failed"], K::StorageRefused),
    (&["initiator node", "not authorized"], K::StorageRefused),
    (&["iscsi login negotiation failed"], K::StorageRefused),
    (&["mount.nfs", "access denied by server"], K::StorageRefused),
    (&["srp login", "rejected"], K::StorageRefused),
    // SPDK that was built without its transport over RDMA, which has the number 1.
    (&["nvme trtype 1 ", "not available"], K::BackendMissing),
    (&["transport rdma", "must be created first"], K::SettingUnmatched),
    // A buffer that the program did not register: SPDK registers its own huge pages only.
    (&["no translation for ptr"], K::PostRefused),
    (&["transport type 'rdma' unavailable"], K::BackendMissing),
    (&["rdma transport", "not supported"], K::BackendMissing),
    (&["transport rdma", "not supported"], K::BackendMissing),
    // The kernel does not accept the options of a connection, and says here which.
    (&["nvme_fabrics: ", "invalid"], K::OptionsRefused),
    (&["nvme_fabrics: ", "unknown parameter"], K::OptionsRefused),
    (&["nvme_fabrics: ", "found same host"], K::OptionsRefused),
    (&["nvme nvme", "invalid mnan value"], K::PeerDiffers),
    (&["transport-type 'rdma' is not valid"], K::BackendMissing),
    // Modules.
    (&["no handler found for transport rdma"], K::ModuleMissing),
    (&["could not load transport iser"], K::ModuleMissing),
    (&["unable to request rdma services"], K::ModuleMissing),
    (&["/dev/nvme-fabrics: no such file"], K::ModuleMissing),
    // The kernel had no memory for the queues of the connection, or the adapter no room.
    (&["/dev/nvme-fabrics: cannot allocate memory"], K::ResourceLimit),
    (&["smc-r", "link down"], K::PeerUnreachable),
    (&["smc-r", "link removed"], K::PeerUnreachable),
    // SPDK does not use a completion queue that cannot grow.
    (&["doesn't support cq resize"], K::UnsupportedAdapter),
    // SMB Direct needs more entries in a request than the adapter has.
    (&["max_send_sge", "too small"], K::UnsupportedAdapter),
    (&["max_recv_sge", "too small"], K::UnsupportedAdapter),
    // The kernel's clients and targets of storage register memory through the queue, or not at all.
    (&["does not support fast registration"], K::UnsupportedAdapter),
    (&["does not support enough sges"], K::UnsupportedAdapter),
    (&["rdma transport connect failed"], K::CmFailed),
    (&["hb missed max reached"], K::PeerUnreachable),
    (&["hb err handler"], K::PeerUnreachable),
    // Of NVMe over any fabric: why the connection ended is in other lines, or in the log of the target.
    (&["nvme nvme", "starting error recovery"], K::Unrecognised),
    (&["nvmet: ctrl", "fatal error occurred"], K::Unrecognised),
    (&["cq transport error"], K::PeerClosed),
    // SPDK, after any error of a completion.
    (&["cq error, abort requests after"], K::JobFailed),
    // The client of VMware's ESXi.
    (&["nvmerdma:", "queue not connected"], K::PeerClosed),
    (&["device fatal event"], K::DeviceFatal),
    (&["connection reset by remote peer"], K::PeerClosed),
    (&["exceeds device max_"], K::ResourceLimit),
    (&["nvmet", "keep-alive", "expired"], K::PeerUnreachable),
    (&["failed to ping", "@o2ib"], K::PeerUnreachable),
    (&["@o2ib", "was lost; in progress operations"], K::PeerClosed),
    (&["peer ni (", "unreachable"], K::PeerUnreachable),
    (&["cannot add network"], K::AddressUnresolved),
    // GPFS.
    (
        &["verbs rdma", "pagepool could not be registered"],
        K::ResourceLimit,
    ),
    (
        &["verbs rdma", "increasing infiniband device mtts"],
        K::ResourceLimit,
    ),
    // The target of tgt, whose buffers are System V shared memory.
    (&["shmget rdma pool", "failed"], K::HostMemory),
    (
        &["verbs rdma", "no verbs rdma ports are active"],
        K::PortNotActive,
    ),
    (&["verbsports", "ignored due to"], K::SettingUnmatched),
    (&["verbsport", "due to missing port"], K::SettingUnmatched),
    (&["verbs rdma parse error"], K::SettingUnmatched),
    (&["verbs rdma", "no active verbsports"], K::PortNotActive),
    (&["verbs rdma library", "could not be loaded"], K::NoLibrary),
    (&["verbs rdma failed to start"], K::NoDevice),
    (&["verbs rdma connect timeout"], K::PeerUnreachable),
    (&["verbs rdma", "no ip address found"], K::AddressUnresolved),
    // Ceph.
    (&["requested local gid address is not found"], K::NoGid),
    (&["could not create rdma device for"], K::OpenFailed),
    // DAOS.
    (&["could not initialize na", "verbs"], K::OpenFailed),
    (&["failed to find device", "infiniband"], K::SettingUnmatched),
    (&["smb_direct", "listen", "-98"], K::AddressInUse),
    (&["smb_direct: can't bind: -98"], K::AddressInUse),
    (&["nvmet_rdma: listening to", "failed (-98)"], K::AddressInUse),
    (&["nvmet_rdma: binding cm id", "failed (-98)"], K::AddressInUse),
    (&["nvmet_rdma: listening to", "failed ("], K::AddressUnresolved),
    (&["kiblnd", "route error"], K::RouteUnresolved),
    (&["kiblnd", "addr error"], K::AddressUnresolved),
    (&["kiblnd", "connect error"], K::CmFailed),
    (&["kiblnd", "unreachable"], K::PeerUnreachable),
    (&["kiblnd", "conn race"], K::PeerClosed),
    (&["kiblnd", "no listener"], K::NoListener),
    (&["kiblnd", "rejected"], K::ConnectRefused),
    (&["kiblnd", "timed out"], K::PeerUnreachable),
    (&["timed out rdma"], K::PeerUnreachable),
    (&["failed to bind", "to device"], K::AddressUnresolved),
    // The adapter does not take pieces of memory with gaps between them as one region.
    (&["kiblnd", "failed to map mr"], K::RegMrFailed),
    (&["kiblnd", "can't query ipoib interface"], K::AddressUnresolved),
    (&["kiblnd", "not bound to a device"], K::AddressUnresolved),
    (&["nvme_keep_alive_end_io"], K::PeerUnreachable),
    // A driver that reports states which do not exist.
    (&["update_ibv_state", "bad state updated"], K::QueueFatal),
    // The target of iSCSI in user space, with iSER.
    (&["iser_ib_init", "failed to initialize rdma"], K::ModuleMissing),
    // Gluster's transport over RDMA.
    (&["rdma", "failed to initialize ib device"], K::NoDevice),
    (&["cq resize failed", "cannot allocate memory"], K::CreateFailed),
    // The number that SPDK prints here is that of an earlier call: drivers without this operation set none.
    (&["cq resize failed"], K::UnsupportedAdapter),
    (&["nvme", "address resolution error"], K::AddressUnresolved),
    (&["nvme", "route resolution error"], K::RouteUnresolved),
    (&["protocol: tcp", "fallback route"], K::SocketFallback),
    (&["failed to initialize mr pool"], K::ResourceLimit),
    (&["failed to allocate pi mr pool"], K::ResourceLimit),
    (&["ib_srp: got failed path rec status"], K::RouteUnresolved),
    (&["ib_srp: no route available"], K::RouteUnresolved),
    (&["ib_srp: path resolution failed"], K::RouteUnresolved),
    (&["ib_srpt: rejected login for initiator"], K::StorageRefused),
    (
        &["ib_srpt: rejected srp_login_req", "not yet been enabled"],
        K::StorageRefused,
    ),
    (&["rejected srp_login_req", "out of memory"], K::HostMemory),
    // The line before has the error number.
    (
        &["rejected srp_login_req", "creating a new"],
        K::CreateUnexplained,
    ),
    (&["rejected srp_login_req"], K::StorageRefused),
    (&["rpcrdma: 'frwr' mode is not supported"], K::UnsupportedAdapter),
    (&["isert", "failed to post rdma"], K::QueueFull),
    // What Windows writes into the log of its SMB client.
    (
        &["rdma interfaces are available but the client failed to connect"],
        K::CmFailed,
    ),
    (&["a network connection was disconnected", "rdma"], K::PeerClosed),
    (&["nvme", "rdma connection establishment failed"], K::CmFailed),
    (&["nvme", "failed to connect queue"], K::CmFailed),
    (&["verbs rdma closed connection"], K::PeerClosed),
    (&["verbs rdma rdma connect error"], K::CmFailed),
    (&["verbs rdma", "not available"], K::NoDevice),
    (&["verbs rdma", "no ", "device"], K::NoDevice),
    (&["verbs rdma", "could not be started"], K::OpenFailed),
    (&["verbs rdma", "open error"], K::OpenFailed),
    (&["rpcrdma", "connection", "closed"], K::PeerClosed),
    (&["iser", "connection establishment failed"], K::CmFailed),
    (&["ib_srp", "failed to connect"], K::CmFailed),
    (&["ib_srp", "rej received"], K::ConnectRefused),
];
