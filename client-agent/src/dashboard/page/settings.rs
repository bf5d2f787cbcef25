//! Settings that the user may change here, what the gateway's operator can read, and how to connect a browser.
use longhaul_session::ImageLevel;
use maud::{Markup, html};

use super::live_text;
use crate::dashboard::{
    FORGET, HTTPS_FORGET, PICTURES,
    live::LiveFigures,
    status::{BypassedHost, HttpsStatus, Status},
};

pub(super) fn section(status: &Status, live: &LiveFigures, may_change: bool) -> Markup {
    html! {
        (pictures(&status.image_level, may_change))
        section {
            h2 { "Who can read your pages" }
            (https(&status.https, may_change))
        }
        section {
            h2 { "On this computer" }
            dl class="figures" {
                div { dt { "Cache" } dd { (live_text(live, "cache")) } }
                div { dt { "Requests" } dd { (live_text(live, "requests")) } }
                div { dt { "Failed" } dd { (live_text(live, "failures")) } }
                div { dt { "Without the gateway" } dd { (live_text(live, "direct")) } }
                div { dt { "Compared with direct connections" } dd { (live_text(live, "compared")) } }
            }
            @if may_change {
                form method="post" {
                    button formaction=(FORGET) { "Delete everything" }
                }
                p class="quiet" {
                    "Deletes the stored data of all pages on this computer, with the list of pages, and for this device at the \
                     gateway. Rules for sites stay: remove them above, or all of them with "
                    code { "longhaul-agent rules remove --all" } ". For one site: open one of its pages above, or " code { "longhaul-agent forget SITE" } "."
                }
            }
        }
    }
}

/// How to connect a browser; `is_first` if none has come yet.
pub(super) fn connect(status: &Status, is_first: bool) -> Markup {
    html! {
        section class=(if is_first { "connect first" } else { "connect" }) {
            h2 { @if is_first { "No browser has come yet" } @else { "Connect another browser" } }
            ol {
                li { "Run " code { "longhaul up" } " as the user of the browser: it sets up the browsers of this computer." }
                li {
                    "Or open the browser\u{2019}s network settings and enter the address for automatic proxy configuration: "
                    code { "http://" (status.control) "/proxy.pac" }
                }
                li { "Or set the HTTP and HTTPS proxy to " code { (status.proxy) } "." }
            }
            @if is_first { p { "Then open any page; it appears here." } }
        }
    }
}

/// Returns the buttons for the image level; the current level's button is pressed.
fn pictures(now: &str, may_change: bool) -> Markup {
    html! {
        section {
            h2 { "Pictures" }
            @if may_change {
                form method="post" class="levels" {
                    @for level in ImageLevel::ALL {
                        @let name = level.name();
                        @let pressed = (name == now).then_some("true");
                        button formaction={ (PICTURES) "?level=" (name) } disabled[pressed.is_some()] aria-pressed=[pressed] {
                            (name)
                        }
                        " "
                    }
                }
                p class="quiet" {
                    "Levels further to the right use less data; at level text, no pictures are loaded. Where the original \
                     arrives sooner, as on fast links, pictures are not converted. Reload a page without caches \
                     (Ctrl+Shift+R) to see its original pictures. Pictures of HTTPS pages that are not accelerated are \
                     never converted."
                }
            } @else {
                p { "Level: " (now) ". To change it, open the address that " code { "longhaul-agent status" } " prints." }
            }
        }
    }
}

/// Describes the handling of HTTPS in plain words.
fn https(status: &HttpsStatus, may_change: bool) -> Markup {
    if status.authority_removed {
        return html! {
            p {
                "The certificate authority was removed: HTTPS pages pass through unchanged until the agent is started \
                 again."
            }
        };
    }
    html! {
        p { "Pages of plain http can be read by everybody on the way from the website to the gateway, and by the gateway\u{2019}s operator." }
        @match status.accelerate.as_str() {
            "list" => {
                p { "These HTTPS sites, with their subdomains, are accelerated. All others pass through unchanged and unread." }
                ul class="hosts" {
                    @for host in &status.hosts {
                        li { b { (host) } ": the gateway\u{2019}s operator can read its pages, including passwords" }
                    }
                }
            }
            "all" => p class="notice" {
                "HTTPS pages except the built-in exclusions (banks, health, government, identity, updates) are accelerated: "
                b { "the gateway\u{2019}s operator can read them" } ", including passwords."
            },
            _ => p { "HTTPS pages pass through unchanged: nobody on the way, not even the gateway, can read them." }
        }
        @if !status.except.is_empty() {
            p { "You excluded " (status.except.join(", ")) ": nobody on the way can read them." }
        }
        @if let Some(fingerprint) = &status.fingerprint {
            p {
                "Browsers must trust this device\u{2019}s authority (" code { "longhaul-agent ca export" }
                "), whose SHA-256 fingerprint is " code { (fingerprint) }
            }
        }
        (bypassed(&status.bypassed, may_change))
    }
}

fn bypassed(hosts: &[BypassedHost], may_change: bool) -> Markup {
    html! {
        @if !hosts.is_empty() {
            p { "Temporarily not accelerated, and read by nobody on the way:" }
            form method="post" {
                ul class="hosts" {
                    @for host in hosts {
                        li {
                            b { (host.host) } ": " (host.why) (programs(host)) " "
                            @if may_change {
                                button formaction={ (HTTPS_FORGET) "?host=" (host.host) } { "Accelerate " (host.host) " again" }
                            }
                        }
                    }
                }
            }
            p class="quiet" { "To forget all of them: " code { "longhaul-agent https forget" } }
        }
    }
}

/// Names the program that a bypass is limited to.
fn programs(bypassed: &BypassedHost) -> String {
    let hosts = if bypassed.everywhere {
        ", and for it at all other hosts"
    } else {
        ""
    };
    match &bypassed.program {
        Some(name) => format!(" (only for {name}{hosts})"),
        None if bypassed.one_program => format!(" (only for this program{hosts})"),
        None => String::new(),
    }
}
