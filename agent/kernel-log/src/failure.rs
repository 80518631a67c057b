//! Adapters that do not work, by what their driver writes about their state: a grammar for what the table of phrases does not have.
//!
//! Each driver has its own words for few things: a reset that failed, firmware that does not answer, memory with an error.

mod probe;
mod start;

use crate::event::EventKind;
use start::has_no_channel;

/// What a driver calls the firmware of its adapter, and the processor that it runs on.
const FIRMWARE: [&str; 7] = ["fw", "firmware", "mfw", "mcp", "uc", "imp", "heartbeat"];
/// What it calls the adapter.
const ADAPTER: [&str; 9] = [
    "adapter",
    "device",
    "dev",
    "hw",
    "hardware",
    "nic",
    "chip",
    "hca",
    "controller",
];
/// Attempts to bring an adapter back.
const ATTEMPTS: [&str; 12] = [
    "reset",
    "reinit",
    "reinitialize",
    "reinitialise",
    "reinitialization",
    "reinitialisation",
    "rebuild",
    "recover",
    "recovery",
    "restore",
    "restart",
    "revive",
];
/// What is reset without the adapter. The reset of an update of the firmware is an offer that a host may decline.
const PARTS: [&str; 31] = [
    "update",
    "qp",
    "qps",
    "cq",
    "srq",
    "mr",
    "ah",
    "queue",
    "queues",
    "ring",
    "rings",
    "tqp",
    "channel",
    "counter",
    "counters",
    "stats",
    "statistics",
    "filter",
    "filters",
    "vlan",
    "mac",
    "promisc",
    "rss",
    "coalesce",
    "coalescing",
    "ptp",
    "phc",
    "autoneg",
    "eeprom",
    "led",
    "mtu",
];
/// How an attempt ends that did not succeed.
const FAILED: [&str; 9] = [
    "failed",
    "fail",
    "fails",
    "failure",
    "aborted",
    "aborting",
    "unsuccessful",
    "timeout",
    "rejected",
];
/// How one ends that did. mlx4 calls a reset successful after which its commands still time out.
const SUCCEEDED: [&str; 5] = ["done", "complete", "completed", "succeeded", "finished"];
/// The state of what does not work any more.
const DEAD: [&str; 13] = [
    "dead",
    "died",
    "hung",
    "hang",
    "stuck",
    "stalled",
    "halted",
    "lost",
    "crashed",
    "unresponsive",
    "asserted",
    "exception",
    "panic",
];
/// Words that say, after "not", that nothing answers.
const ANSWERS: [&str; 8] = [
    "respond",
    "responding",
    "responsive",
    "answer",
    "answering",
    "alive",
    "running",
    "accessible",
];
/// What is done in vain with firmware that does not answer.
const CONTACTS: [&str; 6] = ["connect", "communicate", "contact", "reach", "talk", "handshake"];

/// What a message of an adapter's driver, in lower case, reports of the adapter's state; `Some(None)` is harmless.
#[expect(
    clippy::option_option,
    reason = "not known, known and harmless, or known with a meaning"
)]
pub(super) fn state(lower: &str) -> Option<Option<EventKind>> {
    let text = without_function(lower)
        .replace("n't", " not")
        .replace("re-", "re")
        .replace("timed out", "timeout")
        .replace("time out", "timeout");
    let words: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    of_memory(&words)
        .or_else(|| {
            let is_closed = is_unreachable(&words) || has_no_channel(&words);
            is_closed.then_some(Some(EventKind::FirmwareInit))
        })
        .or_else(|| probe::gave_up(lower, &words).then_some(Some(EventKind::ProbeFailed)))
        .or_else(|| (is_failed_attempt(&words) || is_dead(&words)).then_some(Some(EventKind::AdapterHealth)))
        .or_else(|| is_back(&words).then_some(Some(EventKind::Started)))
        .or_else(|| probe::is_without_interrupts(&words).then_some(Some(EventKind::DriverError)))
}

/// Whether a message is about the firmware from its first word on. What a driver logs as information may contain names and texts
/// that a process chose, but not at its beginning.
pub(super) fn begins_with_firmware(lower: &str) -> bool {
    let text = without_function(lower);
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(text.len());
    FIRMWARE.contains(&&text[..end])
}

