//! The topology as a drawing: GPUs and NICs below the PCIe switches and host bridges that they share.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{Node, iommu::DomainType, model, topology::host_bridge};
use rdma_health_rules::Severity;

use super::{End, ends};
use crate::{line::cut, markup::Markup};

/// The size of a box, and the space around it, in pixels.
const WIDTH: usize = 172;
const HEIGHT: usize = 64;
const GAP: usize = 16;
/// The space between a box and its text, and what a character takes at most on average.
const MARGIN: usize = 8;
const CHARACTER: usize = 6;

/// The label of a bridge, before its address.
const BRIDGE: &str = "PCIe bridge ";

/// The selectors name the drawing: in a page its style applies to the whole page. On a dark background the boxes stay light, so
/// that their text is readable.
const STYLE: &str = "\
.topology text{font:12px system-ui,sans-serif;fill:#222}.topology .name{font-weight:600}\
.topology rect{fill:#fff;stroke:#666}.topology .gpu{fill:#e7f0fb;stroke:#2b5f9e}\
.topology .active{fill:#e7f5ea;stroke:#176f2c}.topology .idle{fill:#eee;stroke:#666}\
.topology .warning{fill:#fdf3dc;stroke:#8a5a00;stroke-width:2}.topology .down{fill:#fbe9e7;stroke:#b3261e;stroke-width:2}\
.topology .bridge{fill:#f2f2f2}.topology path{stroke:#888;fill:none}";

/// The worst severity by subject of findings: `mlx5_0`, `mlx5_0:1`, or a PCI address.
type Troubled = BTreeMap<String, Severity>;

/// A place in the hierarchy: a NUMA node, a host bridge, a switch, or a GPU or NIC.
struct Place<'a> {
    label: String,
    /// `None` for what others are below.
    end: Option<&'a End<'a>>,
    /// Whether it is a bridge whose ACS redirects traffic between a GPU and its best NIC.
    redirects: bool,
    below: Vec<Place<'a>>,
}

impl<'a> Place<'a> {
    fn new(label: String) -> Self {
        Self {
            label,
            end: None,
            redirects: false,
            below: Vec::new(),
        }
    }

    /// Adds a GPU or NIC below the places with these labels.
    fn add(&mut self, path: &[String], end: &'a End<'a>) {
        let Some((first, rest)) = path.split_first() else {
            self.below.push(Self {
                label: end.name.clone(),
                end: Some(end),
                redirects: false,
                below: Vec::new(),
            });
            return;
        };
        let known = self.below.iter().position(|place| place.label == *first);
        let place = known.unwrap_or_else(|| {
            self.below.push(Self::new(first.clone()));
            self.below.len() - 1
        });
        self.below[place].add(rest, end);
    }

    /// Marks the bridges with these addresses.
    fn mark(&mut self, redirecting: &BTreeSet<&str>) {
        let address = self.label.strip_prefix(BRIDGE);
        self.redirects = address.is_some_and(|address| redirecting.contains(address));
        for place in &mut self.below {
            place.mark(redirecting);
        }
    }

    /// Removes PCIe bridges with only one thing below: ports of a switch, and root ports of a single device. Those that redirect stay.
    fn collapse(self) -> Self {
        let mut below: Vec<_> = self.below.into_iter().map(Self::collapse).collect();
        for place in &mut below {
            if place.end.is_none()
                && place.label.starts_with(BRIDGE)
                && !place.redirects
                && let [_] = place.below.as_slice()
                && let Some(only) = place.below.pop()
            {
                *place = only;
            }
        }
        Self { below, ..self }
    }

    fn leaves(&self) -> usize {
        match self.end {
            Some(_) => 1,
            None => self.below.iter().map(Self::leaves).sum(),
        }
    }

    fn depth(&self) -> usize {
        1 + self.below.iter().map(Self::depth).max().unwrap_or(0)
    }

    /// Draws it with its left edge at `column`, in units of boxes; returns the middle of its upper edge.
    fn draw(
        &self,
        drawing: &mut Markup,
        troubled: Option<&Troubled>,
        column: usize,
        row: usize,
        last: usize,
    ) -> (usize, usize) {
        let width = self.leaves().max(1) * (WIDTH + GAP) - GAP;
        let x = GAP + column * (WIDTH + GAP);
        // GPUs and NICs are in one row at the bottom.
        let row = if self.end.is_some() { last } else { row };
        let y = GAP + row * (HEIGHT + GAP);
        let height = if self.end.is_some() { HEIGHT } else { HEIGHT / 2 };
        let mut column = column;
        for place in &self.below {
            let (to_x, to_y) = place.draw(drawing, troubled, column, row + 1, last);
            drawing.html("<path d=\"M").text(to_x).html(" ").text(y + height);
            drawing.html("V").text(to_y).html("\"/>");
            column += place.leaves();
        }
        drawing
            .html("<rect rx=\"4\" class=\"")
            .html(self.class(troubled))
            .html("\" x=\"")
            .text(x);
        drawing.html("\" y=\"").text(y).html("\" width=\"").text(width);
        drawing.html("\" height=\"").text(height).html("\"/>");
        for (n, line) in self.lines().iter().enumerate() {
            drawing.html(if n == 0 {
                "<text class=\"name\" x=\""
            } else {
                "<text x=\""
            });
            drawing
                .text(x + MARGIN)
                .html("\" y=\"")
                .text(y + 18 + 16 * n)
                .html("\">");
            let shown = cut(line, (width - 2 * MARGIN) / CHARACTER);
            if shown != *line {
                // The whole text appears where the pointer rests.
                drawing.html("<title>").text(line).html("</title>");
            }
            drawing.text(shown).html("</text>");
        }
        (x + width / 2, y)
    }

