//! Waterfall of one representative load of each page, link and system.
use std::collections::BTreeMap;

use super::Context;
use crate::{
    chart::waterfall,
    markup::{escape, shorten},
    measurements::{Ideal, Loads, Setting, Variant, is_valid},
    quantity,
    results::{Detail, Row},
};

/// Maximum size of all waterfalls together: browsers open a page of this size at once, and mail accepts it as
/// an attachment.
const MAX_BYTES: usize = 12_000_000;

pub(super) fn render(context: &Context<'_>) -> String {
    let mut html = String::new();
    let mut left_out = 0;
    let mut undetailed = 0;
    for (setting, systems) in &context.measurements.settings {
        let mut pages: BTreeMap<&str, Vec<(&Variant, &Loads<'_>)>> = BTreeMap::new();
        for (variant, loads_by_page) in systems {
            for (page, loads) in loads_by_page {
                pages.entry(page).or_default().push((variant, loads));
            }
        }
        let mut of_setting = String::new();
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
            if html.len() + of_setting.len() + drawn.len() > MAX_BYTES {
                left_out += chosen.len();
            } else {
                of_setting.push_str(&drawn);
            }
        }
        if !of_setting.is_empty() {
            html.push_str(&format!("<h3>{}</h3>\n{of_setting}", escape(&setting.label())));
        }
    }
    if html.is_empty() && left_out == 0 {
        return String::new();
    }
    let mut notes = String::new();
    if left_out > 0 {
        notes.push_str(&format!(
            "<p class=\"notice\">{left_out} waterfalls are omitted to keep this file small.</p>"
        ));
    }
    if undetailed > 0 {
        notes.push_str(&format!(
            "<p>{undetailed} conditions have no recorded details.</p>"
        ));
    }
    format!("{LEGEND}{notes}{html}")
}

const LEGEND: &str = "<p class=\"legend-text\">One load each: the one nearest to the median of its \
repetitions. The loads of one page share a time axis. Each object: <span class=\"key wait\"></span> thin \
line, discovered but not requested; <span class=\"key ask\"></span> pale, requested and waiting for the \
first byte; <span class=\"key take\"></span> full, receiving; hatched and ✗, failed; outlined, missing or \
unfinished. Letters and colours: <span class=\"k-document\">D</span> document, <span \
class=\"k-style\">C</span> style sheet, <span class=\"k-script\">J</span> script, <span \
class=\"k-image\">I</span> image, <span class=\"k-font\">F</span> font, <span class=\"k-other\">O</span> \
other. Below: the hop's rate (filled: towards the client; dotted line: from the client) and the bytes queued \
towards the client. Dashed: the ideal's end (gzip); full line: end of the load.</p>";

fn of_page(setting: &Setting, page: &str, chosen: &[(&Variant, (&Row, &Detail))]) -> String {
    let until = chosen
        .iter()
        .map(|(_, (row, detail))| end_of(row, detail))
        .fold(0.0, f64::max)
        * 1.02;
    let names: Vec<String> = chosen.iter().map(|(variant, _)| variant.label()).collect();
    let mut html = format!(
        "<details class=\"load\"><summary><b>{}</b> <span class=\"quiet\">{}</span></summary>\n",
        escape(&shorten(page, 60)),
        escape(&names.join(", "))
    );
    for (variant, (row, detail)) in chosen {
        let label = variant.label();
        let title = format!("{page} · {} · {label}", setting.label());
        let verdict = if is_valid(row) {
            let ratio = quantity::quotient(row.time_s, Ideal::Gzip.seconds(row));
            format!(
                "{} s, {} × ideal",
                quantity::number(row.time_s),
                quantity::ratio_or_none(ratio)
            )
        } else {
            format!(
                "{} s, ✗ {} objects failed",
                quantity::number(row.time_s),
                row.failed
            )
        };
        html.push_str(&format!(
            "<details open><summary><b>{}</b> <span class=\"quiet\">{} · run {}</span></summary>\n{}</details>\n",
            escape(&label),
            escape(&verdict),
            row.run,
            waterfall(&title, row, detail, until)
        ));
    }
    html.push_str("</details>\n");
    html
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
