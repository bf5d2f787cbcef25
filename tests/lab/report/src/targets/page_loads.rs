//! Targets that are decided by page loads.
mod harder_conditions;

use self::harder_conditions::{beside_bulk, internet_loss};
use super::{
    Finding, Target, Verdict,
    conditions::{Found, Judged, Wanted},
};
use crate::{
    comparison::{MeasuredFactors, improvement, page_time},
    measurements::{Ideal, Loads, ideal_latency},
    papers, quantity,
    statistics::{median, quantile},
};

pub(super) fn judge(rows: &Judged<'_>) -> Vec<Target> {
    let mut targets = Vec::new();
    for link in ["gprs-3+1", "umts-384"] {
        targets.push(cold_page(rows, link).target(
            &format!("cold page, {link}, level high: time"),
            "each reference page at most 1.05 × ideal (lossy) + 3 Internet RTT, and below 1.00 in the median",
            "NettGain C/S “very close” to 1",
        ));
    }
    targets.push(factors(rows, "gprs-3+1", [6.0, 6.0, 8.0, 6.0]).target(
        "factors on gprs-3+1, level low: time / down / up / bandwidth",
        "at least 6 / 6 / 8 / 6",
        "NettGain C/S: 4.28 / 5.31 / 4.21 / 4.23",
    ));
    targets.push(factors(rows, "umts-384", [5.0, 6.0, 8.0, 5.0]).target(
        "factors on umts-384, level low: time / down / up / bandwidth",
        "at least 5 / 6 / 8 / 5",
        "NettGain C/S: 2.41 / 5.02 / 3.82 / 2.43",
    ));
    targets.push(study_sites(rows).target(
        "improvement over HTTP/1.1 (2 connections), gprs-3+1",
        "at least 85 % on each of mail, yahoo, amazon, cnn",
        "64.0, 71.7, 68.1, 69.7 %",
    ));
    for (index, link) in papers::TODAY_LINKS.into_iter().enumerate() {
        targets.push(static_page(rows, link, papers::TODAY_AIMS[index]).target(
            &format!("Chromium, page static, session open, {link}"),
            &format!("at most {:.2} × ideal (gzip)", papers::TODAY_AIMS[index]),
            papers::TODAY_BEST[index],
        ));
    }
    targets.push(revisit(rows).target(
        "revisit, unchanged",
        "1 RTT + 8 · 2 KB / rate",
        "a full revalidation per object",
    ));
    targets.push(
        Finding::unmeasured("rows of page loads do not contain the size by brotli-11 with the same base")
            .target(
                "next edition",
                "bytes within 3 % of brotli-11 with the same base",
                "61–99 % saved",
            ),
    );
    targets.push(internet_loss(rows).target(
        "Internet loss 5 % against 0 %",
        "load time +10 % at most",
        "direct: +60 % and more",
    ));
    targets.push(fast_link(rows).target(
        "fast link (lan-fast)",
        "time over direct at most 1.00 in the median and 1.05 at the 95th percentile",
        "proxies that are slower in the ideal case",
    ));
    targets.push(beside_bulk(rows).target(
        "page beside a bulk download through the same agent",
        "at most 1.3 × alone",
        "a second flow times out",
    ));
    targets
}

/// Changes the verdict to missed if loads failed.
fn with_failures(finding: Finding, failed: usize) -> Finding {
    if failed == 0 {
        return finding;
    }
    Finding {
        measured: format!("{}; {failed} loads failed", finding.measured),
        verdict: Verdict::Missed,
    }
}

