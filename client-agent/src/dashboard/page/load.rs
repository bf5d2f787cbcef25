//! One page: the waterfall of its requests, and a receipt for each object.
use maud::{Markup, html};

use super::{document, loads::path_of, rules};
use crate::{
    dashboard::{
        FORGET, FORGET_PAGE, HTTPS_BYPASS, MAX_MEASURED, MEASURE, figures,
        page_loads::{PageLoad, is_failed},
        rules_status::RulesStatus,
    },
    journal::{RequestRecord, ResponseEnd, Source},
};

/// Loads over each way of a measurement.
const MEASURED_LOADS: u64 = 3;
/// Width of the waterfall's drawing.
const WIDTH: u64 = 1000;

/// Returns the page of one load.
pub(crate) fn load_page(load: &PageLoad, rules: &RulesStatus, decision: &str, now_s: u64) -> Markup {
    let page = &load.page;
    let duration = load.duration_ms();
    let header = html! {
        h1 { (page.host()) }
        p { code { (page.url) } }
    };
    let main = html! {
        p class="back" { a href="/" { "Back to the dashboard" } }
        section {
            h2 { "This page" }
            dl class="figures" {
                div { dt { "Took" } dd { @if load.is_loading { "still loading" } @else { (seconds(duration)) } } }
                div { dt { "Ideal" } dd { (load.ideal_ms().map_or_else(|| "not known".to_owned(), seconds)) } }
                div { dt { "Over the link" } dd { (figures::data(load.hop_bytes())) } }
                div { dt { "To the browser" } dd { (figures::data(load.bytes())) } }
                div { dt { "Objects" } dd { (load.requests.len()) } }
                div { dt { "Failures" } dd { (load.failures()) } }
            }
            p class="quiet" {
                "The ideal is one round trip, and the bytes of the page at the rate of the link, as known when the page was \
                 asked for"
                @if let (Some(rate), Some(rtt)) = (page.rate_bps, page.rtt_ms) {
                    " (" (figures::rate(rate)) ", " (seconds(rtt)) ")"
                }
                ". Bytes over the link are those of bodies, without headers."
                @if load.later > 0 { " " (figures::count(load.later as u64, "request", "requests")) " came later, from scripts." }
            }
        }
        (failures(load))
        section {
            h2 { "Waterfall and receipts" }
            ul class="legend" {
                li class="waiting" { "waiting" }
                @for source in [Source::Cache, Source::Unchanged, Source::Push, Source::Gateway, Source::Direct] {
                    li class=(class_of(source)) { (name_of(source)) }
                }
            }
            div class="wide" tabindex="0" role="region" aria-label="Requests of the page" {
                table class="waterfall" {
                    thead {
                        tr {
                            th scope="col" { "Object" }
                            th scope="col" { "Time" }
                            th scope="col" { "Took" }
                            th scope="col" { "Receipt" }
                        }
                    }
                    tbody {
                        @for request in &load.requests { (row(load, request, duration.max(1))) }
                    }
                }
            }
        }
        @if page.url.starts_with("https:") {
            section {
                h2 { "Who can read this page" }
                p {
                    "This site is accelerated: the gateway\u{2019}s operator can read its pages, including passwords. Everybody \
                     else on the way cannot."
                }
                form method="post" {
                    button formaction={ (HTTPS_BYPASS) "?host=" (page.host()) } { "Let it pass through for 8 hours" }
                }
            }
        }
        (rules::of_page(&page.url, rules, decision, now_s))
        (measurement(load))
        section {
            h2 { "Forget" }
            form method="post" {
                button formaction={ (FORGET_PAGE) "?number=" (page.number) } { "Forget this page" } " "
                button formaction={ (FORGET) "?site=" (page.host()) } { "Forget this site" }
            }
            p class="quiet" {
                "A page is forgotten on this computer: its entry in this list, and its answers in the cache. A site is forgotten on \
                 this computer and, for this device, at the gateway; its rules stay."
            }
        }
    };
    document(page.host(), "", &header, &main, false)
}

/// The button that measures the link by this page; it says before what that takes.
fn measurement(load: &PageLoad) -> Markup {
    // The direct loads and the first one through the agent bring the page; the others find it in the agent's cache.
    let about = load.bytes().saturating_mul(MEASURED_LOADS + 1).min(MAX_MEASURED);
    html! {
        section {
            h2 { "Measure my link now" }
            form method="post" {
                button formaction={ (MEASURE) "?number=" (load.page.number) } { "Load this page both ways" }
            }
            p class="quiet" {
                "Loads this page " (MEASURED_LOADS) " times directly and " (MEASURED_LOADS) " times through Longhaul, and \
                 compares the times with each other and with the ideal: about " (figures::data(about)) ", at most "
                (figures::data(MAX_MEASURED)) ". The result appears when the last load has ended; leaving the page ends the \
                 measurement. In a network in which every byte costs, nothing is loaded."
            }
        }
    }
}

