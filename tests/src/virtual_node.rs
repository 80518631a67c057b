//! A throw-away Linux machine with a real IOMMU and real (`SoftRoCE`) RDMA devices, driven step by step from a test.
//!
//! ```no_run
//! use rdma_health_tests::virtual_node::{Iommu, Options, VirtualNode};
//!
//! let node = VirtualNode::boot(&Options { iommu: Iommu::Intel, nics: 2, ..Options::default() })?;
//! node.check("ip link set eth0 down")?;
//! let out = node.run("cat /sys/class/infiniband/rxe0/ports/1/state")?;
//! assert_eq!((out.status, out.stdout_text()), (0, "1: DOWN\n".into()));
//! # anyhow::Ok(())
//! ```
//!
//! The machine is emulated, so it needs no privilege and no hardware, and boots in about ten seconds. It sees the root
//! file system of the host read-only under a layer of memory: what is built or installed here runs there unchanged,
//! and nothing written there survives. Files of the host that change while it runs may be seen old or new.
//!
//! One process at a time runs machines: [`VirtualNode::boot`] waits for its turn. So a thread must not call it again
//! while it holds a machine. A program that needs several machines at once takes one [`Turn`] and boots them all in it.

use std::borrow::Cow;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

pub use self::cable::CableEnd;
use self::control::{Answer, Control};
use self::machine::Machine;

mod cable;
mod control;
mod machine;

/// How long a command may take unless its caller says otherwise.
pub const COMMAND_DEADLINE: Duration = Duration::from_secs(60);
/// How long the guest may take to say that a command ended or was ended, beyond the command's own deadline.
const ANSWER_GRACE: Duration = Duration::from_secs(30);

/// The IOMMU of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Iommu {
    /// Intel VT-d, switched on.
    #[default]
    Intel,
    /// AMD-Vi; a Linux that finds one uses it. Behind QEMU's, PCI devices that do real DMA (`nvme`) get no answer.
    Amd,
    /// No IOMMU at all.
    None,
}

/// A TCP port of the host, on 127.0.0.1 only, that leads to a port of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The port on 127.0.0.1 of this machine.
    pub host: u16,
    /// The port of the guest's first network interface.
    pub guest: u16,
}

/// What machine to boot.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its host name.
    pub hostname: String,
    /// Its IOMMU.
    pub iommu: Iommu,
    /// Added to the kernel's command line, such as `iommu=pt`.
    pub kernel_args: String,
    /// Network interfaces `eth0`…; `ethN` has the address `10.0.(100+N).2/24` and the RDMA device `rxeN` on it.
    pub nics: u8,
    /// Cables to other machines: each is one more network interface, after those of `nics`.
    pub cables: Vec<CableEnd>,
    /// The last number of the addresses, where it is not 2: machines with a cable between them need different ones.
    pub host_number: u8,
    /// Added to the command line of QEMU. Name the bus (`bus=pcie.0`) of each PCI device.
    pub qemu_args: Vec<String>,
    /// Its memory in MiB.
    pub memory_mib: u32,
    /// How long it may take to boot.
    pub boot_deadline: Duration,
    /// How long it may run; then it is killed.
    pub lifetime: Duration,
    /// Makes one port of the guest reachable from the host; needs a network interface.
    pub forward: Option<Forward>,
    /// Kernel modules to load after the usual ones, such as `nvme`.
    pub modules_added: Vec<String>,
    /// Those of [`MODULES`] not to load; without `rdma_rxe` there are no RDMA devices.
    pub modules_left_out: Vec<String>,
}

/// The kernel modules that are loaded unless they are left out, in this order: without `crc32_generic`, `rdma_rxe`
/// cannot add a device.
pub const MODULES: &[&str] = &[
    "virtio_net",
    "crc32_generic",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "ib_umad",
];

impl Default for Options {
    fn default() -> Self {
        Self {
            hostname: "virtual-node".into(),
            iommu: Iommu::default(),
            kernel_args: String::new(),
            nics: 1,
            cables: Vec::new(),
            host_number: 2,
            qemu_args: Vec::new(),
            memory_mib: 2048,
            boot_deadline: Duration::from_secs(240),
            lifetime: Duration::from_secs(900),
            forward: None,
            modules_added: Vec::new(),
            modules_left_out: Vec::new(),
        }
    }
}

/// What a command in the guest left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its exit status as a shell reports it: 128 and the signal's number where a signal ended it.
    pub status: i32,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Standard output as text.
    pub fn stdout_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// Standard error as text.
    pub fn stderr_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