/// The text without the name of the function that mlx5 writes before it: `poll_health:825:(pid 0): `.
fn without_function(lower: &str) -> &str {
    match lower.split_once("): ") {
        Some((before, rest)) if before.contains(":(pid ") => rest,
        _ => lower,
    }
}

fn any(words: &[&str], of: &[&str]) -> bool {
    words.iter().any(|word| of.contains(word))
}

/// Errors of the adapter's memory: `ROCEE RAS 2bit ECC error`, `imp_itcm0_ecc_mbit_err found`, `MC uncorrectable ECC data error`.
#[expect(
    clippy::option_option,
    reason = "not known, known and harmless, or known with a meaning"
)]
fn of_memory(words: &[&str]) -> Option<Option<EventKind>> {
    const FATAL: [&str; 9] = [
        "2bit",
        "dbit",
        "mbit",
        "multibit",
        "multi",
        "double",
        "uncorrectable",
        "uncorrected",
        "uncorr",
    ];
    const CORRECTED: [&str; 8] = [
        "1bit",
        "sbit",
        "single",
        "correctable",
        "corrected",
        "corr",
        "ce",
        "no",
    ];
    const ERRORS: [&str; 4] = ["error", "errors", "err", "fault"];
    let parts: Vec<&str> = words.iter().flat_map(|word| word.split('_')).collect();
    if !any(&parts, &["ecc", "ras"]) {
        return None;
    }
    if any(&parts, &FATAL) {
        return Some(Some(EventKind::AdapterHealth));
    }
    if any(&parts, &CORRECTED) {
        return Some(None);
    }
    any(&parts, &ERRORS).then_some(Some(EventKind::AdapterHealth))
}

/// `could not connect to FW, error -6`, `unable to contact the MCP`.
fn is_unreachable(words: &[&str]) -> bool {
    let Some(at) = words.iter().position(|word| CONTACTS.contains(word)) else {
        return false;
    };
    let is_in_vain = any(
        &words[..at],
        &["not", "cannot", "unable", "failed", "fails", "error"],
    );
    let rest = &words[at + 1..words.len().min(at + 5)];
    is_in_vain && (any(rest, &FIRMWARE) || any(rest, &ADAPTER))
}

/// `Firmware reset aborted`, `Rebuild failed, unload and reload driver`, `failed to reset VF stack`, `RoCE reinit failed -5`.
fn is_failed_attempt(words: &[&str]) -> bool {
    const REASONS: [&str; 8] = [
        "due",
        "after",
        "because",
        "for",
        "since",
        "when",
        "requesting",
        "requested",
    ];
    const AGAIN: [&str; 5] = ["retry", "retrying", "again", "attempt", "ignored"];
    // Who asked for the reset may not have it.
    const REFUSED: [&str; 3] = ["privilege", "privileges", "permitted"];
    if any(words, &PARTS) || any(words, &AGAIN) || any(words, &REFUSED) || is_of_a_function(words) {
        return false;
    }
    words.iter().enumerate().any(|(at, word)| {
        if !ATTEMPTS.contains(word) {
            return false;
        }
        // A word that many things share needs what is restarted.
        let is_shared = matches!(*word, "restart" | "restore");
        if is_shared && !any(words, &FIRMWARE) && !any(words, &ADAPTER) {
            return false;
        }
        let after = &words[at + 1..words.len().min(at + 6)];
        let ended = after.iter().position(|word| FAILED.contains(word));
        let fails = ended.is_some_and(|end| !any(&after[..end], &REASONS));
        let before = &words[at.saturating_sub(5)..at];
        let is_in_vain = ["failed", "unable", "cannot", "not"].iter().any(|negation| {
            before
                .iter()
                .position(|word| word == negation)
                .is_some_and(|from| {
                    let between = &before[from + 1..];
                    (between.contains(&"to") || matches!(*negation, "cannot" | "not"))
                        && !any(between, &REASONS)
                })
        });
        fails || is_in_vain && !any(before, &["need", "needed", "require"])
    })
}

