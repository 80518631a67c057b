//! Writes the whole answer to a scrape.

use std::{
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use prometheus::{Registry, TextEncoder};
use rdma_health_time::since_1970;
use rdma_health_view::View;

use super::{
    counters,
    families::{
        FIXED, agent, devices, drivers, kernel_log, links, node, node_exporter, optics, pci, pods, ports,
        priorities, probes, process, verdict,
    },
    format::Format,
    table::write,
    template::{Gap, Template},
    text::Sink,
};

/// How to render.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RenderOptions {
    /// Whether the families of the Prometheus node exporter are also written.
    pub node_exporter_names: bool,
    /// Whether families whose values do not change while the node runs are left out.
    pub without_fixed: bool,
    /// The format of the text.
    pub format: Format,
}

/// Writes the metrics of a process.
#[derive(Debug)]
pub struct Exporter {
    registry: Registry,
    /// Start of the process, in seconds since 1970.
    started: f64,
    /// The families of the last view that do not change with every reading.
    kept: Mutex<Option<Kept>>,
}

/// What was written of a view.
#[derive(Debug)]
struct Kept {
    /// [`View::generation`] of it.
    generation: u64,
    options: RenderOptions,
    template: Template,
}

impl Default for Exporter {
    /// An exporter of a process that starts now.
    fn default() -> Self {
        Self {
            registry: Registry::new(),
            started: since_1970(SystemTime::now()).as_secs_f64(),
            kept: Mutex::default(),
        }
    }
}

impl Exporter {
    /// Where the parts of the agent register what they count as it happens.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Appends every metric to `buffer`. Without a view (before the first reading) only the agent's own.
    pub fn render(&self, view: Option<&View>, options: RenderOptions, buffer: &mut Vec<u8>) {
        let without = if options.without_fixed { FIXED } else { &[] };
        if let Some(view) = view {
            self.write_kept(view, options, without, buffer);
        }
        let mut sink = Sink::new(buffer, options.format, without);
        if let Some(view) = view {
            write(&agent::READING, &agent::reading(view), &mut sink);
            write(&agent::SOURCES, &agent::sources(view), &mut sink);
        }
        write(&agent::PROGRAM, &agent::program(), &mut sink);
        write(&process::PROCESS, &process::subject(self.started), &mut sink);
        // Fails only for a family that is itself wrong, which a test excludes; half of it would spoil the scrape.
        if let Ok(text) = TextEncoder::new().encode_to_string(&self.registry.gather()) {
            options.format.append(&text, buffer);
        }
        options.format.end(buffer);
    }

    /// Appends what does not change with every reading, but for counters.
    fn write_kept(&self, view: &View, options: RenderOptions, without: &[&str], buffer: &mut Vec<u8>) {
        // It is replaced as a whole, so a panic leaves nothing half written.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |kept: &Kept| {
            kept.generation == view.generation && kept.options == options && kept.template.fits(&view.node)
        };
        if !kept.as_ref().is_some_and(fits) {
            // Frees the memory of the old one before it needs as much again.
            *kept = None;
        }
        let kept = kept.get_or_insert_with(|| Kept {
            generation: view.generation,
            options,
            template: Template::new(&view.node, |text, gaps| {
                write_view(view, options, &mut Sink::new(text, options.format, without), gaps);
            }),
        });
        kept.template.fill(&view.node, buffer);
    }
}

fn write_view(view: &View, options: RenderOptions, sink: &mut Sink<'_>, gaps: &mut Vec<Gap>) {
    let node = &view.node;
    write(&node::NODE, &node::subject(node), sink);

    let functions = node.functions();
    write(&pci::IOMMU_GROUPS, &pci::iommu_groups(&functions), sink);
    write(&pci::FUNCTIONS, &pci::functions(node, &functions), sink);
    write(&pci::SRIOV, &pci::sriov(&functions), sink);

    let devices = devices::devices(node);
    write(&devices::DEVICES, &devices, sink);
    write(&devices::VERBS, &devices::verbs(node), sink);
    write(&pods::PODS, &pods::pods(node), sink);
    write(&kernel_log::EVENTS, &kernel_log::events(node, &functions), sink);

    let ports = ports::ports(node);
    write(&ports::PORTS, &ports, sink);
    write(&links::LINKS, &links::links(node), sink);
    write(&links::NEIGHBOURS, &links::neighbours(node), sink);
    write(&drivers::DRIVERS, &drivers::drivers(node), sink);
    write(&links::REPORTERS, &links::reporters(node), sink);
    write(&links::FIRMWARE, &links::firmware(node), sink);
    write(&optics::MODULES, &optics::modules(node), sink);
    write(&optics::LANES, &optics::lanes(node), sink);
    write(&priorities::PRIORITIES, &priorities::priorities(node), sink);
    write(
        &priorities::VIRTUAL_FUNCTIONS,
        &priorities::virtual_functions(node),
        sink,
    );
    write(&priorities::NEIGHBOURS, &priorities::neighbours(node), sink);
    write(&priorities::OBJECTS, &priorities::objects(node), sink);
    write(&priorities::OPTIONAL, &priorities::optional(node), sink);
    write(&priorities::SUBSYSTEM, &priorities::subsystem(node), sink);
    let counters = counters::collect(&ports);
    counters.write(&ports, sink, gaps);
    if options.node_exporter_names {
        write(&node_exporter::DEVICES, &devices, sink);
        write(&node_exporter::PORTS, &ports, sink);
        counters.write_named(&ports, sink, gaps, |named| &named.legacy);
    }

    write(&verdict::VERDICT, &verdict::subject(&view.verdict), sink);
    write(&verdict::EXPLAINED, &verdict::explained(view), sink);
    write(&probes::PROBES, &probes::ran(node), sink);
    write(&probes::SKIPPED, &probes::skipped(node), sink);
    write(&probes::BASELINES, &probes::baselines(node, &ports), sink);
}
