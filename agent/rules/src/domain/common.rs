//! What several rules ask about a node.

use rdma_health_node::{
    Node,
    infiniband::{CLASS, Hca, Port},
    node::PortOf,
    pci::{Function, Role},
};

use crate::{Expectations, Profile, Severity};

pub(crate) fn is_ethernet(port: &Port) -> bool {
    port.link_layer.known().is_some_and(|layer| layer == "Ethernet")
}

pub(crate) fn is_infiniband(port: &Port) -> bool {
    port.link_layer.known().is_some_and(|layer| layer == "InfiniBand")
}

/// Whether a device is an SR-IOV virtual function.
pub(crate) fn is_virtual(hca: &Hca) -> bool {
    hca.physical_function.known().is_some()
}

/// Whether a port stands for a virtual function in the switch of its adapter (switchdev). It goes up and down with
/// whoever has that function, and carries no RDMA of its own. An mlx5 device has one Ethernet port otherwise.
pub(crate) fn is_representor((hca, number, port): &PortOf<'_>) -> bool {
    *number > 1 && is_ethernet(port) && hca.driver.known().is_some_and(|driver| driver == "mlx5_core")
}

/// Whether a port's ups, downs and addresses are those of whoever it is lent to: the network device of a virtual function
/// moves into a pod and comes back switched off when the pod ends.
pub(crate) fn is_lent(port: &PortOf<'_>) -> bool {
    is_virtual(port.0) || is_representor(port)
}

/// The GPUs that the node itself uses: one that vfio-pci holds is a virtual machine's, which needs translation.
pub(crate) fn gpus(node: &Node) -> impl Iterator<Item = (&String, &Function)> {
    let lent = |gpu: &Function| {
        gpu.driver
            .known()
            .is_some_and(|driver| driver.starts_with("vfio"))
    };
    node.pci.with_role(Role::Gpu).filter(move |(_, gpu)| !lent(gpu))
}

/// Whether the node is itself a virtual machine.
pub(crate) fn in_virtual_machine(node: &Node) -> bool {
    node.host.virtual_machine.known() == Some(&true)
}

/// A file of a port.
pub(crate) fn port_file(hca: &Hca, number: u8, name: &str) -> String {
    format!("{CLASS}/{}/ports/{number}/{name}", hca.name)
}

/// What makes two ports comparable: one driver, one kind of board, one link layer, both virtual functions or neither.
/// `None` for a device that does not tell its kind.
pub(crate) fn kind<'a>((hca, _, port): &PortOf<'a>) -> Option<(&'a str, &'a str, &'a str, bool)> {
    let driver = hca.driver.known()?;
    let board = hca.board_id.known().or(hca.hca_type.known());
    // Software devices have no board; their driver says all.
    let board = board.map_or_else(|| hca.is_software().then_some(""), |board| Some(board.as_str()))?;
    Some((driver, board, port.link_layer.known()?, is_virtual(hca)))
}

/// How bad it is where nothing is said about the node and where RDMA is expected; `None` where it is not.
pub(crate) fn severity(expectations: &Expectations, auto: Severity, expected: Severity) -> Option<Severity> {
    match expectations.profile {
        Profile::TcpOnly => None,
        Profile::Auto => Some(auto),
        Profile::Rdma | Profile::GpuDirect => Some(expected),
    }
}

/// A rate in Gb/s, with a decimal only where it has one.
pub(crate) fn gigabits(bits_per_second: u64) -> String {
    let tenths = bits_per_second / 100_000_000;
    match tenths % 10 {
        0 => format!("{} Gb/s", tenths / 10),
        tenth => format!("{}.{tenth} Gb/s", tenths / 10),
    }
}

/// `1 port`, `3 ports`.
pub(crate) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// A duration in the unit that a person would choose.
pub(crate) fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A size in the largest binary unit that divides it, else in bytes.
pub fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units
        .into_iter()
        .find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or_else(
        || format!("{bytes} bytes"),
        |(shift, unit)| format!("{} {unit}", bytes >> shift),
    )
}
