//! Writes the counters of all ports, family by family.

use rdma_health_instrument::Family;
use rdma_health_node::{Port, infiniband::Counter};

use super::{
    families::counters::{self as family, Directory, NAMED},
    table::Labelled,
    template::Gap,
    text::Sink,
};

/// Every known counter of every port, put in the order in which it is written.
pub(super) struct Counters<'a> {
    /// Place in [`NAMED`], place in the list of ports, place in the list of all counters.
    named: Vec<(u16, u16, u32)>,
    /// Those without their own family.
    others: Vec<Other<'a>>,
    /// How many counters there are, known or not.
    count: u32,
}

struct Other<'a> {
    port: usize,
    directory: Directory,
    name: &'a str,
    counter: u32,
}

/// Sorts the counters of all ports by family. A counter that is absent or unread has no value and no place here.
pub(super) fn collect<'a>(ports: &[Labelled<Port<'a>>]) -> Counters<'a> {
    let mut counters = Counters {
        named: Vec::with_capacity(ports.len() * NAMED.len()),
        others: Vec::new(),
        count: 0,
    };
    for (at, labelled) in ports.iter().enumerate() {
        counters.add(at, Directory::Counters, &labelled.of.kernel.counters);
        counters.add(at, Directory::HwCounters, &labelled.of.kernel.hw_counters);
    }
    // Each port's run is in order already, which a stable sort makes use of. Ports keep their order.
    counters.named.sort_by_key(|(family, ..)| *family);
    counters
}

impl<'a> Counters<'a> {
    fn add(&mut self, at: usize, directory: Directory, counters: &'a [Counter]) {
        let mut guess = family::first(directory);
        for counter in counters {
            let number = self.count;
            self.count += 1;
            let place = family::position(directory, &counter.name, guess);
            // Files come in the table's order, so the next one is most often the next there.
            guess = place.map_or(guess, |place| place + 1);
            if counter.value.known().is_none() {
                continue;
            }
            match place.and_then(|place| Some((u16::try_from(place).ok()?, u16::try_from(at).ok()?))) {
                Some((place, at)) => self.named.push((place, at, number)),
                None => self.others.push(Other {
                    port: at,
                    directory,
                    name: &counter.name,
                    counter: number,
                }),
            }
        }
    }

    /// Writes all of them under our own names, with gaps for their values.
    pub(super) fn write(&self, ports: &[Labelled<Port<'_>>], sink: &mut Sink<'_>, gaps: &mut Vec<Gap>) {
        self.write_named(ports, sink, gaps, |named| &named.family);
        for (family, levels) in [(&family::OTHER, false), (&family::LEVEL, true)] {
            let mut series = sink.series(family.entry());
            for other in self
                .others
                .iter()
                .filter(|other| family::is_level(other.name) == levels)
            {
                let labels = [other.directory.name(), other.name];
                gaps.push(Gap {
                    at: series.gap(&ports[other.port].labels, &labels),
                    counter: other.counter,
                    scale: 1,
                });
            }
        }
    }

    /// Writes those that have their own family, in the family that `which` picks.
    pub(super) fn write_named(
        &self,
        ports: &[Labelled<Port<'_>>],
        sink: &mut Sink<'_>,
        gaps: &mut Vec<Gap>,
        which: fn(&'static family::Named) -> &'static Family<2>,
    ) {
        for run in self.named.chunk_by(|(one, ..), (other, ..)| one == other) {
            let named = &NAMED[usize::from(run[0].0)];
            let mut series = sink.series(which(named).entry());
            for (_, port, counter) in run {
                gaps.push(Gap {
                    at: series.gap(&ports[usize::from(*port)].labels, &[]),
                    counter: *counter,
                    scale: named.scale,
                });
            }
        }
    }
}