    /// Its colour: of its findings if they are known, otherwise of the states of its ports.
    fn class(&self, troubled: Option<&Troubled>) -> &'static str {
        let Some(end) = self.end else {
            return if self.redirects { "warning" } else { "bridge" };
        };
        let is_active = end.link.split(',').all(|state| state == "ACTIVE");
        match troubled.map(|troubled| worst(troubled, end)) {
            Some(Some(Severity::Critical)) => "down",
            Some(Some(_)) => "warning",
            _ if end.link.is_empty() => "gpu",
            _ if is_active => "active",
            // Not every port of a node is in use.
            Some(None) => "idle",
            None => "down",
        }
    }

    fn lines(&self) -> Vec<String> {
        let Some(end) = self.end else {
            // A bridge with one device below is as narrow as that.
            let redirecting = self.label.strip_prefix(BRIDGE).filter(|_| self.redirects);
            return vec![
                redirecting.map_or_else(|| self.label.clone(), |address| format!("ACS at {address}")),
            ];
        };
        let model = end.function.pci.and_then(model::of).unwrap_or_default();
        let dma = end.function.dma.map_or("", DomainType::as_str);
        let best = end.best.map(|nic| format!("near {nic}")).unwrap_or_default();
        let rail = end.rail.map(|rail| format!(", rail {rail}")).unwrap_or_default();
        let state = [end.link.as_str(), dma, &best]
            .into_iter()
            .filter(|text| !text.is_empty());
        vec![
            format!("{} {model}", end.name).trim_end().to_owned(),
            format!("{}{rail}", end.function.address),
            state.collect::<Vec<_>>().join(", "),
        ]
    }
}

/// The worst finding about a GPU, a NIC or one of its ports.
fn worst(troubled: &Troubled, end: &End<'_>) -> Option<Severity> {
    let function = end.function;
    let is_about = |subject: &str| {
        let device = subject.rsplit_once(':').map_or(subject, |(device, _)| device);
        subject == function.address
            || function
                .names
                .iter()
                .any(|name| *name == subject || *name == device)
    };
    let about = troubled.iter().filter(|(subject, _)| is_about(subject));
    about.map(|(_, severity)| *severity).max()
}

/// The places above a function, from its NUMA node down.
fn path(end: &End<'_>) -> Vec<String> {
    let function = end.function;
    let numa = function
        .numa_node()
        .map_or("NUMA node not reported".to_owned(), |node| {
            format!("NUMA node {node}")
        });
    let host = host_bridge(function).map(|bus| format!("host bridge {bus}"));
    let bridges = function
        .bridges()
        .iter()
        .map(|address| format!("{BRIDGE}{address}"));
    std::iter::once(numa).chain(host).chain(bridges).collect()
}

/// The topology as an SVG image, without scripts and external resources.
pub fn svg(node: &Node) -> String {
    let mut drawing = drawn(node, None);
    drawing.html("\n");
    drawing.into_string()
}

/// The drawing, coloured by findings if they are given, otherwise by the states of ports.
pub(crate) fn drawn(node: &Node, troubled: Option<&Troubled>) -> Markup {
    let (topology, _) = node.visible_topology();
    let ends = ends(node, &topology);
    let mut root = Place::new(
        node.host
            .hostname
            .known()
            .map_or("node", String::as_str)
            .to_owned(),
    );
    let mut paths: Vec<_> = ends.iter().map(|end| (path(end), end)).collect();
    paths.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (path, end) in paths {
        root.add(&path, end);
    }
    let to_best = topology
        .gpus
        .iter()
        .flat_map(|gpu| gpu.paths.iter().filter(|path| Some(path.nic) == gpu.best_nic));
    root.mark(
        &to_best
            .flat_map(|path| path.acs_redirect.iter().copied())
            .collect(),
    );
    let root = root.collapse();
    let (width, rows) = (root.leaves().max(1) * (WIDTH + GAP) + GAP, root.depth());
    let mut drawing = Markup::default();
    drawing
        .html("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"topology\" role=\"img\" aria-label=\"GPUs and NICs\" viewBox=\"0 0 ")
        .text(width)
        .html(" ")
        .text(rows * (HEIGHT + GAP) + GAP)
        .html("\" width=\"")
        .text(width)
        .html("\"><style>")
        .html(STYLE)
        .html("</style>");
    root.draw(&mut drawing, troubled, 0, 0, rows - 1);
    drawing.html("</svg>");
    drawing
}
