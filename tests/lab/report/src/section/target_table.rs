//! Table of the targets that the rows decide.
use maud::{Markup, html};

use super::Context;
use crate::{
    markup::{Cell, Column, Table, Tone},
    targets::{Target, Verdict, judge},
};

pub(super) fn render(context: &Context<'_>) -> Markup {
    let targets = judge(context.measurements, context.files);
    let count = |verdict: Verdict| targets.iter().filter(|target| target.verdict == verdict).count();
    let mut table = Table::new(
        "Targets",
        &[
            ("what", Column::Words),
            ("target", Column::Words),
            ("to beat", Column::Words),
            ("measured", Column::Words),
            ("verdict", Column::Words),
        ],
    );
    for target in &targets {
        table.row(Tone::Plain, &row(target));
    }
    let [met, missed, open] = [Verdict::Met, Verdict::Missed, Verdict::NotMeasured].map(count);
    html! {
        p {
            b { (met) " met, " (missed) " missed, " (open) " not measured." }
            " A target is decided only by rows that cover it: a target for each reference page stays not measured if some \
             pages are not in these files, unless one of the others misses it. A failed load in the rows that decide a target \
             makes it missed. The decisions are for system " code { "longhaul" } ", without loss in the Internet unless the \
             target states a loss."
        }
        (table.finish())
    }
}

fn row(target: &Target) -> Vec<Cell> {
    let verdict = match target.verdict {
        Verdict::Met => html! { span class="good" { "✓ met" } },
        Verdict::Missed => html! { span class="bad" { "✗ missed" } },
        Verdict::NotMeasured => html! { span class="open" { "○ not measured" } },
    };
    vec![
        Cell::Head(target.what.clone()),
        Cell::Text(target.goal.clone()),
        Cell::Text(target.to_beat.clone()),
        Cell::Text(target.measured.clone()),
        Cell::Markup(verdict),
    ]
}
