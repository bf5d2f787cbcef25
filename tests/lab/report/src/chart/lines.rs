//! Curves and scatter plots of several systems on common axes.
use maud::{Markup, html};

use super::{Anchor, Drawing, Look, Scale, finite, tenths, tick_label, ticks};
use crate::{markup::Text, results::SeriesPoint};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Maximum number of points: more would exceed the number of pixels.
const MAX_POINTS: usize = 600;

/// Connection of the points of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// A curve over time.
    Curve,
    /// A curve through few measured points, each marked.
    Marked,
    /// Unconnected points.
    Scatter,
}

/// One system's points.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) look: Look,
    pub(crate) points: Vec<SeriesPoint>,
}

/// A chart whose axes begin at zero.
#[derive(Clone, Debug)]
pub(crate) struct LineChart {
    pub(crate) title: String,
    pub(crate) x_axis: String,
    pub(crate) y_axis: String,
    pub(crate) join: Join,
    pub(crate) lines: Vec<Line>,
}

impl LineChart {
    /// Returns the chart with its legend, as a figure; empty without finite points.
    pub(crate) fn draw(&self) -> Markup {
        let points: Vec<SeriesPoint> = self
            .lines
            .iter()
            .flat_map(|line| &line.points)
            .copied()
            .filter(is_finite)
            .collect();
        if points.is_empty() {
            return html! {};
        }
        let right = points.iter().map(|point| point.at).fold(0.0, f64::max);
        let top = points.iter().map(|point| point.value).fold(0.0, f64::max);
        let (unit, divisor) = axis_unit(&self.y_axis, top);
        let margin = if self.join == Join::Curve { 1.0 } else { 1.06 };
        let across = Scale::new(0.0, right * margin, LEFT, WIDTH - RIGHT);
        let upward = Scale::new(0.0, top / divisor * 1.06, HEIGHT - BOTTOM, TOP);
        let mut drawing = Drawing::new(WIDTH, HEIGHT);
        self.axes(&mut drawing, across, upward, &unit);
        for line in &self.lines {
            self.line(&mut drawing, line, across, upward, divisor);
        }
        html! {
            figure {
                figcaption { (Text(&self.title)) }
                (self.legend())
                (drawing.finish(&self.title))
            }
            "\n"
        }
    }

    fn axes(&self, drawing: &mut Drawing, across: Scale, upward: Scale, unit: &str) {
        for tick in ticks(0.0, upward.span, 5) {
            let y = upward.at(tick);
            drawing.line("grid", (LEFT, y), (WIDTH - RIGHT, y));
            drawing.text("tick", Anchor::End, (LEFT - 6.0, y + 4.0), &tick_label(tick));
        }
        for tick in ticks(0.0, across.span, 8) {
            let x = across.at(tick);
            drawing.line("grid", (x, TOP), (x, HEIGHT - BOTTOM));
            drawing.text(
                "tick",
                Anchor::Middle,
                (x, HEIGHT - BOTTOM + 16.0),
                &tick_label(tick),
            );
        }
        drawing.line("axis", (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM));
        drawing.line("axis", (LEFT, TOP), (LEFT, HEIGHT - BOTTOM));
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        drawing.text("axis-text", Anchor::Middle, (middle, HEIGHT - 8.0), &self.x_axis);
        let centre = (TOP + HEIGHT - BOTTOM) / 2.0;
        let transform = format!("translate(14 {}) rotate(-90)", tenths(centre));
        drawing.push(&html! {
            text class="axis-text" text-anchor="middle" transform=(transform) { (Text(unit)) }
        });
    }

