//! Writes the counters of all ports, family by family.

use rdma_health_instrument::Family;
use rdma_health_node::{Port, infiniband::Counter};

use super::{
    families::counters::{self as family, Directory, NAMED},
    table::Labelled,
    text::Sink,
};

/// Every known counter of every port, put in the order in which it is written.
pub(super) struct Values<'a> {
    /// Place in [`NAMED`], place in the list of ports, value in the family's unit.
    named: Vec<(u16, u16, u64)>,
    /// Those without their own family.
    others: Vec<Other<'a>>,
}

struct Other<'a> {
    port: usize,
    directory: Directory,
    name: &'a str,
    value: u64,
}

/// Sorts the counters of all ports by family. A counter that is absent or unread has no value and no place here.
pub(super) fn collect<'a>(ports: &[Labelled<Port<'a>>]) -> Values<'a> {
    let mut values = Values {
        named: Vec::with_capacity(ports.len() * NAMED.len()),
        others: Vec::new(),
    };
    for (at, labelled) in ports.iter().enumerate() {
        values.add(at, Directory::Counters, &labelled.of.kernel.counters);
        values.add(at, Directory::HwCounters, &labelled.of.kernel.hw_counters);
    }
    // Each port's run is in order already, which a stable sort makes use of. Ports keep their order.
    values.named.sort_by_key(|(family, ..)| *family);
    values
}

impl<'a> Values<'a> {
    fn add(&mut self, at: usize, directory: Directory, counters: &'a [Counter]) {
        let mut guess = family::first(directory);
        for counter in counters {
            let place = family::position(directory, &counter.name, guess);
            // Files come in the table's order, so the next one is most often the next there.
            guess = place.map_or(guess, |place| place + 1);
            let Some(value) = counter.value.known().copied() else {
                continue;
            };
            let small = place.and_then(|place| Some((u16::try_from(place).ok()?, u16::try_from(at).ok()?)));
            match (place.map(|place| &NAMED[place]), small) {
                // Wrapping is what a counter does, and what the node exporter does.
                (Some(named), Some((place, at))) => {
                    self.named.push((place, at, value.wrapping_mul(named.scale)));
                }
                _ => self.others.push(Other {
                    port: at,
                    directory,
                    name: &counter.name,
                    value,
                }),
            }
        }
    }

    /// Writes all of them under our own names.
    pub(super) fn write(&self, ports: &[Labelled<Port<'_>>], sink: &mut Sink<'_>) {
        self.write_named(ports, sink, |named| &named.family);
        for (family, levels) in [(&family::OTHER, false), (&family::LEVEL, true)] {
            let mut series = sink.series(family.entry());
            for other in self
                .others
                .iter()
                .filter(|other| family::is_level(other.name) == levels)
            {
                let labels = [other.directory.name(), other.name];
                series.sample(&ports[other.port].labels, &labels, other.value.into());
            }
        }
    }

    /// Writes those that have their own family, in the family that `which` picks.
    pub(super) fn write_named(
        &self,
        ports: &[Labelled<Port<'_>>],
        sink: &mut Sink<'_>,
        which: fn(&'static family::Named) -> &'static Family<2>,
    ) {
        for run in self.named.chunk_by(|(one, ..), (other, ..)| one == other) {
            let mut series = sink.series(which(&NAMED[usize::from(run[0].0)]).entry());
            for (_, port, value) in run {
                series.sample(&ports[usize::from(*port)].labels, &[], (*value).into());
            }
        }
    }
}