/// Whether a physical function speaks of one of its virtual functions: `VF 3 reset failed`, `VF reset timed out on VF 3`.
fn is_of_a_function(words: &[&str]) -> bool {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let begins = matches!(words, ["vf", number, ..] if is_number(number));
    begins || words.windows(2).any(|pair| matches!(pair, ["on" | "of", "vf"]))
}

/// `FW Down: Stopping LIFs`, `device is dead`, `Firmware reports adapter error`, `no response from the MFW`.
fn is_dead(words: &[&str]) -> bool {
    const ASKED: [&str; 5] = ["cmd", "command", "opcode", "request", "query"];
    words.iter().enumerate().any(|(at, word)| {
        let (is_fw, is_adapter) = (FIRMWARE.contains(word), ADAPTER.contains(word));
        if !is_fw && !is_adapter {
            return false;
        }
        let rest = &words[at + 1..words.len().min(at + 4)];
        let is_silent = rest.windows(2).any(|pair| {
            (pair[0] == "not" || pair[0] == "longer" || pair[0] == "stopped") && ANSWERS.contains(&pair[1])
        }) || matches!(rest, ["failed" | "fails", "to", answers] if ANSWERS.contains(answers));
        let is_down = is_fw && matches!(rest, ["down", ..] | ["is", "down", ..]);
        let reports = is_fw
            && any(rest, &["reports", "reported"])
            && any(&words[at..], &["error", "failure", "assert", "fault"])
            && !any(words, &ASKED);
        let has_error = *word == "adapter" && rest.first() == Some(&"error");
        let is_stopped = rest.iter().take(2).any(|word| DEAD.contains(word));
        let has_no_answer = {
            let before = &words[at.saturating_sub(4)..at];
            before
                .windows(2)
                .any(|pair| pair == ["no", "response"] || pair == ["no", "answer"])
        };
        let is_unusable = matches!(rest, ["is", "not", "usable", ..] | ["is", "unusable", ..]);
        is_silent || is_down || reports || has_error || is_stopped || has_no_answer || is_unusable
    })
}

/// `FW heartbeat restored at 1342169700`, `Reset done, hclge driver initialization finished.`
fn is_back(words: &[&str]) -> bool {
    if any(words, &PARTS) || any(words, &FAILED) || any(words, &["not", "no"]) {
        return false;
    }
    words.iter().enumerate().any(|(at, word)| {
        let is_attempt = matches!(*word, "reset" | "recovery" | "rebuild");
        let of_firmware = FIRMWARE.contains(word);
        let next = words.get(at + 1);
        let is_done = next.is_some_and(|next| SUCCEEDED.contains(next));
        let is_up = of_firmware && matches!(next, Some(&"restored" | &"recovered"));
        is_attempt && is_done || is_up
    })
}

#[cfg(test)]
mod tests {
    use crate::{EventKind, classify};