    fn line(&self, drawing: &mut Drawing, line: &Line, across: Scale, upward: Scale, divisor: f64) {
        let points = thinned(&line.points);
        let place = |point: &SeriesPoint| (across.at(point.at), upward.at(point.value / divisor));
        if self.join != Join::Scatter {
            let path: Vec<String> = points
                .iter()
                .map(place)
                .map(|(x, y)| format!("{:.1},{:.1}", finite(x), finite(y)))
                .collect();
            drawing.push(&html! {
                polyline class="curve" stroke=(line.look.colour()) stroke-dasharray=[line.look.dash()]
                    points=(path.join(" ")) {}
            });
        }
        if self.join != Join::Curve {
            for point in &points {
                let (x, y) = place(point);
                drawing.push(&line.look.marker(x, y));
            }
        }
        if self.join == Join::Scatter
            && let Some((x, y)) = points.first().map(place)
        {
            let (anchor, x) = if x > WIDTH * 0.75 {
                (Anchor::End, x - 9.0)
            } else {
                (Anchor::Start, x + 9.0)
            };
            drawing.text("label", anchor, (x, y + 4.0), &line.label);
        }
    }

    fn legend(&self) -> Markup {
        let mut lines: Vec<&Line> = Vec::new();
        for line in &self.lines {
            if lines.iter().all(|listed| listed.label != line.label) {
                lines.push(line);
            }
        }
        html! {
            ul class="legend" {
                @for line in lines {
                    li {
                        svg aria-hidden="true" width="32" height="12" viewBox="0 0 32 12" {
                            @if self.join != Join::Scatter {
                                line class="curve" stroke=(line.look.colour()) stroke-dasharray=[line.look.dash()]
                                    x1="1" y1="6" x2="31" y2="6" {}
                            }
                            @if self.join != Join::Curve {
                                (line.look.marker(16.0, 6.0))
                            }
                        }
                        " " (Text(&line.label))
                    }
                }
            }
        }
    }
}

/// Returns the axis label and the divisor of its values: rates are more readable in kbit/s.
fn axis_unit(words: &str, greatest: f64) -> (String, f64) {
    for (divisor, unit) in [(1e6, "Mbit/s"), (1e3, "kbit/s")] {
        if words.ends_with("bit/s") && greatest >= divisor {
            return (words.replace("bit/s", unit), divisor);
        }
    }
    (words.to_owned(), 1.0)
}

fn is_finite(point: &SeriesPoint) -> bool {
    point.at.is_finite() && point.value.is_finite()
}

/// Reduces to about [`MAX_POINTS`] points; each bucket keeps its maximum, so that no peak is lost.
fn thinned(points: &[SeriesPoint]) -> Vec<SeriesPoint> {
    let finite: Vec<SeriesPoint> = points.iter().copied().filter(is_finite).collect();
    let bucket = finite.len().div_ceil(MAX_POINTS).max(1);
    finite
        .chunks(bucket)
        .filter_map(|chunk| {
            chunk
                .iter()
                .copied()
                .max_by(|left, right| left.value.total_cmp(&right.value))
        })
        .collect()
}

/// Returns the values of all points: the 95th percentile and mean of a scatter plot are not computed from
/// reduced points.
pub(crate) fn values(points: &[SeriesPoint]) -> Vec<f64> {
    points
        .iter()
        .filter(|point| is_finite(point))
        .map(|point| point.value)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity;

    #[test]
    fn reducing_points_keeps_peaks_and_order() {
        let points: Vec<SeriesPoint> = (0..10_000)
            .map(|index| SeriesPoint {
                at: quantity::length(index),
                value: if index == 777 { 9.0 } else { 1.0 },
            })
            .collect();
        let kept = thinned(&points);
        assert!(kept.len() <= MAX_POINTS);
        assert!(kept.iter().any(|point| point.value > 8.0));
        assert!(kept.windows(2).all(|pair| pair[0].at < pair[1].at));
    }

    #[test]
    fn rates_are_displayed_in_a_suitable_unit() {
        assert_eq!(
            axis_unit("goodput, bit/s", 39_600.0),
            ("goodput, kbit/s".to_owned(), 1e3)
        );
        assert_eq!(axis_unit("delay, s", 39_600.0), ("delay, s".to_owned(), 1.0));
    }
}
