//! The HTML of the page with both loads.
use std::net::SocketAddr;

use maud::{DOCTYPE, Markup, html};

use super::Contents;
use crate::measurement::{Comparison, Way};

/// Returns the page; `views` are the servers of the direct view and of the view through Longhaul.
pub(super) fn document(contents: &Contents<'_>, views: &[SocketAddr]) -> Markup {
    let measured = contents.measured;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                meta name="color-scheme" content="light dark";
                title { "Longhaul: one page, twice" }
                link rel="stylesheet" href="/page.css";
                script defer src="/page.js" {}
            }
            body data-scale=(measured.direct.seconds()) {
                header {
                    h1 { "The same page over the same slow link" }
                    p { (contents.link) }
                }
                main {
                    section class="race" aria-label="Both loads, live" {
                        (race("direct", "Directly", views.first()))
                        (race("longhaul", "Through Longhaul", views.get(1)))
                    }
                    p class="again" {
                        button id="start" disabled { "Load both again" } " "
                        span id="verdict" role="status" { "Both are loading now, each over a link of its own." }
                    }
                    section {
                        h2 { "As the demo measured it at its start" }
                        (table(measured))
                    }
                    section {
                        h2 { "Try your own pages" }
                        p { "Set one of these addresses as the HTTP and HTTPS proxy of a browser. Both lead over the emulated link." }
                        dl {
                            dt { "directly" } dd { code { (contents.direct_proxy) } }
                            dt { "Longhaul" } dd { code { (contents.longhaul_proxy) } }
                        }
                    }
                    (explanation())
                }
            }
        }
    }
}

/// Returns the live load of one way.
fn race(id: &str, title: &str, view: Option<&SocketAddr>) -> Markup {
    html! {
        article id=(id) data-view=(view.map(|view| format!("http://{view}/")).unwrap_or_default()) {
            h2 { (title) }
            p class="time" role="timer" { "0.0 s" }
            div class="bar" { i {} }
            div class="window" {}
        }
    }
}

/// Returns the table of the measured loads.
fn table(measured: &Comparison) -> Markup {
    html! {
        table {
            caption { (measured.url) ", loaded by the same loader over both ways: " (measured.verdict()) }
            tr {
                th scope="col" { "way" }
                th scope="col" { "time" }
                th scope="col" { "over the link" }
                td {}
            }
            (row("direct", "directly", measured.direct, measured.direct_share()))
            (row("longhaul", "Longhaul", measured.longhaul, measured.longhaul_share()))
        }
    }
}

/// Returns the row of one load; `share` is the length of its bar.
fn row(class: &str, way: &str, load: Way, share: u64) -> Markup {
    html! {
        tr class=(class) {
            th scope="row" { (way) }
            td { (load.time_text()) }
            td { (load.bytes) }
            td {
                svg class="share" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true" {
                    rect width=(share) height="20" {}
                }
            }
        }
    }
}

fn explanation() -> Markup {
    html! {
        section {
            h2 { "How the comparison works" }
            ul {
                li {
                    "Both ways have an emulated link of their own, with the same rate, delay, queue and loss. Longhaul is told \
                     nothing of the link."
                }
                li {
                    "Both loads are first visits: before each, agent and gateway delete what they store of the page, and the \
                     direct way forgets names and closes its connections. Only the gateway, on the fast side, may still have \
                     the page's files in its shared cache."
                }
                li {
                    "Directly, the browser uses HTTP/1.1 with six connections. Each host name costs a round trip, and so does \
                     each TCP connection; TLS handshakes cost theirs."
                }
                li {
                    "Direct connections have TCP's slow start and its headers, and their windows shrink after a loss. Their \
                     acknowledgements cost nothing, and a full queue only delays them; Longhaul's packets are dropped there."
                }
                li {
                    "Longhaul sends pictures at the level " em { "medium" } ", which is the default, and compresses text. This \
                     is part of the difference."
                }
            }
        }
    }
}