/// The right to run machines, which one process of a user has at a time: several emulated machines at once are slow. It is
/// given back when this and all machines booted with it are dropped.
#[derive(Clone, Debug)]
pub struct Turn {
    _lock: Arc<File>,
}

impl Turn {
    /// Waits until no other process runs a machine.
    ///
    /// # Errors
    /// If the file in the cache of this user cannot be locked.
    pub fn take() -> Result<Self> {
        let lock = machine::lock()?;
        Ok(Self {
            _lock: Arc::new(lock),
        })
    }

    /// As [`VirtualNode::boot`], without waiting for a turn. Threads can boot several machines at once.
    ///
    /// # Errors
    /// As for [`VirtualNode::boot`].
    pub fn boot(&self, options: &Options) -> Result<VirtualNode> {
        let deadline = |from: Instant| from + options.boot_deadline;
        let mut machine = Machine::start(options, self.clone())?;
        let started = Instant::now();
        let control = machine
            .connect(deadline(started))
            .and_then(|stream| Control::open(stream, deadline(started)));
        match control {
            Ok(control) => Ok(VirtualNode {
                machine,
                control: Mutex::new(control),
                next: AtomicU32::new(0),
            }),
            Err(error) => Err(error
                .context(machine.last_words())
                .context("the virtual node did not boot")),
        }
    }
}

/// A running machine. Dropping it ends the machine and removes all that it used, and so does the end of this process.
#[derive(Debug)]
pub struct VirtualNode {
    machine: Machine,
    control: Mutex<Control>,
    next: AtomicU32,
}

impl VirtualNode {
    /// Boots a machine, once no other runs, and waits until its RDMA devices are up.
    ///
    /// # Errors
    /// Where a program is missing, QEMU refuses its options, or the guest does not come up; the message then ends in
    /// the last lines of its console.
    pub fn boot(options: &Options) -> Result<Self> {
        Turn::take()?.boot(options)
    }

    /// Runs a bash script in the guest as root and waits for its end, at most [`COMMAND_DEADLINE`].
    ///
    /// # Errors
    /// Where the script is not done in time (it is then ended, and the node can be used on) or the guest is gone. A
    /// status other than zero is not an error.
    pub fn run(&self, script: &str) -> Result<Output> {
        self.run_within(COMMAND_DEADLINE, script)
    }

    /// As [`VirtualNode::run`], with another deadline.
    ///
    /// # Errors
    /// As for [`VirtualNode::run`].
    pub fn run_within(&self, deadline: Duration, script: &str) -> Result<Output> {
        self.run_with_input(deadline, script, &[])
    }

    /// As [`VirtualNode::run_within`], with `input` on standard input.
    ///
    /// # Errors
    /// As for [`VirtualNode::run`].
    pub fn run_with_input(&self, deadline: Duration, script: &str, input: &[u8]) -> Result<Output> {
        let files = self.files(script, input)?;
        let request = format!("run {} {}", files.id, deadline.as_millis().max(1));
        let answer = self.ask(&request, files.id, deadline + ANSWER_GRACE);
        let stdout = files.take("out");
        let stderr = files.take("err");
        files.remove();
        match answer.with_context(|| format!("running in the virtual node: {script}"))? {
            Answer::Done(status) => Ok(Output {
                status,
                stdout: stdout?,
                stderr: stderr?,
            }),
            Answer::Late => bail!(
                "not done after {deadline:?} and so ended: {script}\n{}{}",
                String::from_utf8_lossy(&stdout?),
                String::from_utf8_lossy(&stderr?)
            ),
        }
    }

    /// Runs a script that must succeed. Returns its standard output.
    ///
    /// # Errors
    /// As for [`VirtualNode::run`], and where the status is not zero.
    pub fn check(&self, script: &str) -> Result<String> {
        let out = self.run(script)?;
        let (status, stdout, stderr) = (out.status, out.stdout_text(), out.stderr_text());
        ensure!(status == 0, "status {status}: {script}\n{stdout}{stderr}");
        Ok(stdout.into_owned())
    }

