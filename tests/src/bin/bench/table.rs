//! How figures are printed.

use std::fs;

/// What a figure must reach.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// Ours by theirs at most.
    RatioAtMost(f64),
    /// Ours by theirs at least.
    RatioAtLeast(f64),
    /// Ours at most.
    AtMost(f64),
    /// Only for information.
    None,
}

/// Prints one comparison.
pub(crate) fn compare(what: &str, unit: &str, ours: f64, theirs: f64, target: Target) {
    let ratio = ours / theirs;
    let reached = match target {
        Target::RatioAtMost(most) => format!("ratio at most {most:.2}: {}", word(ratio <= most)),
        Target::RatioAtLeast(least) => format!("ratio at least {least:.2}: {}", word(ratio >= least)),
        Target::AtMost(most) => format!("at most {most} {unit}: {}", word(ours <= most)),
        Target::None => "no target".into(),
    };
    println!("  {what:<44} {ours:>9.3} {theirs:>9.3} {unit:<5} {ratio:>7.3}  {reached}");
}

/// Prints the head of comparisons with `other`.
pub(crate) fn head(title: &str, other: &str) {
    println!(
        "\n{title}\n  {:<44} {:>9} {other:>9} {:<5} {:>7}  target",
        "", "ours", "", "ratio"
    );
}

pub(crate) fn word(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}

/// The middle of the values.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Prints what machine this is and how busy.
pub(crate) fn machine() {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let processors = cpuinfo
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    println!(
        "{processors} x {model}, Linux {}, load average {}",
        kernel.trim(),
        load.split(' ').next().unwrap_or("unknown")
    );
}

/// Prints what share of a link the default probe takes, from the defaults as they are documented.
pub(crate) fn load() {
    const DEFAULTS: &str = include_str!("../../../../docs/configuration.md");
    let number = |key: &str, unit: &str| -> Option<f64> {
        let line = DEFAULTS
            .lines()
            .find_map(|line| line.strip_prefix("  ")?.strip_prefix(key))?;
        line.split_whitespace().next()?.strip_suffix(unit)?.parse().ok()
    };
    println!("\nLoad of the default probe on a port");
    let (Some(mebibytes), Some(minutes)) = (number("byte_budget:", "MiB"), number("interval:", "m")) else {
        println!(
            "  docs/configuration.md no longer gives byte_budget in MiB and the probe's interval in minutes"
        );
        return;
    };
    let bits_per_second = mebibytes * f64::from(1 << 20) * 8.0 / (minutes * 60.0);
    for gigabits in [10.0, 100.0, 400.0] {
        let share = 100.0 * bits_per_second / (gigabits * 1e9);
        println!(
            "  {mebibytes} MiB every {minutes} min on {gigabits:>3} Gb/s: {share:.4}%  at most 0.1%: {}",
            word(share <= 0.1)
        );
    }
}
