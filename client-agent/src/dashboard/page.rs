//! The dashboard: the agent's state for people. It is complete without scripts; `live.js` renews it while it is open.
mod enrolment;
mod hop;
mod load;
mod loads;
mod rules;
mod savings;
mod settings;

use std::collections::BTreeMap;

use maud::{DOCTYPE, Markup, html};
use serde::Serialize;

pub(crate) use enrolment::enrolment_page;
pub(crate) use load::load_page;
pub(crate) use loads::rows;

use super::{
    live::LiveFigures,
    page_loads::{Failures, PageLoad},
    rules_status::RulesStatus,
    status::{Status, WaitingStatus},
};
use crate::{
    dashboard::{CANCEL_WAITING, PERMIT_LOGIN},
    history::{Day, Summary},
};

/// Content security policy of the pages: only their own style sheet, script and event stream.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action \
                                 'self'; frame-ancestors 'none'; base-uri 'none'";
/// The style sheet.
pub(crate) const STYLE: &str = include_str!("page/style.css");
/// The script.
pub(crate) const SCRIPT: &str = include_str!("page/live.js");

/// What the dashboard shows.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) status: &'a Status,
    pub(crate) live: &'a LiveFigures,
    pub(crate) kept: &'a Summary,
    /// The newest pages; `None` if the request has not presented the token.
    pub(crate) loads: Option<&'a [PageLoad]>,
    /// The newest failures.
    pub(crate) failures: &'a Failures<'a>,
    /// The user's rules for sites.
    pub(crate) rules: &'a RulesStatus,
    /// Time in ms since 1970.
    pub(crate) now_ms: u64,
}

/// Returns the dashboard. Its buttons, and the list of pages, are there if the request has presented the token.
pub(crate) fn dashboard_page(view: &View<'_>) -> Markup {
    let (status, live) = (view.status, view.live);
    let may_change = view.loads.is_some();
    let main = html! {
        (notices(status, may_change))
        @if status.requests == 0 {
            (settings::connect(status, true))
        }
        (hop::section(status, live))
        (waiting(&status.waiting, may_change))
        (savings::section(view))
        @match view.loads {
            Some(loads) => {
                (loads::section(loads, view.now_ms))
                (loads::failures(view.failures, view.now_ms))
                (rules::section(view.rules, loads, view.now_ms / 1000))
            }
            None => section {
                h2 { "Pages" }
                p {
                    "To see the last pages, and to change anything, open the address that "
                    code { "longhaul-agent status" } " prints."
                }
            }
        }
        (settings::section(status, live, may_change))
        @if status.requests > 0 {
            (settings::connect(status, false))
        }
    };
    let header = html! {
        h1 { span id="headline" { (live.text("headline")) } }
        p id="reason" { (live.text("reason")) }
    };
    document("Longhaul", status.state.as_str(), &header, &main, may_change)
}

/// Returns a page that says what became of an order.
pub(crate) fn told_page(words: &str) -> Markup {
    let header = html! { h1 { "The agent\u{2019}s answer" } };
    let main = html! {
        section {
            @if words.contains('\n') {
                div class="wide" tabindex="0" role="region" aria-label="Result" { pre { (words) } }
            } @else {
                p { (words) }
            }
            p { a href="/" { "Back to the dashboard" } }
        }
    };
    document("Longhaul", "", &header, &main, false)
}

/// Returns a document; `state` selects the colours of the header.
fn document(title: &str, state: &str, header: &Markup, main: &Markup, is_live: bool) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="stylesheet" href="/dashboard.css";
                @if is_live {
                    script defer src="/dashboard.js" {}
                }
            }
            body {
                header id="top" data-state=(state) {
                    div { (header) }
                }
                main { (main) }
                footer { "Longhaul agent " (env!("CARGO_PKG_VERSION")) }
            }
        }
    }
}

/// Returns what the user should know or do now.
fn notices(status: &Status, may_change: bool) -> Markup {
    html! {
        @if let Some(page) = status.trouble.as_ref().and_then(|trouble| trouble.login_page.as_ref()) {
            p class="notice" {
                @if status.login_page_waits {
                    "The network wants you to log in at " code { (page) } ". Nothing loads without the gateway here \
                     (fallback.after); any network can name any host."
                    @if may_change {
                        form method="post" { button formaction=(PERMIT_LOGIN) { "Let this host load, without credentials" } }
                    }
                } @else {
                    "Open " a href=(page) { (page) } " to log in. Until then, http pages may load without the gateway."
                }
            }
        }
        @if status.session.as_ref().is_some_and(|session| session.intercepted) {
            p class="notice" {
                "Intercepted: somebody on the way ends TLS to the gateway. What is seen there is ciphertext; only the gateway \
                 can read what you load. " code { "carrier.pin" } " decides about such networks."
            }
        }
        @if let Some(notice) = &status.notice {
            p class="notice" { "Notice from the gateway: " (notice) }
        }
        @if status.direct_in_use {
            p class="notice" { "Pages load without the gateway, and without acceleration, until the gateway answers again." }
        }
    }
}

/// Returns the pages that wait for the hop; each may be given up.
fn waiting(pages: &[WaitingStatus], may_change: bool) -> Markup {
    html! {
        section id="waiting-part" hidden[pages.is_empty()] {
            h2 { "Waiting for the link" }
            form method="post" {
                table {
                    tbody id="waiting-list" {
                        @for page in pages { (waiting_row(page, may_change)) }
                    }
                }
            }
        }
    }
}

fn waiting_row(page: &WaitingStatus, may_change: bool) -> Markup {
    html! {
        tr id={ "waiting-" (page.id) } {
            th scope="row" { code { (page.url) } }
            td { @if page.ready { "loaded" } @else { (super::figures::time(page.waited_s)) } }
            td {
                @if may_change {
                    button formaction={ (CANCEL_WAITING) "?id=" (page.id) } { "Cancel" }
                }
            }
        }
    }
}

/// The parts of the dashboard besides the list of pages whose nodes the script keeps: rows by the id of their list, and
/// parts by their own id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Parts {
    lists: BTreeMap<&'static str, Vec<String>>,
    parts: BTreeMap<&'static str, String>,
}

impl Parts {
    /// Returns the parts for a dashboard that has presented the token.
    pub(crate) fn of(waiting: &[WaitingStatus], failed: &Failures<'_>, days: &[Day], now_ms: u64) -> Self {
        let texts = |rows: Vec<Markup>| rows.into_iter().map(Markup::into_string).collect();
        let (of_pages, in_background) = loads::failure_rows(failed, now_ms);
        let waiting = waiting.iter().map(|page| waiting_row(page, true)).collect();
        Self {
            lists: BTreeMap::from([
                ("waiting", texts(waiting)),
                ("failures", texts(of_pages)),
                ("background", texts(in_background)),
            ]),
            parts: BTreeMap::from([("days", savings::chart(days).into_string())]),
        }
    }
}

/// Returns a text that the script renews.
fn live_text(live: &LiveFigures, id: &str) -> Markup {
    html! { span id=(id) { (live.text(id)) } }
}

#[cfg(test)]
mod tests;
