//! Assertions that fail because there is no device or no descriptor left.

use crate::symptom::SymptomKind::{self as K};

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
    (counts && has(lower, &OF_RDMA)).then_some((K::NoDevice, at))
}