fn failed(found: &[Found<'_>]) -> usize {
    found.iter().map(Found::failed).sum()
}

fn cold_page(rows: &Judged<'_>, link: &str) -> Finding {
    let wanted = Wanted {
        link: Some(link),
        state: Some("cold"),
        level: Some("high"),
        ..Wanted::LONGHAUL
    };
    let found = rows.find_by_one_loader(wanted);
    let Some(first) = found.first() else {
        return Finding::unmeasured("no cold loads at level high");
    };
    let mut ratios = Vec::new();
    let mut worst = (String::new(), 0.0);
    let mut within = 0;
    for (page, loads) in first.pages {
        let Some(ratio) = loads.ratio(Ideal::Lossy).map(|ratio| ratio.median) else {
            continue;
        };
        ratios.push(ratio);
        within += usize::from(excess(loads).is_some_and(|excess| excess <= 0.0));
        if ratio > worst.1 {
            worst = (page.clone(), ratio);
        }
    }
    let Some(middle) = median(&ratios) else {
        return with_failures(Finding::unmeasured("no valid load"), failed(&found));
    };
    let missing = papers::REFERENCE_PAGES
        .iter()
        .filter(|page| !first.pages.contains_key(**page))
        .count();
    let mut text = format!(
        "median {} × ideal (lossy); {within} of {} pages within the limit; worst {} {} ({})",
        quantity::ratio(middle),
        ratios.len(),
        worst.0,
        quantity::ratio(worst.1),
        first.setting.loader.text
    );
    let finding = if within < ratios.len() {
        Finding::decided(text, false)
    } else if missing > 0 {
        text.push_str(&format!("; {missing} reference pages are not measured"));
        Finding::unmeasured(&text)
    } else {
        Finding::decided(text, middle < 1.0)
    };
    with_failures(finding, failed(&found))
}

/// Returns the seconds above the limit of a cold page, the median over its loads.
fn excess(loads: &Loads<'_>) -> Option<f64> {
    loads.median(|row| {
        let internet_rtt = (ideal_latency(row)? - row.link_rtt_s).max(0.0);
        Some(row.time_s - 1.05 * row.ideal_lossy_s - 3.0 * internet_rtt)
    })
}

fn factors(rows: &Judged<'_>, link: &str, limits: [f64; 4]) -> Finding {
    let wanted = Wanted {
        link: Some(link),
        loader: Some("model"),
        state: Some("cold"),
        level: Some("low"),
        ..Wanted::LONGHAUL
    };
    let found = rows.find(wanted);
    let Some(first) = found.first() else {
        return Finding::unmeasured("no cold loads by the scripted browser at level low");
    };
    let Some(factors) = rows
        .baseline(first)
        .and_then(|base| MeasuredFactors::of(first.pages, base))
    else {
        return with_failures(
            Finding::unmeasured("no page that direct loaded as well"),
            failed(&found),
        );
    };
    let measured = [factors.time, factors.down, factors.up, factors.bandwidth];
    let words = measured.map(quantity::ratio_or_none).join(" / ");
    let met = measured
        .into_iter()
        .zip(limits)
        .all(|(factor, limit)| factor.is_some_and(|factor| factor >= limit));
    with_failures(
        Finding::decided(format!("{words} over {} pages", factors.pages), met),
        failed(&found),
    )
}

fn study_sites(rows: &Judged<'_>) -> Finding {
    let wanted = Wanted {
        link: Some("gprs-3+1"),
        loader: Some("model"),
        state: Some("cold"),
        ..Wanted::LONGHAUL
    };
    let mut best: Option<(f64, Finding)> = None;
    for found in rows.find(wanted) {
        let Some(baseline) = rows.baseline(&found) else {
            continue;
        };
        let gains: Vec<Option<f64>> = papers::STUDY_SITES
            .iter()
            .map(|site| {
                improvement(
                    page_time(baseline, site.page)?,
                    page_time(found.pages, site.page)?,
                )
            })
            .collect();
        let known: Vec<f64> = gains.iter().copied().flatten().collect();
        let Some(least) = known.iter().copied().reduce(f64::min) else {
            continue;
        };
        let words: Vec<String> = papers::STUDY_SITES
            .iter()
            .zip(&gains)
            .map(|(site, gain)| format!("{} {}", site.page, quantity::percent_or_none(*gain)))
            .collect();
        let text = format!("{}: {}", found.variant.label(), words.join(", "));
        let finding = if known.len() < gains.len() && least >= 0.85 {
            Finding::unmeasured(&text)
        } else {
            Finding::decided(text, least >= 0.85)
        };
        let failed: usize = papers::STUDY_SITES
            .iter()
            .filter_map(|site| found.pages.get(site.page))
            .map(|loads| loads.failed())
            .sum();
        if best.as_ref().is_none_or(|(before, _)| least > *before) {
            best = Some((least, with_failures(finding, failed)));
        }
    }
    best.map_or_else(
        || Finding::unmeasured("no such site loaded by both systems"),
        |(_, finding)| finding,
    )
}

fn static_page(rows: &Judged<'_>, link: &str, limit: f64) -> Finding {
    let wanted = Wanted {
        link: Some(link),
        loader: Some("chromium"),
        state: Some("cold"),
        ..Wanted::LONGHAUL
    };
    let mut text = Vec::new();
    let (mut least, mut failed) = (f64::INFINITY, 0);
    for found in rows.find(wanted) {
        let Some(loads) = found.pages.get("static") else {
            continue;
        };
        failed += loads.failed();
        if let (Some(ratio), Some(time)) = (loads.ratio(Ideal::Gzip), loads.time()) {
            least = least.min(ratio.median);
            text.push(format!(
                "{}: {} × ({} s)",
                found.variant.label(),
                quantity::ratio(ratio.median),
                quantity::number(time.median)
            ));
        }
    }
    let finding = if text.is_empty() {
        Finding::unmeasured("page static not loaded with Chromium")
    } else {
        Finding::decided(text.join("; "), least <= limit)
    };
    with_failures(finding, failed)
}

fn revisit(rows: &Judged<'_>) -> Finding {
    let found = rows.find_by_one_loader(Wanted {
        state: Some("revisit"),
        ..Wanted::LONGHAUL
    });
    let (mut within, mut total) = (0, 0);
    let mut worst = (String::new(), 0.0);
    for condition in &found {
        for (page, loads) in condition.pages {
            let over = loads.median(|row| {
                let allowed = ideal_latency(row)? + 8.0 * 2000.0 / quantity::count(row.link_down_bps);
                quantity::quotient(row.time_s, allowed)
            });
            let Some(over) = over else { continue };
            total += 1;
            within += usize::from(over <= 1.0);
            if over > worst.1 {
                worst = (format!("{page} on {}", condition.setting.link.text), over);
            }
        }
    }
    let finding = if total == 0 {
        Finding::unmeasured("no revisits")
    } else {
        let text = format!(
            "{within} of {total} within; worst {}: {} × the limit",
            worst.0,
            quantity::ratio(worst.1)
        );
        Finding::decided(text, within == total)
    };
    with_failures(finding, failed(&found))
}

fn fast_link(rows: &Judged<'_>) -> Finding {
    let wanted = Wanted {
        link: Some("lan-fast"),
        ..Wanted::LONGHAUL
    };
    let mut found = rows.find(Wanted {
        state: Some("cold"),
        ..wanted
    });
    found.extend(rows.find(Wanted {
        state: Some("first"),
        ..wanted
    }));
    let mut ratios = Vec::new();
    for condition in &found {
        let Some(baseline) = rows.baseline(condition) else {
            continue;
        };
        for (page, loads) in condition.pages {
            let direct = page_time(baseline, page);
            let ratio = loads
                .time()
                .zip(direct)
                .and_then(|(time, direct)| quantity::quotient(time.median, direct));
            ratios.extend(ratio);
        }
    }
    let (Some(middle), Some(high)) = (median(&ratios), quantile(&ratios, 0.95)) else {
        return with_failures(
            Finding::unmeasured("no page loaded by both systems on lan-fast"),
            failed(&found),
        );
    };
    let text = format!(
        "median {}, 95th percentile {} over {} pages and conditions",
        quantity::ratio(middle),
        quantity::ratio(high),
        ratios.len()
    );
    with_failures(
        Finding::decided(text, middle <= 1.0 && high <= 1.05),
        failed(&found),
    )
}
