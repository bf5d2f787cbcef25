//! Waterfall of one page load: objects above, the hop's rate and queue below, on one time axis.
use maud::{Markup, html};

use super::{Anchor, Drawing, Scale, finite, tenths, tick_label, ticks};
use crate::{
    markup::shorten,
    measurements::Ideal,
    quantity,
    results::{Detail, DetailObject, Row, Sample},
};

const WIDTH: f64 = 1180.0;
const LEFT: f64 = 300.0;
const RIGHT: f64 = 90.0;
const ROW: f64 = 15.0;
const TOP: f64 = 34.0;
const RATE_HEIGHT: f64 = 70.0;
const QUEUE_HEIGHT: f64 = 46.0;
/// Maximum number of objects of a page; further ones are omitted, because the waterfall would be unreadable.
const MAX_OBJECTS: usize = 250;
/// Maximum number of samples; more are merged, because the plot is 790 pixels wide.
const MAX_SAMPLES: usize = 400;

/// Draws a load. `until` is the end of the time axis, common to the compared loads.
pub(crate) fn waterfall(title: &str, row: &Row, detail: &Detail, until: f64) -> Markup {
    let shown = detail.objects.len().min(MAX_OBJECTS);
    let left_out = detail.objects.len() - shown;
    let bars_end = TOP + quantity::length(shown) * ROW + if left_out > 0 { ROW } else { 0.0 } + 4.0;
    let has_samples = detail.samples.iter().any(|sample| sample.at.is_finite());
    let curves = if has_samples {
        RATE_HEIGHT + QUEUE_HEIGHT + 62.0
    } else {
        0.0
    };
    let mut drawing = Drawing::new(WIDTH, bars_end + curves + 8.0);
    let time = Scale::new(0.0, until, LEFT, WIDTH - RIGHT);
    for tick in ticks(0.0, time.span, 10) {
        let x = time.at(tick);
        drawing.line("grid", (x, TOP), (x, bars_end));
        drawing.text("tick", Anchor::Middle, (x, TOP - 5.0), &tick_label(tick));
    }
    drawing.text("tick", Anchor::Start, (WIDTH - RIGHT + 8.0, TOP - 5.0), "s");
    draw_ends(&mut drawing, time, row, bars_end + (curves - 20.0).max(0.0));
    let mut y = TOP;
    for object in detail.objects.iter().take(shown) {
        let title = description(object);
        drawing.group(&title, |drawing| {
            draw_object(drawing, time, y, object, row.time_s)
        });
        y += ROW;
    }
    if left_out > 0 {
        let words = format!("{left_out} further objects are omitted");
        drawing.text("label", Anchor::End, (LEFT - 8.0, y + 11.0), &words);
    }
    if has_samples {
        draw_hop(&mut drawing, time, bars_end + 18.0, &detail.samples);
    }
    drawing.finish(title)
}

fn draw_object(drawing: &mut Drawing, time: Scale, y: f64, object: &DetailObject, loaded: f64) {
    let class = class_of(&object.class);
    let middle = y + ROW / 2.0;
    let size = quantity::bytes(quantity::count(object.bytes));
    let code = format!("code k-{}", class.0);
    drawing.text(&code, Anchor::Start, (4.0, middle + 4.0), class.1);
    drawing.text(
        "url",
        Anchor::Start,
        (18.0, middle + 4.0),
        &shorten(&object.url, 46),
    );
    let discovered = finite(object.discovered);
    let known = |moment: Option<f64>| moment.filter(|seconds| seconds.is_finite());
    let ended = known(object.ended);
    // Objects without an end are drawn until the page was loaded.
    let until = if loaded.is_finite() {
        loaded.max(discovered)
    } else {
        time.low + time.span
    };
    let end = ended.unwrap_or(until);
    let sent = known(object.sent).unwrap_or(end).min(end);
    let first = known(object.first_byte).unwrap_or(end).clamp(sent, end.max(sent));
    drawing.line("wait", (time.at(discovered), middle), (time.at(sent), middle));
    let bar = |from: f64, to: f64| ((time.at(from), y + 3.0), (time.at(to) - time.at(from), ROW - 6.0));
    let (at, length) = bar(sent, first);
    drawing.rect(&format!("ask k-{}", class.0), at, length);
    let (at, length) = bar(first, end);
    match object.outcome.as_str() {
        "delivered" => {
            // A body that came with its head still needs a visible mark.
            drawing.rect(&format!("take k-{}", class.0), at, (length.0.max(1.5), length.1));
        }
        "failed" => drawing.rect(
            "broken",
            (time.at(sent), y + 3.0),
            (time.at(end) - time.at(sent), ROW - 6.0),
        ),
        _ => drawing.rect(
            "absent",
            (time.at(sent), y + 3.0),
            (time.at(end) - time.at(sent), ROW - 6.0),
        ),
    }
    let after = time.at(end) + 5.0;
    match object.outcome.as_str() {
        "delivered" => drawing.text("size", Anchor::Start, (after, middle + 4.0), &size),
        "failed" => drawing.text("bad", Anchor::Start, (after, middle + 4.0), "✗ failed"),
        other => drawing.text("size", Anchor::Start, (after, middle + 4.0), other),
    }
}

/// Returns what a pointer over the object shows.
fn description(object: &DetailObject) -> String {
    format!(
        "{} · {} · {} · {} · {}",
        object.url,
        object.class,
        object.outcome,
        quantity::bytes(quantity::count(object.bytes)),
        times_of(object)
    )
}

/// Returns the class name in the style sheet and the letter that identifies the class without colour.
fn class_of(class: &str) -> (&'static str, &'static str) {
    match class {
        "document" => ("document", "D"),
        "style" => ("style", "C"),
        "script" => ("script", "J"),
        "image" => ("image", "I"),
        "font" => ("font", "F"),
        _ => ("other", "O"),
    }
}

