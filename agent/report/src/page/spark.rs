//! Drawings of the last day of a port: traffic, errors and probes, one column of pixels for each point.

use rdma_health_node::{
    history::{MAX_POINTS, Point, SPACING},
    words::{bandwidth, count_of},
};

use crate::markup::Markup;

/// Height of a drawing.
const HEIGHT: usize = 20;

/// What to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Traffic,
    Errors,
    Probe,
}

impl Kind {
    fn value(self, point: &Point) -> Option<f64> {
        match self {
            Self::Traffic => point.bytes_per_second(),
            #[allow(clippy::cast_precision_loss)] // a drawing needs no 53 bits
            Self::Errors => point.errors.map(|errors| errors as f64),
            Self::Probe => point.probe,
        }
    }

    fn is_bad(self, point: &Point) -> bool {
        match self {
            Self::Traffic => point.down,
            Self::Errors => point.errors.is_some_and(|errors| errors > 0),
            Self::Probe => point.probe_failed,
        }
    }

    /// The drawing in words, for those who cannot see it and for the line below it.
    fn words(self, points: &[Point]) -> String {
        let values = points.iter().filter_map(|point| self.value(point));
        match self {
            Self::Traffic => format!("peak {}", bandwidth(values.fold(0.0, f64::max))),
            Self::Probe => match values.reduce(f64::min) {
                Some(lowest) => format!("lowest {}", bandwidth(lowest)),
                None => "every probe failed".into(),
            },
            Self::Errors => match points.iter().filter_map(|point| point.errors).sum() {
                0 => "none".into(),
                errors => count_of(errors, "error"),
            },
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Traffic => "Traffic of the last day: ",
            Self::Errors => "Errors of the last day: ",
            Self::Probe => "Probes of the last day: ",
        }
    }
}

/// Draws the points of the day that ends at `now`, in seconds since 1970. `full` is the value of a full column, in bytes per
/// second; without it, the highest value is. Nothing is drawn for a time that was not observed.
pub(super) fn draw(page: &mut Markup, kind: Kind, points: &[Point], full: Option<f64>, now: u64) {
    let is_shown = |point: &&Point| kind.value(point).is_some() || kind.is_bad(point);
    let points: Vec<Point> = points.iter().filter(is_shown).copied().collect();
    if points.is_empty() {
        page.html("<span class=dim>not observed</span>");
        return;
    }
    let words = kind.words(&points);
    page.html("<svg class=spark role=img width=144 height=20 viewBox=\"0 0 144 20\" aria-label=\"")
        .html(kind.title())
        .text(&words)
        .html("\">");
    let highest = points
        .iter()
        .filter_map(|point| kind.value(point))
        .fold(0.0, f64::max);
    let full = full.filter(|full| *full > 0.0).unwrap_or(highest).max(highest);
    let last = now / SPACING;
    let columns = points.iter().filter_map(|point| {
        let age = usize::try_from(last.checked_sub(point.time / SPACING)?).ok()?;
        Some(((MAX_POINTS - 1).checked_sub(age)?, point))
    });
    let (mut good, mut bad) = (Bars::default(), Bars::default());
    for (column, point) in columns {
        if kind.is_bad(point) {
            // A failure is a full column: it must be seen.
            bad.add(column, HEIGHT);
        } else if let Some(value) = kind.value(point) {
            good.add(column, height(value, full));
        }
    }
    good.draw(page, false);
    bad.draw(page, true);
    page.html("</svg><small>").text(words).html("</small>");
}

/// The height of a column; at least one pixel for what is not zero.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)] // from 0 to 20
fn height(value: f64, full: f64) -> usize {
    if full <= 0.0 || !value.is_finite() {
        return 0;
    }
    ((value / full).clamp(0.0, 1.0) * HEIGHT as f64).ceil() as usize
}

/// Columns as one path; neighbours of the same height are one rectangle.
#[derive(Debug, Default)]
struct Bars(Vec<(usize, usize, usize)>);

impl Bars {
    fn add(&mut self, column: usize, height: usize) {
        match self.0.last_mut() {
            Some((start, width, same)) if *start + *width == column && *same == height => *width += 1,
            _ => self.0.push((column, 1, height)),
        }
    }

    fn draw(&self, page: &mut Markup, is_bad: bool) {
        let mut bars = self.0.iter().filter(|(_, _, height)| *height > 0).peekable();
        if bars.peek().is_none() {
            return;
        }
        page.html(if is_bad {
            "<path class=bad d=\""
        } else {
            "<path d=\""
        });
        for (start, width, height) in bars {
            page.html("M").text(start).html(" 20v-").text(height);
            page.html("h").text(width).html("v").text(height).html("z");
        }
        page.html("\"/>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(kind: Kind, points: &[Point]) -> String {
        let mut page = Markup::default();
        draw(&mut page, kind, points, Some(100e9), 200_000_000);
        page.into_string()
    }

    fn point(age: u64) -> Point {
        Point {
            time: 200_000_000 - 200_000_000 % SPACING - age * SPACING,
            ..Point::default()
        }
    }

    #[test]
    fn a_column_is_as_high_as_its_share_of_the_rate_and_a_gap_is_empty() {
        let traffic = |age, bytes| Point {
            seconds: 600,
            bytes: Some(bytes),
            ..point(age)
        };
        let half = 600 * 50_000_000_000;
        let drawing = drawn(
            Kind::Traffic,
            &[traffic(3, half), traffic(2, half), traffic(0, half)],
        );
        assert!(
            drawing.contains("d=\"M140 20v-10h2v10zM143 20v-10h1v10z\""),
            "{drawing}"
        );
        assert!(drawing.contains("peak 400.00 Gb/s"), "{drawing}");
        // What is older than a day, or in the future, is left out.
        let drawing = drawn(Kind::Traffic, &[traffic(144, half), traffic(1, 0)]);
        assert!(!drawing.contains("<path"), "{drawing}");
    }

    #[test]
    fn a_failure_is_seen_even_if_nothing_was_measured() {
        let failed = Point {
            probe_failed: true,
            ..point(0)
        };
        let drawing = drawn(Kind::Probe, &[failed]);
        assert!(
            drawing.contains("class=bad") && drawing.contains("every probe failed"),
            "{drawing}"
        );
        assert!(drawn(Kind::Errors, &[failed]).contains("not observed"));
    }
}
