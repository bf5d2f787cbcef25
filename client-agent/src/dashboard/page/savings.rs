//! What was saved: today, this month and in all, by cause, and over days.
use maud::{Markup, html};

use super::{View, live_text};
use crate::{
    dashboard::{
        figures,
        live::{LiveFigures, PERIODS, causes},
    },
    history::Day,
    savings::SavedByCause,
};

/// Number of days of the chart.
const DAYS: usize = 30;
/// Width of the chart.
const WIDTH: u64 = 600;
/// Height of the chart.
const HEIGHT: u64 = 120;

pub(super) fn section(view: &View<'_>) -> Markup {
    let live = view.live;
    let since = view.kept.since.as_deref().unwrap_or("now");
    html! {
        section {
            h2 { "Saved" }
            div class="periods" {
                (period("Today", "today", live))
                (period("This month", "month", live))
                (period(&format!("Since {since}"), "all", live))
            }
            (by_cause(live))
            (chart(&view.kept.days))
            @if !view.status.savings.reported {
                p class="notice" {
                    "Incomplete: the gateway is of an older version and does not report what websites sent; only the cache is \
                     counted."
                }
            }
            details {
                summary { "How these numbers are made" }
                p {
                    "Saved bytes are counted, not estimated: what websites sent for you, less what crossed the link, with all \
                     headers, acknowledgements and repetitions, plus what this computer\u{2019}s cache answered. A page from the cache \
                     counts what it took on the link before, and no more. A cause that cost more than it saved is negative."
                }
                p {
                    "The time is an estimate: what the saved bytes would have taken at the highest rate that the link had shown \
                     in its session. Round trips that were saved are not in it, nor is the time that a compressed page takes to unpack."
                }
                p { "The sums are kept for 400 days on this computer, without names of sites: " a href="/savings.json" { "all days as JSON" } "." }
            }
        }
    }
}

fn period(title: &str, id: &str, live: &LiveFigures) -> Markup {
    let text = |name: &str| live_text(live, &format!("{id}-{name}"));
    html! {
        article {
            h3 { (title) }
            p class="amount" { (text("bytes")) }
            p { "about " (text("time")) " at the rate of the link" }
            p class="quiet" { (text("hop")) " crossed the link instead of " (text("without")) "." }
        }
    }
}

fn by_cause(live: &LiveFigures) -> Markup {
    html! {
        div class="wide" tabindex="0" role="region" aria-label="Saved by cause" {
            table {
                thead {
                    tr {
                        th scope="col" { "By cause" }
                        th scope="col" { "today" }
                        th scope="col" { "this month" }
                        th scope="col" { "in all" }
                    }
                }
                tbody {
                    @for (cause, _) in causes(&SavedByCause::default()) {
                        tr {
                            th scope="row" { (name_of(cause)) }
                            @for period in PERIODS {
                                td { (live_text(live, &format!("{period}-{cause}"))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn name_of(cause: &str) -> &'static str {
    match cause {
        "pictures" => "Smaller pictures",
        "coding" => "Compression",
        "base" => "Changes instead of whole files",
        "unchanged" => "Unchanged and not sent again",
        "cache" => "Answered by this computer\u{2019}s cache",
        _ => "Headers, and the rest",
    }
}

/// Returns the saved bytes of the last days that have counts, in a part that the script renews.
pub(super) fn chart(days: &[Day]) -> Markup {
    let days = &days[days.len().saturating_sub(DAYS)..];
    let saved: Vec<(&str, i64)> = days
        .iter()
        .map(|(day, counts)| (day.as_str(), counts.saved().bytes))
        .collect();
    let most = saved
        .iter()
        .map(|(_, bytes)| bytes.unsigned_abs())
        .max()
        .unwrap_or(0)
        .max(1);
    let step = WIDTH / DAYS as u64;
    let bar = |index: usize, bytes: i64| {
        let height = u128::from(bytes.unsigned_abs()) * u128::from(HEIGHT) / u128::from(most);
        let x = WIDTH - step * (saved.len() - index) as u64;
        (x, u64::try_from(height).unwrap_or(HEIGHT).max(1))
    };
    html! {
        div id="days" {
            @if !saved.is_empty() {
                figure class="days" {
                    figcaption { "Saved by day" span { "at most " (figures::data(most)) } }
                    svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
                        @for (index, (_, bytes)) in saved.iter().enumerate() {
                            @let (x, height) = bar(index, *bytes);
                            @let class = if *bytes < 0 { "cost" } else { "gain" };
                            rect class=(class) x=(x) y=(HEIGHT - height) width=(step - 4) height=(height) {}
                        }
                    }
                    div class="axis" {
                        span { (saved.first().map(|(day, _)| *day).unwrap_or_default()) }
                        span { (saved.last().map(|(day, _)| *day).unwrap_or_default()) }
                    }
                    details {
                        summary { "As a table" }
                        table {
                            thead { tr { th scope="col" { "day" } th scope="col" { "saved" } } }
                            tbody {
                                @for (day, bytes) in saved.iter().rev() {
                                    tr { th scope="row" { (day) } td { (figures::signed_data(*bytes)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
