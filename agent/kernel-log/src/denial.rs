//! What the audit subsystem logs of a device node that a process may not open (`security/selinux/avc.c`, `security/apparmor/audit.c`,
//! `security/lsm_audit.c`).
//!
//! The line names the process, which its owner chooses. Only what the administrator chose is taken: the security module, the device node,
//! and the context or profile of the process.

use crate::{
    classify::Report,
    event::{Device, EventKind},
};

/// Where the device nodes of RDMA are.
const NODES: &str = "/dev/infiniband/";
/// The longest context or profile that is kept, in bytes.
const MAX_CONTEXT: usize = 128;

/// A denial of the access to a device node of RDMA.
struct Denial<'a> {
    /// `SELinux` or `AppArmor`.
    by: &'static str,
    /// `uverbs0`.
    node: &'a str,
    /// What the process runs as: `system_u:system_r:container_t:s0` or `docker-default`.
    context: &'a str,
}

impl<'a> Denial<'a> {
    /// `None` for other texts, and for a denial that is only logged (`permissive=1`).
    fn parse(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix("audit: type=1400 ")?;
        let rest = match rest.strip_prefix("audit(") {
            Some(stamped) => stamped.split_once("): ")?.1,
            None => rest,
        };
        let node = value(rest, "path").or_else(|| value(rest, "name"))?;
        // Some hooks know the last part of the path only.
        let node = node.strip_prefix(NODES).unwrap_or(node);
        let is_node = ["uverbs", "umad", "issm", "rdma_cm"]
            .iter()
            .filter_map(|stem| node.strip_prefix(stem))
            .any(|number| number.len() < 6 && number.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_node {
            return None;
        }
        let (by, context) = if rest.starts_with("avc:") && rest.contains("denied") {
            if value(rest, "permissive") == Some("1") {
                return None;
            }
            ("SELinux", value(rest, "scontext")?)
        } else if value(rest, "apparmor") == Some("DENIED") {
            ("AppArmor", value(rest, "profile")?)
        } else {
            return None;
        };
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=');
        let is_context = !context.is_empty() && context.len() <= MAX_CONTEXT && context.bytes().all(plain);
        is_context.then_some(Self { by, node, context })
    }
}

/// The value of a field, with or without quotes.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (at, _) = text.match_indices(key).find(|(at, _)| {
        text[at + key.len()..].starts_with('=') && (*at == 0 || text[..*at].ends_with(' '))
    })?;
    let rest = &text[at + key.len() + 1..];
    match rest.strip_prefix('"') {
        Some(quoted) => Some(quoted.split_once('"')?.0),
        None => rest.split(' ').next(),
    }
}

/// What a denial of the access to a device node of RDMA reports.
pub(crate) fn report(text: &str) -> Option<Report> {
    let denial = Denial::parse(text)?;
    Some(Report {
        kind: EventKind::AccessDenied,
        device: Device::Named(denial.node.to_owned()),
        driver: denial.by.to_owned(),
    })
}

/// The text of a denial as it is kept, without the process; [`report`] finds the same in it.
pub(crate) fn shortened(text: &str) -> Option<String> {
    let Denial { by, node, context } = Denial::parse(text)?;
    Some(match by {
        "SELinux" => format!("audit: type=1400 avc: denied path=\"{NODES}{node}\" scontext={context}"),
        _ => format!("audit: type=1400 apparmor=\"DENIED\" profile=\"{context}\" path=\"{NODES}{node}\""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELINUX: &str = "audit: type=1400 audit(1732300000.001:41): avc:  denied  { read write } for  pid=88123 comm=\"python3\" \
        path=\"/dev/infiniband/uverbs1\" dev=\"devtmpfs\" ino=711 scontext=system_u:system_r:container_t:s0:c12,c44 \
        tcontext=system_u:object_r:infiniband_device_t:s0 tclass=chr_file permissive=0";
    const APPARMOR: &str = "audit: type=1400 audit(1732300000.001:91): apparmor=\"DENIED\" operation=\"open\" class=\"file\" \
        profile=\"docker-default\" name=\"/dev/infiniband/rdma_cm\" pid=7712 comm=\"all_reduce_perf\" requested_mask=\"wr\" \
        denied_mask=\"wr\" fsuid=0 ouid=0";

    fn said(text: &str) -> Option<(String, String)> {
        let report = report(text)?;
        Some((report.driver, report.device.to_string()))
    }

    #[test]
    fn a_denied_device_node_is_reported_without_its_process() {
        for (text, by, node, context) in [
            (SELINUX, "SELinux", "uverbs1", "container_t"),
            (APPARMOR, "AppArmor", "rdma_cm", "docker-default"),
        ] {
            let expected = Some((by.to_owned(), node.to_owned()));
            assert_eq!(said(text), expected, "{text}");
            let kept = crate::kept(text);
            assert_eq!(said(&kept), expected, "{kept}");
            assert_eq!(crate::kept(&kept), kept);
            assert!(kept.contains(context), "{kept}");
            assert!(!kept.contains("comm") && !kept.contains("pid"), "{kept}");
        }
    }

    #[test]
    fn what_was_not_denied_or_is_not_of_rdma_is_left_out() {
        for text in [
            SELINUX.replace("permissive=0", "permissive=1"),
            SELINUX.replace("avc:  denied", "avc:  granted"),
            SELINUX.replace("/dev/infiniband/uverbs1", "/dev/nvidiactl"),
            SELINUX.replace("uverbs1", "uverbs1/../../shadow"),
            APPARMOR.replace("DENIED", "ALLOWED"),
            APPARMOR.replace("type=1400", "type=1101"),
            format!("x: {APPARMOR}"),
            String::new(),
        ] {
            assert_eq!(said(&text), None, "{text}");
        }
    }
}