    fn kind(line: &str) -> &'static str {
        classify(line).map_or("-", |report| report.kind.name())
    }

    #[test]
    fn an_adapter_that_does_not_come_back_has_failed() {
        for line in [
            "hns3 0000:7d:00.0: ROCEE RAS 2bit ECC error",
            "hns3 0000:7d:00.0: ROCEE RAS AXI bresp error",
            "hns3 0000:7d:00.0: imp_itcm0_ecc_mbit_err found [error status=0x1]",
            "hns3 0000:7d:00.0: In reset process RoCE reinit failed -5.",
            "hns3 0000:39:01.0: hclge device re-init failed, VF is disabled!",
            "hns3 0000:39:01.0: failed to reset VF stack",
            "bnxt_en 0000:74:00.0 benic5p1: Firmware reset aborted, PCI config space invalid",
            "bnxt_en 0000:74:00.0 benic5p1: Firmware reset failed, rc: -110",
            "ice 0000:18:00.1: Rebuild failed, unload and reload driver",
            "ice 0000:18:00.1: PF VSI rebuild failed: -5",
            "ice 0000:18:00.1: Unable to recover the device after 3 resets",
            "irdma 0000:18:00.1: reset timed out",
            "cxgb4 0000:3b:00.4: Firmware reports adapter error: During Device Preparation",
            "cxgb4 0000:3b:00.4: MC uncorrectable ECC data error",
            "6,1,1,-;ionic 0000:8c:00.0: FW heartbeat stalled at 1342169688",
            "6,1,1,-;ionic 0000:8c:00.0: FW Down: Stopping LIFs",
            "qede 0000:3b:00.0: The MFW is unresponsive",
            "mana 7870:00:00.0: device is dead",
            "habanalabs 0000:1a:00.0: Failed to initialize hl2. Device is NOT usable !",
            "[qed_mcp_cmd_and_union:612(eth0)]MFW failed to respond [cmd 0x0200, param 0x0].",
            "erdma 0000:00:07.0: no response from the firmware",
            "mlx5_core 0000:14:00.0: mlx5_unload_one:1435:(pid 7): firmware does not respond",
        ] {
            assert_eq!(kind(line), EventKind::AdapterHealth.name(), "{line}");
        }
        for line in [
            "cxgb4 0000:3b:00.4: could not connect to FW, error -6",
            "be2net 0000:3b:00.0: Failed to communicate with the adapter",
            "vmw_pvrdma 0000:03:00.1: could not allocate device",
            "usnic_verbs 0000:0b:00.2: Failed to alloc vnic 0000:0b:00.2 with err -12",
            "i40iw 0000:3d:00.0: initialization failed for port 1",
            "hns3 0000:fd:00.1: firmware version query failed -11",
            "hns3 0000:fd:00.1: Cmd queue init failed",
            "ionic 0000:8c:00.0: Failed to initialize admin queue: -110",
            "erdma 0000:00:07.0: failed to create cmdq, ret -12",
        ] {
            assert_eq!(kind(line), EventKind::FirmwareInit.name(), "{line}");
        }
    }

    #[test]
    fn an_adapter_that_came_back_works() {
        for line in [
            "6,1,1,-;ionic 0000:8c:00.0: FW heartbeat restored at 1342169700",
            "6,1,1,-;hns3 0000:7d:00.0: Reset done, hclge driver initialization finished.",
            "bnxt_en 0000:74:00.0 eth0: Firmware reset completed",
        ] {
            assert_eq!(kind(line), EventKind::Started.name(), "{line}");
        }
    }

    #[test]
    fn what_is_no_failure_of_the_adapter_is_none() {
        for line in [
            "hns3 0000:7d:00.0: ROCEE RAS 1bit ECC error",
            "cxgb4 0000:3b:00.4: 3 correctable ECC data errors",
            "hns3 0000:7d:00.0: requesting reset due to PCI error",
            "hns3 0000:7d:00.0 eth0: failed to reset tqp 3",
            "mlx5_core 0000:14:00.0: modify qp to reset failed",
            "ice 0000:18:00.0: VF 3 reset failed",
            "ice 0000:18:00.0: Reset failed, retrying",
            "bnxt_en 0000:74:00.0 eth0: Resetting after failed request",
            "mlx5_core 0000:14:00.0 eth0: Link Down",
            "6,1,1,-;mlx5_core 0000:14:00.0: alice-device is dead",
            "ionic 0000:8c:00.0 eth0: failed to reset counters",
            "mlx4_core 0000:82:00.0: device was reset successfully",
            "mlx5_core 0000:14:00.0: mlx5_sync_reset_abort_event:437:(pid 8): PCI Sync FW Update Reset Aborted.",
            "cxgb4 0000:3b:00.4: firmware version 1.27.0.0",
            "bnxt_en 0000:74:00.0: failed to get rom version of the flash",
            "hns3 0000:7d:00.0: failed to allocate device memory",
            "ice 0000:18:00.0: failed to init hw stats",
            "mlx5_core 0000:14:00.0: Failed to start port counters",
            "bnxt_en 0000:74:00.0 eth0: Failed to initialize hwmon device",
            "mlx5_core 0000:14:00.0: mlx5e_init_nic_tx: failed to init tc device",
            "ice 0000:18:00.0: Failed to initialize PTP",
            "hns3 0000:7d:00.0: port 3 did not start in time",
        ] {
            let kind = kind(line);
            assert!(
                kind == "-" || kind == EventKind::LinkDown.name(),
                "{line}: {kind}"
            );
        }
    }
}