    /// Starts a bash script in the guest and returns at once.
    ///
    /// # Errors
    /// Where the guest is gone.
    pub fn spawn(&self, script: &str) -> Result<Job<'_>> {
        let files = self.files(script, &[])?;
        let request = format!("spawn {}", files.id);
        match self.ask(&request, files.id, ANSWER_GRACE)? {
            Answer::Done(0) => Ok(Job { node: self, files }),
            answer => bail!("starting a job: {answer:?}"),
        }
    }

    /// Writes a file in the guest, and the directories that lead to it.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write_file(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let path = quote(path);
        let script = format!("mkdir -p -- \"$(dirname -- {path})\" && cat >{path}");
        let out = self.run_with_input(COMMAND_DEADLINE, &script, content.as_ref())?;
        ensure!(out.status == 0, "writing {path}: {}", out.stderr_text());
        Ok(())
    }

    /// Reads a file in the guest.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn read_file(&self, path: &str) -> Result<Vec<u8>> {
        let out = self.run(&format!("cat <{}", quote(path)))?;
        ensure!(out.status == 0, "reading {path}: {}", out.stderr_text());
        Ok(out.stdout)
    }

    /// Waits until a shell condition holds, such as `test -e /run/ready`; tries it several times a second.
    ///
    /// # Errors
    /// Where it does not hold in time.
    pub fn wait_until(&self, deadline: Duration, condition: &str) -> Result<()> {
        let script = format!("until {condition}\ndo sleep 0.1; done");
        self.run_within(deadline, &script).map(drop)
    }

    /// What the guest's console shows until now.
    pub fn console(&self) -> String {
        self.machine.console()
    }

    fn ask(&self, request: &str, id: u32, patience: Duration) -> Result<Answer> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = control.ask(request, id, Instant::now() + patience);
        answer.map_err(|error| error.context(self.machine.last_words()))
    }

    fn files(&self, script: &str, input: &[u8]) -> Result<Files> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let files = Files {
            id,
            share: self.machine.share().to_owned(),
        };
        fs::write(files.path("script"), script).context("handing a script to the guest")?;
        fs::write(files.path("in"), input).context("handing input to the guest")?;
        Ok(files)
    }
}

/// A script that runs in the guest while the test goes on. It runs until it ends, is killed, or the node ends; dropping
/// this value changes nothing.
#[derive(Debug)]
pub struct Job<'node> {
    node: &'node VirtualNode,
    files: Files,
}

impl Job<'_> {
    /// What it has written to standard output so far.
    ///
    /// # Errors
    /// Where that cannot be read.
    pub fn stdout(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.files.take("out")?).into_owned())
    }

    /// What it has written to standard error so far.
    ///
    /// # Errors
    /// Where that cannot be read.
    pub fn stderr(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.files.take("err")?).into_owned())
    }

    /// Its exit status, once it has ended.
    ///
    /// # Errors
    /// Where what the guest noted makes no sense.
    pub fn status(&self) -> Result<Option<i32>> {
        match fs::read_to_string(self.files.path("status")) {
            Ok(text) => Ok(Some(text.trim().parse()?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal, such as `TERM`, to all its processes.
    ///
    /// # Errors
    /// Where there is no process left.
    pub fn signal(&self, name: &str) -> Result<()> {
        let group = fs::read_to_string(self.files.path("pid"))?;
        self.node
            .check(&format!("kill -{name} -- -{}", group.trim()))
            .map(drop)
    }

    /// Waits for its end. Returns its exit status.
    ///
    /// # Errors
    /// Where it does not end in time; it then runs on.
    pub fn wait(&self, deadline: Duration) -> Result<i32> {
        let end = Instant::now() + deadline;
        loop {
            match self.status()? {
                Some(status) => return Ok(status),
                None if Instant::now() > end => {
                    bail!("the job runs on after {deadline:?}: {}", self.stderr()?)
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// The files of one script in the directory that host and guest share.
#[derive(Debug)]
struct Files {
    id: u32,
    share: PathBuf,
}

impl Files {
    fn path(&self, kind: &str) -> PathBuf {
        self.share.join(format!("{}.{kind}", self.id))
    }

    fn take(&self, kind: &str) -> Result<Vec<u8>> {
        let path = self.path(kind);
        fs::read(&path).with_context(|| format!("reading {}", path.display()))
    }

    fn remove(&self) {
        for kind in ["script", "in", "out", "err"] {
            let _ = fs::remove_file(self.path(kind));
        }
    }
}

/// Quotes a word for the shell.
pub fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A program that was built in the same folder as the running test or example, such as `rdma-health`.
///
/// # Errors
/// Where it has not been built; `make test` builds what the tests run.
pub fn built(program: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    // Test programs lie below the others: in `deps`, and with newer versions of Cargo in `build/PACKAGE/HASH/out`.
    let folders = own.ancestors().skip(1).take(5);
    let found = folders
        .map(|folder: &Path| folder.join(program))
        .find(|path| path.is_file());
    found.with_context(|| format!("{program} has not been built (cargo build --workspace)"))
}
