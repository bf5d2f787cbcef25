//! Waterfall of one representative load of each page, link and system.
use std::collections::BTreeMap;

use maud::{Markup, html};

use super::Context;
use crate::{
    chart::waterfall,
    markup::{Text, shorten},
    measurements::{Ideal, Loads, Setting, Variant, is_valid},
    quantity,
    results::{Detail, Row},
};

/// Maximum size of all waterfalls together: browsers open a page of this size at once, and mail accepts it as
/// an attachment.
const MAX_BYTES: usize = 12_000_000;

pub(super) fn render(context: &Context<'_>) -> Markup {
    let mut settings: Vec<(String, Vec<Markup>)> = Vec::new();
    let mut bytes = 0;
    let mut left_out = 0;
    let mut undetailed = 0;
    for (setting, systems) in &context.measurements.settings {
        let mut pages: BTreeMap<&str, Vec<(&Variant, &Loads<'_>)>> = BTreeMap::new();
        for (variant, loads_by_page) in systems {
            for (page, loads) in loads_by_page {
                pages.entry(page).or_default().push((variant, loads));
            }
        }
        let mut of_setting = Vec::new();
        for (page, systems) in pages {
            let chosen: Vec<_> = systems
                .iter()
                .filter_map(|(variant, loads)| representative(loads).map(|found| (*variant, found)))
                .collect();
            undetailed += systems.len() - chosen.len();
            if chosen.is_empty() {
                continue;
            }
            let drawn = of_page(setting, page, &chosen);
            if bytes + drawn.0.len() > MAX_BYTES {
                left_out += chosen.len();
            } else {
                bytes += drawn.0.len();
                of_setting.push(drawn);
            }
        }
        if !of_setting.is_empty() {
            settings.push((setting.label(), of_setting));
        }
    }
    if settings.is_empty() && left_out == 0 {
        return html! {};
    }
    html! {
        (legend())
        @if left_out > 0 {
            p class="notice" { (left_out) " waterfalls are omitted to keep this file small." }
        }
        @if undetailed > 0 {
            p { (undetailed) " conditions have no recorded details." }
        }
        @for (title, pages) in &settings {
            h3 { (Text(title)) } "\n"
            @for page in pages { (page) }
        }
    }
}

fn legend() -> Markup {
    let key = |class: &str| html! { span class={ "key " (class) } {} };
    let kinds = [
        ("document", "D", "document"),
        ("style", "C", "style sheet"),
        ("script", "J", "script"),
        ("image", "I", "image"),
        ("font", "F", "font"),
        ("other", "O", "other"),
    ];
    html! {
        p class="legend-text" {
            "One load each: the one nearest to the median of its repetitions. The loads of one page share a time axis. Each \
             object: " (key("wait")) " thin line, discovered but not requested; " (key("ask")) " pale, requested and waiting \
             for the first byte; " (key("take")) " full, receiving; hatched and ✗, failed; outlined, missing or unfinished. \
             Letters and colours: "
            @for (index, (class, letter, words)) in kinds.iter().enumerate() {
                @if index > 0 { ", " }
                span class={ "k-" (class) } { (letter) } " " (words)
            }
            ". Below: the hop's rate (filled: towards the client; dotted line: from the client) and the bytes queued towards \
             the client. Dashed: the ideal's end (gzip); full line: end of the load."
        }
    }
}

fn of_page(setting: &Setting, page: &str, chosen: &[(&Variant, (&Row, &Detail))]) -> Markup {
    let until = chosen
        .iter()
        .map(|(_, (row, detail))| end_of(row, detail))
        .fold(0.0, f64::max)
        * 1.02;
    let names: Vec<String> = chosen.iter().map(|(variant, _)| variant.label()).collect();
    html! {
        details class="load" {
            summary { b { (Text(&shorten(page, 60))) } " " span class="quiet" { (Text(&names.join(", "))) } } "\n"
            @for (variant, (row, detail)) in chosen {
                @let label = variant.label();
                @let title = format!("{page} · {} · {label}", setting.label());
                details open {
                    summary {
                        b { (Text(&label)) } " "
                        span class="quiet" { (verdict(row)) " · run " (row.run) }
                    }
                    "\n"
                    (waterfall(&title, row, detail, until))
                }
                "\n"
            }
        }
        "\n"
    }
}

/// Returns the time of a load, and its ratio or its failures.
fn verdict(row: &Row) -> String {
    let seconds = quantity::number(row.time_s);
    if is_valid(row) {
        let ratio = quantity::quotient(row.time_s, Ideal::Gzip.seconds(row));
        format!("{seconds} s, {} × ideal", quantity::ratio_or_none(ratio))
    } else {
        format!("{seconds} s, ✗ {} objects failed", row.failed)
    }
}

/// Returns the load with details that is nearest to the median; a failed one only if there is no other.
fn representative<'a>(loads: &Loads<'a>) -> Option<(&'a Row, &'a Detail)> {
    let median = loads.time().map_or(0.0, |time| time.median);
    let distance = |row: &Row| (row.time_s - median).abs();
    loads
        .rows
        .iter()
        .filter_map(|row| Some((*row, row.detail.as_ref()?)))
        .filter(|(_, detail)| !detail.objects.is_empty() || !detail.samples.is_empty())
        .min_by(|(left, _), (right, _)| {
            let order = is_valid(right).cmp(&is_valid(left));
            order.then(distance(left).total_cmp(&distance(right)))
        })
}

/// Returns the time of a load's last event. Samples after the load do not extend the axis.
fn end_of(row: &Row, detail: &Detail) -> f64 {
    let moments = detail.objects.iter().filter_map(|object| object.ended);
    moments
        .chain([row.time_s, Ideal::Gzip.seconds(row)])
        .filter(|moment| moment.is_finite())
        .fold(0.0, f64::max)
}
