//! Targets that compare load times under harder conditions with those under usual ones.
use super::with_failures;
use crate::{
    comparison::page_time,
    quantity,
    results::BESIDE_BULK,
    targets::{
        Finding,
        conditions::{Found, Judged, Wanted},
    },
};

pub(super) fn internet_loss(rows: &Judged<'_>) -> Finding {
    let lossy = Wanted {
        loss: 0.05,
        ..Wanted::LONGHAUL
    };
    growing(rows, lossy, 1.10, "no loads with both 0 and 5 % loss")
}

pub(super) fn beside_bulk(rows: &Judged<'_>) -> Finding {
    let beside = Wanted {
        unusual: BESIDE_BULK,
        ..Wanted::LONGHAUL
    };
    growing(
        rows,
        beside,
        1.30,
        "no loads both alone and beside a bulk download",
    )
}

/// Returns the growth of load times under `harder` conditions; the worst link decides.
fn growing(rows: &Judged<'_>, harder: Wanted<'_>, limit: f64, without: &str) -> Finding {
    let mut text = Vec::new();
    let (mut worst, mut failed) = (0.0, 0);
    for hard in rows.find(harder) {
        let same = Wanted {
            link: Some(&hard.setting.link.text),
            loader: Some(&hard.setting.loader.text),
            state: Some(&hard.setting.state.text),
            level: hard.variant.level(),
            ..Wanted::LONGHAUL
        };
        let Some(easy) = rows.find(same).into_iter().next() else {
            continue;
        };
        let Some(growth) = growth(&easy, &hard) else {
            continue;
        };
        failed += easy.failed() + hard.failed();
        worst = f64::max(worst, growth);
        text.push(format!(
            "{}: {:+.0} %",
            hard.setting.link.text,
            (growth - 1.0) * 100.0
        ));
    }
    if text.is_empty() {
        return Finding::unmeasured(without);
    }
    with_failures(Finding::decided(text.join(", "), worst <= limit), failed)
}

/// Returns the load time under harder conditions divided by that without, summed over the common pages.
fn growth(easy: &Found<'_>, hard: &Found<'_>) -> Option<f64> {
    let (mut before, mut after) = (0.0, 0.0);
    for (page, loads) in hard.pages {
        if let (Some(with), Some(without)) = (loads.time(), page_time(easy.pages, page)) {
            after += with.median;
            before += without;
        }
    }
    quantity::quotient(after, before)
}
