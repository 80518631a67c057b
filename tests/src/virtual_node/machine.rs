//! The process that is the machine: QEMU, what it boots, and its certain end.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::{CableEnd, Forward, Iommu, MODULES, Options, Turn, quote};

/// Programs that run on the host or the guest but come with this crate.
const GUARD: &str = include_str!("../../virtual-node/guard");
const GUEST: &str = include_str!("../../virtual-node/guest");
const PREPARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/virtual-node/prepare");
/// How much of the console an error shows.
const LAST_LINES: usize = 30;

#[derive(Debug)]
pub(super) struct Machine {
    guard: Child,
    /// The guard ends the machine when this closes.
    leash: Option<ChildStdin>,
    listener: UnixListener,
    directory: PathBuf,
    share: PathBuf,
    _cables: Vec<CableEnd>,
    /// Held while the machine runs, so that no other process starts one.
    _turn: Turn,
}

impl Machine {
    /// Starts a machine.
    pub(super) fn start(options: &Options, turn: Turn) -> Result<Self> {
        let image = Image::prepare()?;
        let directory = tempfile::Builder::new().prefix("virtual-node-").tempdir()?;
        let share = directory.path().join("share");
        fs::create_dir(&share)?;
        fs::write(share.join("guest"), GUEST)?;
        fs::write(share.join("config"), config(options, &image))?;
        let listener = UnixListener::bind(directory.path().join("control"))?;
        listener.set_nonblocking(true)?;
        let mut guard = Command::new("bash");
        guard.args(["-c", GUARD, "guard"]).arg(directory.path());
        guard.arg(options.lifetime.as_secs().to_string());
        guard
            .arg("qemu-system-x86_64")
            .args(arguments(options, &image, directory.path()));
        guard.stdin(Stdio::piped()).stdout(Stdio::null());
        guard.stderr(File::create(directory.path().join("qemu"))?);
        // Ctrl-C is for us; the machine ends because we do.
        guard.process_group(0);
        let mut guard = guard.spawn().context("starting bash")?;
        // From here on the guard removes the directory.
        let directory = directory.keep();
        Ok(Self {
            leash: guard.stdin.take(),
            guard,
            listener,
            directory,
            share,
            _cables: options.cables.clone(),
            _turn: turn,
        })
    }

    /// The connection that QEMU makes before it starts the guest.
    pub(super) fn connect(&mut self, deadline: Instant) -> Result<UnixStream> {
        while Instant::now() < deadline {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    return Ok(stream);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            // The guard writes this as soon as QEMU ends, and waits for us to read why.
            ensure!(!self.directory.join("ended").exists(), "QEMU ended at once");
            sleep(Duration::from_millis(20));
        }
        bail!("QEMU does not connect to its control socket");
    }

    pub(super) fn share(&self) -> &Path {
        &self.share
    }

    pub(super) fn console(&self) -> String {
        let console = fs::read(self.directory.join("console")).unwrap_or_default();
        String::from_utf8_lossy(&console).replace('\r', "")
    }

    /// What QEMU and the guest's console said last.
    pub(super) fn last_words(&self) -> String {
        let qemu = fs::read_to_string(self.directory.join("qemu")).unwrap_or_default();
        let console = self.console();
        let lines: Vec<_> = console.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        format!("{qemu}last lines of the console:\n{last}")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.leash.take());
        let _ = self.guard.wait();
    }
}

/// The kernel and the initrd, and where the kernel's modules are.
struct Image {
    kernel: String,
    initrd: String,
    modules: String,
}

impl Image {
    fn prepare() -> Result<Self> {
        let out = Command::new(PREPARE)
            .output()
            .with_context(|| format!("running {PREPARE}"))?;
        let (text, error) = (
            String::from_utf8(out.stdout)?,
            String::from_utf8_lossy(&out.stderr),
        );
        ensure!(out.status.success(), "preparing a kernel to boot: {error}");
        let mut lines = text.lines().map(str::to_owned);
        let mut line = || {
            lines
                .next()
                .with_context(|| format!("{PREPARE} printed {text:?}"))
        };
        Ok(Self {
            kernel: line()?,
            initrd: line()?,
            modules: line()?,
        })
    }
}

/// Waits for the lock that one process of a user holds at a time.
pub(super) fn lock() -> Result<File> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .or_else(home);
    let folder = cache
        .context("neither XDG_CACHE_HOME nor HOME is set")?
        .join("rdma-health");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let path = folder.join("machine.lock");
    let file = OpenOptions::new().create(true).append(true).open(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            eprintln!("Waiting until another program has ended its virtual nodes");
            flock(&file, FlockOperation::LockExclusive)
        }
        other => other,
    }
    .with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

