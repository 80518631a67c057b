//! What the kernel reports about a device, in a fixed vocabulary.

use serde::{Deserialize, Serialize};

/// Generates the kinds and their names from one list.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $name:literal, $class:ident;)*) => {
        /// What a message of the kernel log reports about a device.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum EventKind {
            $($(#[$doc])* $kind,)*
        }

        impl EventKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Their names.
            pub const NAMES: &[&str] = &[$($name,)*];

            /// Its name in metrics and JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// What it says about the device.
            pub fn class(self) -> EventClass {
                match self {
                    $(Self::$kind => EventClass::$class,)*
                }
            }
        }
    };
}

/// What an event says about its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventClass {
    /// The device does not work, or not as it should.
    Fault,
    /// A call or request was refused, or a driver reports an error that this program does not know.
    Notice,
    /// The device started or works again.
    Recovery,
}

kinds! {
    /// The driver found the adapter or its firmware dead or in an error state.
    AdapterHealth: "adapter-health", Fault;
    /// The adapter is too hot.
    AdapterTemperature: "adapter-temperature", Fault;
    /// The firmware did not answer a command in time.
    CommandTimeout: "command-timeout", Fault;
    /// The adapter stopped sending packets that the kernel queued.
    TxTimeout: "tx-timeout", Fault;
    /// The firmware did not finish its initialisation.
    FirmwareInit: "firmware-init", Fault;
    /// The driver gave up on the device.
    ProbeFailed: "probe-failed", Fault;
    /// An uncorrectable PCIe error, a PCIe link that was shut down, or a device that left the bus.
    PciFatal: "pci-fatal", Fault;
    /// An uncorrectable PCIe error that is not fatal: one transaction failed.
    PciNonfatal: "pci-nonfatal", Fault;
    /// The slot offers less power than the adapter may draw.
    PciPower: "pci-power", Fault;
    /// The bounce buffers for DMA (SWIOTLB) have no room for a transfer of the device.
    BounceFull: "bounce-full", Fault;
    /// A security module of the kernel (`SELinux`, `AppArmor`) denied a process the access to a device node.
    AccessDenied: "access-denied", Notice;
    /// The IOMMU blocked a memory access of the device.
    IommuFault: "iommu-fault", Fault;
    /// The cable or transceiver is faulty, too hot, or needs too much power.
    ModuleFault: "module-fault", Fault;
    /// A cable or transceiver was removed.
    ModuleUnplugged: "module-unplugged", Fault;
    /// Pause frames (IEEE 802.3x or priority flow control) stop a port for so long that the adapter reports it.
    PauseStorm: "pause-storm", Fault;
    /// The link went down.
    LinkDown: "link-down", Fault;
    /// The firmware refused to create an object, because there are too many or no resources are left.
    ResourceLimit: "resource-limit", Notice;
    /// Virtual functions were requested and not created, because the adapter or the machine has no room for them. The adapter itself works.
    FunctionsRefused: "functions-refused", Notice;
    /// The module for GPU memory reports an error.
    PeerMemory: "peer-memory", Notice;
    /// The kernel refused a module of RDMA: it was built for other modules, or for another kernel.
    ModuleMismatch: "module-mismatch", Fault;
    /// The kernel crashed in a module of RDMA.
    ModuleCrashed: "module-crashed", Fault;
    /// A task hangs in a module of RDMA.
    ModuleHung: "module-hung", Fault;
    /// A GPU does not work until it is reset, or the node is restarted.
    GpuFailed: "gpu-failed", Fault;
    /// An `NVLink` or `xGMI` connection between GPUs reports an error.
    GpuLinkError: "gpu-link-error", Fault;
    /// Another error that the driver of a GPU logged: most are those of an application.
    GpuError: "gpu-error", Notice;
    /// An error of an RDMA driver that is not in this list.
    DriverError: "driver-error", Notice;
    /// A cable or transceiver was inserted.
    ModulePlugged: "module-plugged", Recovery;
    /// The link came up.
    LinkUp: "link-up", Recovery;
    /// The driver started or recovered the device.
    Started: "started", Recovery;
}

/// The device that a message names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// A PCI function by its address (`0000:41:00.0`).
    Pci(String),
    /// An RDMA or network device by its name at that time.
    Named(String),
    /// The stream of an Arm SMMU, whose low 16 bits are usually bus, device and function of a PCI function.
    Stream(u32),
    /// No device: the message is about a driver as a whole.
    Driver(String),
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pci(name) | Self::Named(name) | Self::Driver(name) => f.write_str(name),
            Self::Stream(id) => write!(f, "SMMU stream {id:#x}"),
        }
    }
}

/// All messages of one kind about one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What they report.
    pub kind: EventKind,
    /// The device that they name.
    pub device: Device,
    /// The driver that wrote the last of them, as it calls itself: `mlx5_core`, `pcieport`, `DMAR`.
    pub driver: String,
    /// How many there are.
    pub count: u64,
    /// When the first one was written, in seconds since boot; `None` if the log has no times.
    pub first: Option<u64>,
    /// The same for the last one.
    pub last: Option<u64>,
    /// The text of the last one.
    pub message: String,
    /// The place of the last one among all events: a greater number is later.
    pub order: usize,
}
