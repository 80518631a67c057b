//! Assertions that fail because a device is missing or all descriptors are in use, and those of UCX.

use crate::symptom::SymptomKind::{self as K};

/// Whether a line in lower case is that of a check of UCX that failed, which has its own form: ``[node1:20274:0]       ud_ep.c:478  Assertion `a == b' failed``.
pub(crate) fn is_ucx_check(lower: &str) -> bool {
    let Some((before, rest)) = lower.split_once("assertion `") else {
        return false;
    };
    let Some((process, source)) = before.rsplit_once(']') else {
        return false;
    };
    let process = process.rsplit('[').next().unwrap_or_default();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = process.split(':').map(str::trim);
    let is_process = parts.next().is_some_and(|host| !host.is_empty()) && parts.clone().count() >= 2;
    let numbers = parts.all(is_number);
    let source = source.trim();
    let is_source = source.split_once(".c:").or_else(|| source.split_once(".inl:"));
    is_process
        && numbers
        && is_source.is_some_and(|(name, line)| !name.contains(' ') && is_number(line))
        && rest.contains("failed")
}

/// A program that ends because it counted no device: ``Assertion `availDevices.size() > 0' failed``.
pub(super) fn asserted(lower: &str) -> Option<(K, usize)> {
    const OF_RDMA: [&str; 7] = ["rdma", "infiniband", "ibverbs", "ib_", "ibv", "hca", "rnic"];
    const NOUNS: [&str; 5] = ["dev", "hca", "nic", "adapter", "context"];
    const SOME: [&str; 6] = ["> 0", ">0", "!= 0", ">= 1", "!= null", "empty()"];
    let at = lower.find("assert").filter(|_| lower.contains("fail"))?;
    let rest = &lower[at..];
    let expression = rest
        .split(['`', '\'', '"', '(', '{'])
        .skip(1)
        .collect::<Vec<_>>()
        .join(" ");
    let expression = expression.replace("empty )", "empty()");
    let has = |text: &str, words: &[&str]| words.iter().any(|word| text.contains(word));
    // Ceph's sockets over RDMA have a descriptor for their events, and there was none left.
    if rest.starts_with("assert(")
        && lower.contains("ceph_")
        && has(&expression, &["fd >= 0", "fd >=0", "fd() >= 0", "fd ) >= 0"])
    {
        return Some((K::TooManyFiles, at));
    }
    let counts = has(&expression, &NOUNS) && has(&expression, &SOME);
    if counts && has(lower, &OF_RDMA) {
        return Some((K::NoDevice, at));
    }
    is_ucx_check(lower).then_some((K::BackendFailed, at))
}