/// What the guest's first script reads: shell variables.
fn config(options: &Options, image: &Image) -> String {
    let usual = MODULES.iter().map(|name| (*name).to_owned());
    let mut modules: Vec<_> = usual
        .filter(|name| !options.modules_left_out.contains(name))
        .collect();
    let rxe = if modules.iter().any(|name| name == "rdma_rxe") {
        "yes"
    } else {
        "no"
    };
    modules.extend(options.modules_added.iter().cloned());
    format!(
        "hostname={} host_number={} kernel={} modules={} rxe={rxe}\n",
        quote(&options.hostname),
        options.host_number,
        quote(&image.modules),
        quote(&modules.join(" "))
    )
}

/// The command line of QEMU.
fn arguments(options: &Options, image: &Image, directory: &Path) -> Vec<String> {
    let at = |name: &str| directory.join(name).display().to_string();
    // Emulation unless asked otherwise: under KVM, stock kernels hang at boot on some hosts.
    let kvm = std::env::var("VIRTUAL_NODE_ACCEL").is_ok_and(|accel| accel == "kvm");
    let (board, accel, cpu) = if kvm {
        ("q35,kernel-irqchip=split", "kvm", "host")
    } else {
        ("q35", "tcg,thread=multi", "max")
    };
    let memory = options.memory_mib.to_string();
    let mut list: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| list.extend(words.iter().map(|word| (*word).to_owned()));
    add(&[
        "-M", board, "-accel", accel, "-cpu", cpu, "-smp", "2", "-m", &memory,
    ]);
    add(&[
        "-display",
        "none",
        "-monitor",
        "none",
        "-nic",
        "none",
        "-no-reboot",
    ]);
    add(&["-serial", &format!("file:{}", at("console"))]);
    // On a busy machine the timer of an emulated one is late, and without `no_timer_check` the kernel refuses to boot.
    let mut kernel_args = "console=ttyS0 quiet loglevel=3 panic=-1 no_timer_check".to_owned();
    match options.iommu {
        Iommu::Intel => {
            add(&["-device", "intel-iommu,intremap=on"]);
            kernel_args.push_str(" intel_iommu=on");
        }
        Iommu::Amd => add(&["-device", "amd-iommu,intremap=on"]),
        Iommu::None => {}
    }
    let kernel_args = format!("{kernel_args} {}", options.kernel_args);
    add(&[
        "-kernel",
        &image.kernel,
        "-initrd",
        &image.initrd,
        "-append",
        kernel_args.trim(),
    ]);

    // Each device names its bus, so that `qemu_args` may add buses of its own.
    let share =
        |path: &str, access: &str| format!("local,path={path},security_model=none,multidevs=remap{access}");
    add(&["-fsdev", &format!("{},id=root", share("/", ",readonly=on"))]);
    add(&["-device", "virtio-9p-pci,fsdev=root,mount_tag=root,bus=pcie.0"]);
    add(&["-fsdev", &format!("{},id=share", share(&at("share"), ""))]);
    add(&["-device", "virtio-9p-pci,fsdev=share,mount_tag=share,bus=pcie.0"]);
    add(&["-chardev", &format!("socket,id=control,path={}", at("control"))]);
    add(&[
        "-device",
        "virtio-serial-pci,bus=pcie.0",
        "-device",
        "virtserialport,chardev=control,name=control",
    ]);
    for nic in 0..options.nics {
        let network = format!("10.0.{}", 100 + u32::from(nic));
        let forward = options.forward.filter(|_| nic == 0);
        let forward = forward.map_or_else(String::new, |Forward { host, guest }| {
            let own = options.host_number;
            format!(",hostfwd=tcp:127.0.0.1:{host}-{network}.{own}:{guest}")
        });
        let netdev = format!("user,id=n{nic},restrict=on,net={network}.0/24,host={network}.1{forward}");
        add(&["-netdev", &netdev]);
        add(&[
            "-device",
            &format!("virtio-net-pci,netdev=n{nic},romfile=,bus=pcie.0"),
        ]);
    }
    for (place, cable) in options.cables.iter().enumerate() {
        list.extend(cable.arguments(place));
    }
    list.extend(options.qemu_args.iter().cloned());
    list
}
