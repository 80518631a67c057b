//! The topology as a drawing: GPUs and NICs below the PCIe switches and host bridges that they share.

use rdma_health_node::{Node, iommu::DomainType, model, topology::host_bridge};

use super::{End, ends};
use crate::markup::Markup;

/// The size of a box, and the space around it, in pixels.
const WIDTH: usize = 150;
const HEIGHT: usize = 64;
const GAP: usize = 16;

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#222}.name{font-weight:600}\
rect{fill:#fff;stroke:#666}.gpu{fill:#e7f0fb;stroke:#2b5f9e}.active{fill:#e7f5ea;stroke:#176f2c}\
.down{fill:#fbe9e7;stroke:#b3261e}.bridge{fill:#f2f2f2}path{stroke:#666;fill:none}";

/// A place in the hierarchy: a NUMA node, a host bridge, a switch, or a GPU or NIC.
struct Place<'a> {
    label: String,
    /// `None` for what others are below.
    end: Option<&'a End<'a>>,
    below: Vec<Place<'a>>,
}

impl<'a> Place<'a> {
    fn new(label: String) -> Self {
        Self {
            label,
            end: None,
            below: Vec::new(),
        }
    }

    /// Adds a GPU or NIC below the places with these labels.
    fn add(&mut self, path: &[String], end: &'a End<'a>) {
        let Some((first, rest)) = path.split_first() else {
            self.below.push(Self {
                label: end.name.clone(),
                end: Some(end),
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

    /// Removes PCIe bridges with only one thing below: ports of a switch, and root ports of a single device.
    fn collapse(self) -> Self {
        let mut below: Vec<_> = self.below.into_iter().map(Self::collapse).collect();
        for place in &mut below {
            if place.end.is_none()
                && place.label.starts_with("PCIe bridge")
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
    fn draw(&self, drawing: &mut Markup, column: usize, row: usize, last: usize) -> (usize, usize) {
        let width = self.leaves().max(1) * (WIDTH + GAP) - GAP;
        let x = GAP + column * (WIDTH + GAP);
        // GPUs and NICs are in one row at the bottom.
        let row = if self.end.is_some() { last } else { row };
        let y = GAP + row * (HEIGHT + GAP);
        let height = if self.end.is_some() { HEIGHT } else { HEIGHT / 2 };
        let mut column = column;
        for place in &self.below {
            let (to_x, to_y) = place.draw(drawing, column, row + 1, last);
            drawing.html("<path d=\"M").text(to_x).html(" ").text(y + height);
            drawing.html("V").text(to_y).html("\"/>");
            column += place.leaves();
        }
        drawing
            .html("<rect rx=\"4\" class=\"")
            .html(self.class())
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
                .text(x + 8)
                .html("\" y=\"")
                .text(y + 18 + 16 * n)
                .html("\">");
            drawing.text(line).html("</text>");
        }
        (x + width / 2, y)
    }

    fn class(&self) -> &'static str {
        match self.end {
            None => "bridge",
            Some(end) if end.link.is_empty() => "gpu",
            Some(end) if end.link.split(',').all(|state| state == "ACTIVE") => "active",
            Some(_) => "down",
        }
    }

    fn lines(&self) -> Vec<String> {
        let Some(end) = self.end else {
            return vec![self.label.clone()];
        };
        let model = end.function.pci.and_then(model::of).unwrap_or_default();
        let dma = end.function.dma.map_or("", DomainType::as_str);
        let state = [end.link.as_str(), dma]
            .into_iter()
            .filter(|text| !text.is_empty());
        vec![
            format!("{} {model}", end.name).trim_end().to_owned(),
            end.function.address.to_owned(),
            state.collect::<Vec<_>>().join(", "),
        ]
    }
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
        .map(|address| format!("PCIe bridge {address}"));
    std::iter::once(numa).chain(host).chain(bridges).collect()
}

/// The topology as an SVG image, without scripts and external resources.
pub fn svg(node: &Node) -> String {
    let topology = node.topology();
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
    let root = root.collapse();
    let (width, rows) = (root.leaves().max(1) * (WIDTH + GAP) + GAP, root.depth());
    let mut drawing = Markup::default();
    drawing
        .html("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"GPUs and NICs\" viewBox=\"0 0 ")
        .text(width)
        .html(" ")
        .text(rows * (HEIGHT + GAP) + GAP)
        .html("\" width=\"")
        .text(width)
        .html("\"><style>")
        .html(STYLE)
        .html("</style>");
    root.draw(&mut drawing, 0, 0, rows - 1);
    drawing.html("</svg>\n");
    drawing.into_string()
}
