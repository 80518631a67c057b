//! The explanations of errors that are numbers: of the system, of completions, of adapters and of GPUs.

use std::io::{self, Write};

use rdma_health_diagnosis::{
    lookup::{Xid, symptoms_of, text_of},
    symptom::SymptomKind,
};
use rdma_health_node::kmsg::EventClass;
use rdma_health_protocol::{Errno, WcStatus};
use rdma_health_report::Style;

use super::entries::write_symptom;
use super::layout::{bold, headline, list, plain, sentence};

pub(super) fn write_errno(out: &mut impl Write, errno: Errno, style: Style) -> io::Result<()> {
    let name = errno.to_string();
    let title = format!("error number {}", errno.0);
    headline(out, "errno", &name, &title)?;
    if let Some(text) = text_of(errno) {
        plain(out, "text", &sentence(&text.replace("i/o", "I/O")), style)?;
    }
    let symptoms = symptoms_of(errno);
    let lines = symptoms
        .iter()
        .map(|(operation, kind)| format!("{operation}: {kind}: {}", kind.meaning()));
    list(out, "when", lines, style)?;
    writeln!(out)?;
    bold(
        out,
        "next step",
        "Find the operation that failed in the log, and run rdma-health explain with the name behind it, or rdma-health check --log FILE.",
        style,
    )
}

pub(super) fn write_vendor_error(
    out: &mut impl Write,
    code: u32,
    status: WcStatus,
    style: Style,
) -> io::Result<()> {
    let title = format!(
        "vendor error of an mlx5 adapter, {code} in decimal, with {}",
        status.name()
    );
    headline(out, "vendor", &format!("{code:#x}"), &title)?;
    write_symptom(out, SymptomKind::Completion(status), style)
}

pub(super) fn write_unlisted_vendor_error(out: &mut impl Write, code: u32, style: Style) -> io::Result<()> {
    let title = format!("vendor error of a failed completion, {code} in decimal");
    headline(out, "vendor", &format!("{code:#x}"), &title)?;
    let text = "The vendor publishes no list of these codes. The status of the completion in the same line says what failed.";
    plain(out, "meaning", text, style)?;
    writeln!(out)?;
    bold(
        out,
        "next step",
        "Run rdma-health explain with the status in that line (status=4, with error 4, IBV_WC_LOC_PROT_ERR), or with the whole line.",
        style,
    )
}

pub(super) fn write_cqe_syndrome(
    out: &mut impl Write,
    code: u32,
    status: WcStatus,
    style: Style,
) -> io::Result<()> {
    let title = format!(
        "syndrome of a failed completion of an mlx5 adapter (UCX prints synd {code:#x}), with {}",
        status.name()
    );
    headline(out, "syndrome", &format!("{code:#x}"), &title)?;
    write_symptom(out, SymptomKind::Completion(status), style)
}

pub(super) fn write_syndrome(out: &mut impl Write, code: u64, style: Style) -> io::Result<()> {
    let title = "syndrome with which the firmware of an mlx5 adapter refuses a command";
    headline(out, "syndrome", &format!("{code:#x}"), title)?;
    let text = "It says why the firmware refused the command that the same line of the kernel log names. The vendor publishes no list of them.";
    plain(out, "meaning", text, style)?;
    writeln!(out)?;
    bold(
        out,
        "next step",
        "Read the command and the status in that line (CREATE_QP … failed, status bad parameter), compare firmware and driver versions with \
        the other adapters (rdma-health check), and search the release notes of the firmware for the syndrome.",
        style,
    )
}

pub(super) fn write_xid(
    out: &mut impl Write,
    number: u16,
    xid: Option<&Xid>,
    style: Style,
) -> io::Result<()> {
    let title = "message of NVIDIA's driver in the kernel log";
    headline(out, "Xid", &number.to_string(), title)?;
    let meaning = xid.map_or("Its meaning is not known here.".to_owned(), |xid| {
        sentence(xid.meaning)
    });
    plain(out, "meaning", &meaning, style)?;
    let rule = match xid.map(|xid| xid.kind.class()) {
        Some(EventClass::Fault) => "gpu-failed",
        _ => "gpu-errors-logged",
    };
    plain(out, "rule", rule, style)?;
    writeln!(out)?;
    let next = format!(
        "Read the recovery action of Xid {number} at docs.nvidia.com/deploy/xid-errors, and rdma-health explain {rule}."
    );
    bold(out, "next step", &next, style)
}