fn times_of(object: &DetailObject) -> String {
    let moment = |seconds: Option<f64>| quantity::number_or_none(seconds);
    format!(
        "discovered {} s, sent {} s, first byte {} s, ended {} s",
        quantity::number(object.discovered),
        moment(object.sent),
        moment(object.first_byte),
        moment(object.ended)
    )
}

fn draw_hop(drawing: &mut Drawing, time: Scale, top: f64, samples: &[Sample]) {
    let samples = merged(samples, time.low + time.span);
    let greatest = |figure: fn(&Sample) -> f64| {
        samples
            .iter()
            .map(figure)
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max)
    };
    let rate = greatest(|sample| sample.down_bps)
        .max(greatest(|sample| sample.up_bps))
        .max(1.0);
    let floor = top + RATE_HEIGHT;
    let upward = Scale::new(0.0, rate * 1.05, floor, top);
    hop_axis(drawing, top, floor, "hop rate", &quantity::bit_rate(rate));
    let down = steps(&samples, |sample| {
        (time.at(sample.at), upward.at(sample.down_bps))
    });
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        let (first, last) = (tenths(time.at(first.at)), tenths(time.at(last.at)));
        let points = format!("{first},{floor:.1} {down} {last},{floor:.1}");
        drawing.push(&html! { polygon class="down" points=(points) {} });
    }
    let up = steps(&samples, |sample| (time.at(sample.at), upward.at(sample.up_bps)));
    drawing.push(&html! { polyline class="up" points=(up) {} });
    let top = floor + 22.0;
    let floor = top + QUEUE_HEIGHT;
    let most = greatest(|sample| quantity::count(sample.queue_bytes)).max(1.0);
    let upward = Scale::new(0.0, most * 1.05, floor, top);
    hop_axis(drawing, top, floor, "queue down", &quantity::bytes(most));
    let queue = steps(&samples, |sample| {
        (time.at(sample.at), upward.at(quantity::count(sample.queue_bytes)))
    });
    drawing.push(&html! { polyline class="queue" points=(queue) {} });
    for tick in ticks(0.0, time.span, 10) {
        drawing.text(
            "tick",
            Anchor::Middle,
            (time.at(tick), floor + 15.0),
            &tick_label(tick),
        );
    }
}

fn hop_axis(drawing: &mut Drawing, top: f64, floor: f64, words: &str, greatest: &str) {
    drawing.line("axis", (LEFT, floor), (WIDTH - RIGHT, floor));
    drawing.line("grid", (LEFT, top), (WIDTH - RIGHT, top));
    drawing.text(
        "label",
        Anchor::End,
        (LEFT - 8.0, (top + floor) / 2.0 + 4.0),
        words,
    );
    drawing.text("tick", Anchor::Start, (WIDTH - RIGHT + 6.0, top + 8.0), greatest);
    drawing.text("tick", Anchor::Start, (WIDTH - RIGHT + 6.0, floor), "0");
}

fn steps(samples: &[Sample], place: impl Fn(&Sample) -> (f64, f64)) -> String {
    let points: Vec<String> = samples
        .iter()
        .map(&place)
        .map(|(x, y)| format!("{:.1},{:.1}", finite(x), finite(y)))
        .collect();
    points.join(" ")
}

/// Reduces to at most [`MAX_SAMPLES`] samples: rates are averaged, queues keep the maximum.
fn merged(samples: &[Sample], until: f64) -> Vec<Sample> {
    let inside = |sample: &Sample| sample.at.is_finite() && sample.at <= until;
    let finite: Vec<Sample> = samples.iter().copied().filter(inside).collect();
    let bucket = finite.len().div_ceil(MAX_SAMPLES).max(1);
    finite
        .chunks(bucket)
        .filter_map(|chunk| {
            let mean = |figure: fn(&Sample) -> f64| {
                let values: Vec<f64> = chunk.iter().map(figure).collect();
                crate::statistics::mean(&values).unwrap_or(0.0)
            };
            Some(Sample {
                at: chunk.last()?.at,
                down_bps: mean(|sample| sample.down_bps),
                up_bps: mean(|sample| sample.up_bps),
                queue_bytes: chunk.iter().map(|sample| sample.queue_bytes).max()?,
            })
        })
        .collect()
}

fn draw_ends(drawing: &mut Drawing, time: Scale, row: &Row, bottom: f64) {
    let ideal = Ideal::Gzip.seconds(row);
    let mut marks = Vec::new();
    if ideal.is_finite() && ideal > 0.0 {
        marks.push((
            "ideal",
            "ideal-text",
            ideal,
            format!("ideal {} s", quantity::number(ideal)),
        ));
    }
    if row.time_s.is_finite() && row.time_s > 0.0 {
        marks.push((
            "end",
            "end-text",
            row.time_s,
            format!("loaded {} s", quantity::number(row.time_s)),
        ));
    }
    let close = match marks.as_slice() {
        [first, second] => (time.at(first.2) - time.at(second.2)).abs() < 95.0,
        _ => false,
    };
    for (index, (class, text, at, words)) in marks.iter().enumerate() {
        let x = time.at(*at);
        drawing.line(class, (x, TOP - 2.0), (x, bottom));
        let before = close && marks.get(1 - index.min(1)).is_some_and(|other| *at <= other.2);
        let anchor = match (close, before) {
            (false, _) => Anchor::Middle,
            (true, true) => Anchor::End,
            (true, false) => Anchor::Start,
        };
        drawing.text(text, anchor, (x, 12.0), words);
    }
}