fn failures(load: &PageLoad) -> Markup {
    let failed: Vec<_> = load
        .requests
        .iter()
        .filter(|request| is_failed(request))
        .collect();
    html! {
        @if !failed.is_empty() {
            section {
                h2 { "Failures" }
                ul {
                    @for request in failed {
                        li {
                            b { (request.host()) } ": "
                            @match &request.failure {
                                Some(failure) => { (failure.title) ". " (failure.whose) }
                                None => "the body ended early, and the browser\u{2019}s connection was aborted"
                            }
                            " " code { (path_of(&request.url)) }
                        }
                    }
                }
            }
        }
    }
}

fn row(load: &PageLoad, request: &RequestRecord, duration: u64) -> Markup {
    let start = load.offset_ms(request);
    let answered = request.answered_ms.unwrap_or(0);
    let ended = request.ended_ms.unwrap_or(answered).max(answered);
    let at = |ms: u64| (ms.saturating_mul(WIDTH) / duration).min(WIDTH);
    let (from, head, end) = (at(start), at(start + answered), at(start + ended));
    let is_foreign = request.host() != load.page.host();
    html! {
        tr {
            th scope="row" {
                @if is_foreign { (request.host()) " " }
                code { (path_of(&request.url)) }
            }
            td {
                svg class="bar" viewBox={ "0 0 " (WIDTH) " 16" } preserveAspectRatio="none" aria-hidden="true" {
                    rect class="waiting" x=(from) y="5" width=(head.saturating_sub(from).max(1)) height="6" {}
                    rect class=(class_of(request.source)) x=(head) y="2" width=(end.saturating_sub(head).max(3)) height="12" {}
                }
            }
            td { (seconds(ended)) }
            td { (receipt(request)) }
        }
    }
}

/// Says where an object came from, what it took on the link, and what was changed.
fn receipt(request: &RequestRecord) -> Markup {
    let status = request.status.filter(|status| *status != 200);
    html! {
        b class=(class_of(request.source)) { (name_of(request.source)) }
        @if request.bytes > 0 || request.hop_bytes > 0 {
            ", " (figures::data(request.bytes))
            @if request.hop_bytes > 0 {
                " as " (figures::data(request.hop_bytes)) (coding(request))
            } @else if request.source == Source::Push && request.end == ResponseEnd::Complete {
                ", the same bytes as another object"
            }
        }
        @if let Some(changed) = &request.changed {
            ", picture made smaller (" (changed.strip_prefix("image=").unwrap_or(changed)) ")"
        }
        @if let Some(status) = status { ", status " (status) }
        @match request.end {
            ResponseEnd::Left => ", the browser left",
            ResponseEnd::Broken => ", ended early",
            ResponseEnd::Running => ", under way",
            ResponseEnd::Complete => "",
        }
    }
}

fn coding(request: &RequestRecord) -> String {
    match (request.base.as_deref(), request.coding.as_deref()) {
        (Some("stored"), _) => ", as its difference from a stored file".to_owned(),
        (Some(_), Some(coding)) => format!(", {coding} with the built-in dictionary"),
        (None, Some("identity")) => ", not compressed".to_owned(),
        (None, Some("mix")) => ", context mixing".to_owned(),
        (_, Some(coding)) => format!(", {coding}"),
        (_, None) => String::new(),
    }
}

const fn name_of(source: Source) -> &'static str {
    match source {
        Source::None => "waiting",
        Source::Cache => "from the cache",
        Source::Unchanged => "unchanged, not sent again",
        Source::Push => "sent ahead",
        Source::Gateway => "asked for",
        Source::Direct => "without the gateway",
        Source::Hidden => "not loaded at this picture level",
        Source::Failed => "failed",
    }
}

const fn class_of(source: Source) -> &'static str {
    match source {
        Source::None => "waiting",
        Source::Cache => "from-cache",
        Source::Unchanged => "from-unchanged",
        Source::Push => "from-push",
        Source::Gateway => "from-gateway",
        Source::Direct => "from-direct",
        Source::Hidden => "from-hidden",
        Source::Failed => "from-failed",
    }
}

fn seconds(ms: u64) -> String {
    figures::time(std::time::Duration::from_millis(ms).as_secs_f64())
}
