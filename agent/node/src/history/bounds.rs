//! Checks the limits of a history, because the content of a file is untrusted.

use super::{
    Boot, History, MAX_ARGUMENTS, MAX_BOOTS, MAX_DOWNS, MAX_KEY, MAX_MEASURED_IN_ALL, MAX_POINTS,
    MAX_SUBJECTS, MAX_TEXT, PortHistory, SCHEMA, Series,
    links::MAX_LINKS,
    series::{MAX_SAMPLES, MAX_VALUES},
};

use crate::iommu::DomainType;

impl History {
    /// Checks that it has this version and is within the limits that [`History::record`] keeps.
    ///
    /// # Errors
    /// The limit that it exceeds.
    pub fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!(
                "it has version {}, this program supports version {SCHEMA}",
                self.schema
            ));
        }
        most("boots", self.boots.len(), MAX_BOOTS)?;
        most("ports", self.ports.len(), MAX_SUBJECTS)?;
        most("PCI functions", self.functions.len(), MAX_SUBJECTS)?;
        self.clock.iter().try_for_each(|clock| text(&clock.boot))?;
        self.changes.check()?;
        self.logged.iter().try_for_each(super::Logged::check)?;
        self.observed.iter().try_for_each(super::Observed::check)?;
        self.boots.iter().try_for_each(boot)?;
        self.ports.iter().try_for_each(|(key, past)| {
            most("bytes in a port's name", key.len(), MAX_KEY)?;
            port(past)
        })?;
        self.functions.iter().try_for_each(|(address, past)| {
            most("bytes in an address", address.len(), MAX_KEY)?;
            series(past)
        })
    }
}

pub(super) fn most(what: &str, number: usize, limit: usize) -> Result<(), String> {
    if number > limit {
        return Err(format!("it has {number} {what}, at most {limit} are allowed"));
    }
    Ok(())
}

fn text(text: &str) -> Result<(), String> {
    most("bytes in a text", text.len(), MAX_TEXT)
}

fn boot(boot: &Boot) -> Result<(), String> {
    most("arguments of a boot", boot.arguments.len(), MAX_ARGUMENTS)?;
    most("functions in a boot", boot.domains.len(), MAX_SUBJECTS)?;
    most("devices in a boot", boot.hcas.len(), MAX_SUBJECTS)?;
    let texts = std::iter::once(&boot.id)
        .chain(&boot.kernel)
        .chain(&boot.arguments)
        .chain(boot.hcas.values().map(|seen| &seen.name))
        .chain(
            boot.hcas
                .values()
                .flat_map(|seen| [&seen.driver, &seen.netdev, &seen.slot])
                .flatten(),
        );
    texts.map(String::as_str).try_for_each(text)?;
    boot.domains.values().map(DomainType::as_str).try_for_each(text)?;
    let keys = boot.domains.keys().chain(boot.hcas.keys());
    keys.map(String::len)
        .try_for_each(|length| most("bytes in an address", length, MAX_KEY))
}

fn port(port: &PortHistory) -> Result<(), String> {
    most("times that a port went down", port.downs.len(), MAX_DOWNS)?;
    most("measurements of a port", port.measured.len(), MAX_MEASURED_IN_ALL)?;
    most("links of a port", port.links.len(), MAX_LINKS)?;
    most("members of a bond", port.member_downs.len(), MAX_LINKS)?;
    port.member_downs
        .values()
        .try_for_each(|downs| most("times that a member went down", downs.len(), MAX_DOWNS))?;
    let names = port.links.keys().chain(port.member_downs.keys());
    names.map(String::as_str).try_for_each(text)?;
    if !port.trend.is_within_limits() {
        return Err(format!(
            "the trend of a port has more than {MAX_POINTS} points, or a value that is not a number"
        ));
    }
    series(&port.counters)
}

fn series(series: &Series) -> Result<(), String> {
    most("samples", series.samples.len(), MAX_SAMPLES)?;
    series.samples.iter().try_for_each(|sample| {
        most("values in a sample", sample.values.len(), MAX_VALUES)?;
        sample.values.keys().map(String::as_str).try_for_each(text)
    })
}
