//! The list of the last pages.
use maud::{Markup, html};

use crate::{
    dashboard::{
        PAGE, figures,
        page_loads::{Failures, PageLoad},
    },
    journal::{RequestRecord, Source},
};

/// Width of the drawing that compares times.
const WIDTH: u64 = 1000;

pub(super) fn section(loads: &[PageLoad], now_ms: u64) -> Markup {
    html! {
        section {
            h2 { "Pages" }
            p class="quiet" id="no-pages" hidden[!loads.is_empty()] {
                "None yet. Pages of HTTPS sites that are not accelerated do not appear here: they pass through encrypted, and \
                 nobody on the way can read them."
            }
            div class="wide" tabindex="0" role="region" aria-label="The last pages" {
                table class="loads" hidden[loads.is_empty()] id="loads" {
                    thead {
                        tr {
                            th scope="col" { "Page" }
                            th scope="col" { "Took" }
                            th scope="col" { "Time against the ideal" }
                            th scope="col" { "Over the link" }
                            th scope="col" { "Objects" }
                        }
                    }
                    tbody id="pages" {
                        @for row in rows(loads, now_ms) { (row) }
                    }
                }
            }
            p class="quiet" {
                "A page counts as loaded when nothing was under way for two seconds. The ideal is one round trip, and the bytes of \
                 the page at the rate of the link, both as known when the page was asked for. The journal is in memory and \
                 ends with the agent, unless " code { "journal.keep" } " is set; " a href="/journal.json" { "all requests as JSON" } "."
            }
        }
    }
}

/// Returns the row of each page. The longest load sets the scale.
pub(crate) fn rows(loads: &[PageLoad], now_ms: u64) -> Vec<Markup> {
    let durations = loads
        .iter()
        .map(|load| load.duration_ms().max(load.ideal_ms().unwrap_or(0)));
    let longest = durations.max().unwrap_or(0).max(1);
    loads.iter().map(|load| row(load, longest, now_ms)).collect()
}

/// Returns the list of the newest failures, also of tunnels and of requests without a page.
pub(super) fn failures(failed: &Failures<'_>, now_ms: u64) -> Markup {
    let (of_pages, in_background) = failure_rows(failed, now_ms);
    html! {
        section id="failures-part" hidden[of_pages.is_empty()] {
            h2 { "Last failures" }
            ul id="failures-list" {
                @for row in &of_pages { (row) }
            }
        }
        section id="background-part" hidden[in_background.is_empty()] {
            details {
                summary { "Failures of background calls" }
                p class="quiet" { "Browsers and systems make these calls by themselves: updates, settings, lists of dangerous sites." }
                ul id="background-list" {
                    @for row in &in_background { (row) }
                }
            }
        }
    }
}

/// Returns a row for each failure: those of pages, and those of background calls.
pub(super) fn failure_rows(failed: &Failures<'_>, now_ms: u64) -> (Vec<Markup>, Vec<Markup>) {
    let rows = |failed: &[&RequestRecord]| failed.iter().map(|request| failure(request, now_ms)).collect();
    (rows(&failed.of_pages), rows(&failed.in_background))
}

fn failure(request: &RequestRecord, now_ms: u64) -> Markup {
    html! {
        li id={ "failure-" (request.number) } {
            b { (request.host()) } ", " (ago(request, now_ms)) ": "
            @match &request.failure {
                Some(failure) => { (failure.title) ". " (failure.whose) }
                None => "the body ended early, and the browser\u{2019}s connection was aborted"
            }
        }
    }
}

fn ago(request: &RequestRecord, now_ms: u64) -> String {
    let minutes = now_ms.saturating_sub(request.at_ms) / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..120 => format!("{minutes} min ago"),
        _ => format!("{} h ago", minutes / 60),
    }
}

fn row(load: &PageLoad, longest: u64, now_ms: u64) -> Markup {
    let page = &load.page;
    let seconds = |ms: u64| figures::time(std::time::Duration::from_millis(ms).as_secs_f64());
    let ideal = load.ideal_ms();
    let length = |ms: u64| ms.saturating_mul(WIDTH) / longest;
    html! {
        tr id={ "page-" (page.number) } {
            th scope="row" {
                a href={ (PAGE) "?number=" (page.number) } { (page.host()) }
                small { (path_of(&page.url)) }
                small { (ago(page, now_ms)) @if page.url.starts_with("https:") { ", readable by the gateway" } }
            }
            td { @if load.is_loading { "loading" } @else { (seconds(load.duration_ms())) } }
            td {
                svg class="times" viewBox={ "0 0 " (WIDTH) " 20" } preserveAspectRatio="none" aria-hidden="true" {
                    rect class="took" y="3" width=(length(load.duration_ms())) height="14" {}
                    @if let Some(ideal) = ideal { rect class="ideal" y="7" width=(length(ideal).max(2)) height="6" {} }
                }
                small { @if let Some(ideal) = ideal { "ideal " (seconds(ideal)) } @else { "the link was not measured" } }
            }
            td { (figures::data(load.hop_bytes())) small { "for " (figures::data(load.bytes())) } }
            td class="sources" {
                (load.requests.len()) small { (sources(load)) }
                @if load.failures() > 0 { strong { (figures::count(load.failures(), "failure", "failures")) } }
            }
        }
    }
}

fn sources(load: &PageLoad) -> String {
    let named = [
        (Source::Push, "sent ahead"),
        (Source::Gateway, "asked for"),
        (Source::Unchanged, "unchanged"),
        (Source::Cache, "from the cache"),
        (Source::Direct, "without the gateway"),
        (Source::Hidden, "not loaded"),
    ];
    let counted = named.map(|(source, name)| (load.count(source), name));
    let mut words: Vec<String> = counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    if load.changed() > 0 {
        words.push(format!(
            "{} changed",
            figures::count(load.changed(), "picture", "pictures")
        ));
    }
    words.join(", ")
}

/// The URL without scheme and host.
pub(super) fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find(['/', '?', '#']).map_or("/", |at| &rest[at..])
}
