//! Table of the targets that the rows decide.
use super::Context;
use crate::{
    markup::{Cell, Column, Table, Tone},
    targets::{Target, Verdict, judge},
};

pub(super) fn render(context: &Context<'_>) -> String {
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
    format!(
        "<p><b>{} met, {} missed, {} not measured.</b> A target is decided only by rows that cover it: a \
         target for each reference page stays not measured if some pages are not in these files, unless one \
         of the others misses it. A failed load in the rows that decide a target makes it missed. The \
         decisions are for system <code>longhaul</code>, without loss in the Internet unless the target \
         states a loss.</p>{}",
        count(Verdict::Met),
        count(Verdict::Missed),
        count(Verdict::NotMeasured),
        table.finish()
    )
}

fn row(target: &Target) -> Vec<Cell> {
    let verdict = match target.verdict {
        Verdict::Met => "<span class=\"good\">✓ met</span>",
        Verdict::Missed => "<span class=\"bad\">✗ missed</span>",
        Verdict::NotMeasured => "<span class=\"open\">○ not measured</span>",
    };
    vec![
        Cell::Head(target.what.clone()),
        Cell::Text(target.goal.clone()),
        Cell::Text(target.to_beat.clone()),
        Cell::Text(target.measured.clone()),
        Cell::Markup(verdict.to_owned()),
    ]
}
