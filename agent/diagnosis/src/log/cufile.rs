//! The log of GPUDirect Storage, `cufile.log`: ` 06-11-2023 20:12:02:865 [pid=157254 tid=157254] ERROR  cufio-drv:716 nvidia-fs.ko driver not loaded`.
//!
//! Each line has its level. Only errors count: notices say what the library does without. The first error of a file or buffer names the reason, and those after it
//! repeat that the call failed.

use crate::symptom::SymptomKind::{self as K};

/// Words of lines that matter here, in lower case.
pub(super) const ANCHORS: &[&str] = &[" tid="];

/// Words of a reason, in lower case: what is missing between GPU and storage, or what the storage is on.
const REASONS: [&str; 12] = [
    "not loaded",
    "not registered with",
    "unsupported block device",
    "mount option",
    "udev_device",
    "udev property",
    "bar-usage",
    "bar usage",
    "unsupported file system",
    "unsupported filesystem",
    "not supported on current file",
    "p2p",
];

/// Words of CUDA's own errors, in lower case.
const OF_GPU: [&str; 3] = ["cuinit", "cuda_error", "no gpu"];

/// What a line in lower case of that log shows: `Some(None)` if nothing failed.
#[expect(
    clippy::option_option,
    reason = "no line of that log, one without a failure, or a failure"
)]
pub(super) fn find(lower: &str) -> Option<Option<(K, usize)>> {
    let (_, rest) = lower.split_once("[pid=")?;
    let (ids, message) = rest.split_once("] ")?;
    if !ids.contains(" tid=") {
        return None;
    }
    let (level, message) = message.trim_start().split_once(' ')?;
    let is_level = matches!(
        level,
        "fatal" | "error" | "warn" | "notice" | "info" | "debug" | "trace"
    );
    let message = message.trim_start();
    let (source, _) = message.split_once(' ')?;
    // `cufio-drv:716`; `0:1072` where the name is missing.
    let is_source = source.rsplit_once(':').is_some_and(|(name, line)| {
        (name.starts_with("cuf") || name == "0") && line.bytes().all(|b| b.is_ascii_digit())
    });
    if !is_level || !is_source {
        return None;
    }
    let at = lower.len() - message.len();
    if !matches!(level, "fatal" | "error") {
        return Some(None);
    }
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    Some(if has(&OF_GPU) {
        Some((K::ComputeError, at))
    } else if has(&REASONS) {
        Some((K::GdrDisabled, at))
    // The node has no adapter near a GPU, which local storage does not need.
    } else if message.contains("no matching pair") {
        None
    } else {
        Some((K::Unrecognised, at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_library_count_and_its_notices_do_not() {
        const HEAD: &str = " 06-11-2023 20:12:02:865 [pid=1 tid=2] ";
        let unsupported = Some((K::GdrDisabled, 0));
        for (rest, expected) in [
            (
                "error  cufio-drv:716 nvidia-fs.ko driver not loaded",
                Some(unsupported),
            ),
            (
                "error  cufio-fs:199 nvme driver not registered with nvidia-fs!!!",
                Some(unsupported),
            ),
            (
                "error  cufio-fs:268 unsupported block device: /dev/dm-0",
                Some(unsupported),
            ),
            (
                "error  cufio-fs:328 error creating udev_device for block device dev_no: 0:53",
                Some(unsupported),
            ),
            (
                "error  cufio-udev:67 udev property not found: id_fs_usage dm-0",
                Some(unsupported),
            ),
            (
                "error  0:1072 inc-bar-usage failed: size 5 remaining bytes 2",
                Some(unsupported),
            ),
            (
                "error  cufio:480 cuinit failed, error cuda_error_no_device",
                Some(Some((K::ComputeError, 0))),
            ),
            (
                "error  cufio:340 cufilehandleregister error: internal error",
                Some(Some((K::Unrecognised, 0))),
            ),
            (
                "error  cufio-dr:229 no matching pair for network device to closest gpu found in the platform",
                Some(None),
            ),
            (
                "notice  cufio-rdma:175 nvidia_peermem.ko is not loaded. disabling userspace rdma access.",
                Some(None),
            ),
            ("error  train.py:12 nvidia-fs.ko driver not loaded", None),
        ] {
            let found = find(&format!("{HEAD}{rest}"));
            let expected = expected.map(|shown| shown.map(|(kind, _)| kind));
            assert_eq!(found.map(|shown| shown.map(|(kind, _)| kind)), expected, "{rest}");
        }
    }
}
