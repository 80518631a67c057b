//! Faults injected for real: a virtual node, broken and mended again step by step.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::{Answer, Fault, Outcome, Selection, joined};
use crate::virtual_node::{Options, VirtualNode, quote};

/// One check with a probe of every port, on an emulated machine that others may slow down.
const PATIENCE: Duration = Duration::from_secs(90);

/// Reported too where a busy host keeps the emulated machine from answering in time. Then the doctor is asked again.
const UNREADABLE: &str = "facts-unreadable";

/// How the doctor is asked unless a fault says otherwise.
const ASK: &str = "check --probe";

/// Shell functions that every script may use.
const PRELUDE: &str = r#"
config=/run/fault-bench.yaml
check() { rdma-health check --output json --config "$config" "$@"; }
# The PCI address of a network interface.
address() { basename "$(readlink -f "/sys/class/net/$1/device/..")"; }
ready() {
  for _ in {1..100}; do
    grep -q ACTIVE "/sys/class/infiniband/rxe$1/ports/1/state" 2>/dev/null &&
      grep -qs 'ffff:0a00' "/sys/class/infiniband/rxe$1/ports/1/gids/"? && return
    sleep 0.1
  done
  echo "rxe$1 does not come up" >&2
  return 1
}
unplug() { rdma link delete "rxe$1" 2>/dev/null; ip addr flush dev "eth$1" && ip link set "eth$1" down; }
plug() {
  ip link set "eth$1" mtu 4200 up && ip addr add "10.0.$((100 + $1)).2/24" dev "eth$1" &&
    rdma link add "rxe$1" type rxe netdev "eth$1" && ready "$1"
}
# Gives the IOMMU group of a network interface another type, which takes its driver from it for a moment.
retype() {
  local device group
  device=$(address "eth$1") group=$(readlink -f "/sys/class/net/eth$1/device/../iommu_group")
  unplug "$1" && echo "$device" >/sys/bus/pci/drivers/virtio-pci/unbind && echo "$2" >"$group/type"
  echo "$device" >/sys/bus/pci/drivers/virtio-pci/bind
  for _ in {1..50}; do test -e "/sys/class/net/eth$1" && break; sleep 0.1; done
  plug "$1" && test "$(cat "$group/type")" = "$2"
}
# Shows the NIC of an interface as the only RDMA device of the machine and in hardware, in a copy of its tree: /mirror.
as_hardware() {
  mkdir -p /mirror/sys /mirror/proc /mirror/dev && mount --rbind /sys /mirror/sys && mount --rbind /proc /mirror/proc &&
    mount --rbind /dev /mirror/dev && mount -t tmpfs tmpfs /mirror/sys/class/infiniband || return
  cp -r "/sys/class/infiniband/rxe$1/." /mirror/sys/class/infiniband/mlx5_0 2>/dev/null
  (cd /mirror/sys/class/infiniband/mlx5_0 && rm -rf parent device subsystem power &&
    ln -s "$(readlink -f "/sys/class/net/eth$1/device/..")" device)
}
# Writes bytes to the configuration space of a PCI function: address, offset, bytes as printf knows them.
configure() { printf "$3" | dd of="/sys/bus/pci/devices/$1/config" bs=1 seek="$2" conv=notrunc status=none; }
# Sets the access control of every PCIe port that has the capability (0x000d) to two bytes.
redirect() {
  local config at header
  for config in /sys/bus/pci/devices/*/config; do
    at=256
    while header=$(od -An -tx4 -j$at -N4 "$config") && [ -n "$header" ] && [ $((0x${header// /})) != 0 ]; do
      if [ $((0x${header// /} & 0xffff)) = 13 ]; then
        configure "$(basename "$(dirname "$config")")" $((at + 6)) "$1"
      fi
      at=$((0x${header// /} >> 20))
      [ $at -ge 256 ] || break
    done
  done
}
"#;

/// What a virtual node starts with, in addition to what it boots with: no fault.
const SETUP: &str = r#"
. /run/virtual-node/config
cat >$config <<'END'
probe:
  byte_budget: 1MiB
  latency_samples: 50
END
for nic in /sys/class/infiniband/rxe?; do unplug ${nic: -1} && plug ${nic: -1} || exit; done
ln -s "$kernel" /run/kernel
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
cp $(command -v sleep) /run/containerd
(ulimit -l unlimited; exec setsid /run/containerd infinity) </dev/null >/dev/null 2>&1 &
"#;

/// A machine and what is broken on it.
pub struct Scene {
    /// Its name in the table.
    pub name: &'static str,
    /// The machine.
    pub options: fn() -> Options,
    /// An earlier boot, of which the doctor is shown.
    pub before: Option<Before>,
    /// A script that runs once, on the healthy machine.
    pub setup: &'static str,
    /// The fault that it boots with; healthy where there is none.
    pub boot: Option<&'static Fault>,
    /// What is broken and mended, one after the other.
    pub injections: &'static [Injection],
    /// Which of them are broken together, by name.
    pub pairs: &'static [(&'static str, &'static str)],
    /// What cannot be mended, at the end; only the first of these is alone.
    pub last: &'static [Injection],
}

/// An earlier boot of a machine. What the agent remembered then is there after the reboot, as on a disk.
pub struct Before {
    /// How the machine was booted.
    pub options: fn() -> Options,
}

/// Runs the agent until it has read the node, and prints the file in which it keeps what it remembers.
const REMEMBER: &str = r"
rdma-health agent --no-probe --listen 127.0.0.1:9888 --state /run/remembered >/run/agent.log 2>&1 &
ready() { exec 3<>/dev/tcp/127.0.0.1/9888 && printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3 && grep -q ' 200 ' <&3; }
for _ in {1..150}; do (ready) 2>/dev/null && break; sleep 0.2; done
kill -TERM $! && wait $!
base64 -w0 /run/remembered || { cat /run/agent.log >&2; exit 1; }";

/// How the doctor is shown of it.
const ASK_WITH_PAST: &str = "check --probe --state /run/remembered";

/// A fault and the scripts that make and repair it.
#[derive(Clone, Copy)]
pub struct Injection {
    /// The fault.
    pub fault: Fault,
    /// Breaks the node.
    pub inject: &'static str,
    /// Repairs it.
    pub restore: &'static str,
    /// A script that asks the doctor; empty for a check with a probe.
    pub ask: &'static str,
}

/// Boots the machine of a scene, injects what is selected, and reports each outcome as it is known.
///
/// # Errors
/// Where the machine does not boot, a fault cannot be injected or mended, or the doctor gives no answer.
pub fn run(
    scene: &Scene,
    product: &Path,
    selection: &Selection,
    report: &mut dyn FnMut(Outcome),
) -> Result<()> {
    let mut stage = Stage {
        scene,
        node: None,
        product,
        base: BTreeSet::new(),
    };
    let find = |id: &str| {
        let found = scene.injections.iter().find(|injection| injection.fault.id == id);
        found.with_context(|| format!("{}: no injection is called {id}", scene.name))
    };
    let mut steps: Vec<Vec<&Injection>> = Vec::new();
    steps.extend(scene.injections.iter().map(|injection| vec![injection]));
    for (one, other) in scene.pairs {
        steps.push(vec![find(one)?, find(other)?]);
    }
    let (boot, rest) = (scene.boot.map_or("healthy", |fault| fault.id), &steps);
    let asked = |step: &Vec<&Injection>| {
        let name = joined(step.iter().map(|injection| injection.fault.id));
        selection.wants(scene.name, &name)
    };
    let wanted: Vec<_> = rest.iter().filter(|step| asked(step)).collect();
    let last: Vec<_> = scene.last.iter().filter(|step| asked(&vec![step])).collect();
    if wanted.is_empty() && last.is_empty() && !selection.wants(scene.name, boot) {
        return Ok(());
    }
    stage.start(report)?;
    for step in wanted {
        stage.inject_and_mend(step, report)?;
    }
    for injection in last {
        stage.inject(&[injection])?;
        stage.judge(&[injection], report)?;
    }
    Ok(())
}

struct Stage<'a> {
    scene: &'a Scene,
    node: Option<VirtualNode>,
    product: &'a Path,
    /// What the doctor says before anything is injected.
    base: BTreeSet<String>,
}

impl Stage<'_> {
    fn start(&mut self, report: &mut dyn FnMut(Outcome)) -> Result<()> {
        let remembered = match &self.scene.before {
            Some(before) => {
                self.boot(&(before.options)())?;
                let remembered = self.script(REMEMBER)?;
                // One machine runs at a time.
                self.node = None;
                Some(remembered)
            }
            None => None,
        };
        self.boot(&(self.scene.options)())?;
        if let Some(remembered) = remembered {
            self.script(&format!("base64 -d <<<'{}' >/run/remembered", remembered.trim()))?;
        }
        self.script(self.scene.setup)?;
        let answer = self.ask("")?;
        self.base = answer.findings.iter().map(|(rule, _)| rule.clone()).collect();
        let faults: Vec<_> = self.scene.boot.into_iter().collect();
        report(Outcome::of(self.scene.name, &faults, answer));
        Ok(())
    }

    fn boot(&mut self, options: &Options) -> Result<()> {
        // A busy host can keep the emulated timer from being seen in time, and the kernel then gives up: again.
        let node = VirtualNode::boot(options)
            .or_else(|_| VirtualNode::boot(options))
            .with_context(|| format!("booting the scene {}", self.scene.name))?;
        self.node = Some(node);
        self.script(SETUP)?;
        Ok(())
    }

    fn inject_and_mend(&mut self, step: &[&Injection], report: &mut dyn FnMut(Outcome)) -> Result<()> {
        self.inject(step)?;
        self.judge(step, report)?;
        for injection in step.iter().rev() {
            self.script(injection.restore)
                .with_context(|| format!("mending {}", injection.fault.id))?;
        }
        let left = self.new_findings()?;
        ensure!(
            left.is_empty(),
            "{}: after mending {}, the doctor still says {left:?}",
            self.scene.name,
            joined(step.iter().map(|injection| injection.fault.id))
        );
        Ok(())
    }

    /// What is reported and was not before anything was injected.
    fn new_findings(&self) -> Result<Vec<(String, String)>> {
        let mut findings = self.ask("")?.findings;
        if findings.iter().any(|(rule, _)| rule == UNREADABLE) {
            findings = self.ask("")?.findings;
        }
        findings.retain(|(rule, _)| !self.base.contains(rule));
        Ok(findings)
    }

    fn inject(&self, step: &[&Injection]) -> Result<()> {
        for injection in step {
            self.script(injection.inject)
                .with_context(|| format!("injecting {}", injection.fault.id))?;
        }
        Ok(())
    }

    fn judge(&mut self, step: &[&Injection], report: &mut dyn FnMut(Outcome)) -> Result<()> {
        let script = step
            .iter()
            .map(|injection| injection.ask)
            .find(|ask| !ask.is_empty());
        let mut faults: Vec<_> = self.scene.boot.into_iter().collect();
        faults.extend(step.iter().map(|injection| &injection.fault));
        let outcome = || -> Result<Outcome> {
            let answer = self.ask(script.unwrap_or_default())?;
            let mut outcome = Outcome::of(self.scene.name, &faults, answer);
            // Reported once, for the healthy node.
            outcome.false_alarms.retain(|(rule, _)| !self.base.contains(rule));
            Ok(outcome)
        };
        let mut judged = outcome()?;
        if judged.false_alarms.iter().any(|(rule, _)| rule == UNREADABLE) {
            judged = outcome()?;
        }
        report(judged);
        Ok(())
    }

    fn script(&self, script: &str) -> Result<String> {
        let (status, stdout, stderr) = self.run(script)?;
        ensure!(status == 0, "status {status}: {script}\n{stdout}{stderr}");
        Ok(stdout)
    }

    fn ask(&self, script: &str) -> Result<Answer> {
        let script = match (script, &self.scene.before) {
            ("", None) => ASK,
            ("", Some(_)) => ASK_WITH_PAST,
            (script, _) => script,
        };
        let (status, stdout, stderr) = self.run(script)?;
        if status > 3 {
            bail!("the doctor ended with status {status}: {script}\n{stdout}{stderr}");
        }
        if stderr.contains("unexpected argument") {
            // What this product cannot do, it does not find.
            return Ok(Answer::default());
        }
        Answer::parse(&stdout).with_context(|| format!("asking by {script}: {stdout}{stderr}"))
    }

    fn run(&self, script: &str) -> Result<(i32, String, String)> {
        let node = self.node.as_ref().context("the machine runs")?;
        let folder = self
            .product
            .to_str()
            .context("the path of the product is not UTF-8")?;
        let (programs, examples) = (quote(folder), quote(&format!("{folder}/examples")));
        let script = format!("export PATH={programs}:{examples}:$PATH{PRELUDE}{script}");
        let out = node.run_within(PATIENCE, &script)?;
        Ok((
            out.status,
            out.stdout_text().into_owned(),
            out.stderr_text().into_owned(),
        ))
    }
}
