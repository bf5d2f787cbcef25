//! The hop with its live figures: agent and gateway, and the wave between them.
use maud::{Markup, html};

use super::live_text;
use crate::dashboard::{
    live::LiveFigures,
    samples::{HEIGHT, WIDTH},
    status::Status,
};

pub(super) fn section(status: &Status, live: &LiveFigures) -> Markup {
    let intercepted = status.session.as_ref().is_some_and(|session| session.intercepted);
    html! {
        section class="hop" id="hop" data-state=(live.state) aria-label="The link to the gateway" {
            div class="way" {
                span class="box end" { "browser" }
                span class="line" {}
                span class="box" { "agent" }
                span class="wave" {
                    b { (live_text(live, "now-down")) }
                    svg viewBox="340 84 280 52" preserveAspectRatio="none" aria-hidden="true" {
                        path d="M340 110c35-40 60 40 95 0s60 40 95 0 55 40 90 0" {}
                    }
                    small { "arriving now; sending " (live_text(live, "now-up")) }
                }
                span class="box" { "gateway" }
                span class="line" {}
                span class="box end" { "web" }
            }
            dl class="figures" {
                (figure("Rate of the link", live, "rate"))
                (figure("Round-trip time", live, "rtt"))
                (figure("At best", live, "rtt-best"))
                (figure("Waiting in queues", live, "queue"))
                (figure("Packets lost", live, "loss"))
                (figure("Silent for", live, "silent"))
                (figure("Received", live, "received"))
                (figure("Sent", live, "sent"))
            }
            div class="curves" {
                (curve("Arriving", "received", "received-most", live))
                (curve("Round-trip time", "rtt", "rtt-most", live))
            }
            p class="quiet" {
                "Carrier: " (live_text(live, "carrier")) ". "
                @if intercepted { "Intercepted on the way. " }
                "The session began with " (knowledge(status)) ". Lost packets and curves are those of the last ten minutes; the \
                 shaded times had no open session. Gateway key " code { (short_key(&status.gateway_key)) }
                @if let Some(software) = &status.gateway_software { ", software " (software) }
                "."
            }
        }
    }
}

fn figure(name: &str, live: &LiveFigures, id: &str) -> Markup {
    html! { div { dt { (name) } dd { (live_text(live, id)) } } }
}

/// Returns a curve of the last ten minutes; `most` is the id of the value at its top.
fn curve(name: &str, id: &str, most: &str, live: &LiveFigures) -> Markup {
    let path = |id: &str| live.path.get(id).map(String::as_str).unwrap_or_default();
    let (line, absent) = (format!("curve-{id}"), format!("absent-{id}"));
    html! {
        figure {
            figcaption { (name) span { "at most " (live_text(live, most)) } }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" aria-hidden="true" {
                path class="absent" id=(absent) d=(path(&absent)) {}
                path class="curve" id=(line) d=(path(&line)) {}
            }
            div class="axis" { span { "10 min ago" } span { "now" } }
        }
    }
}

fn knowledge(status: &Status) -> &'static str {
    match status.link.as_str() {
        "told" => "the link profile that you set",
        "remembered" => "what earlier sessions in this network measured",
        _ => "its own measurement of the link",
    }
}

/// Shortens a key; the beginning suffices to distinguish gateways.
fn short_key(key: &str) -> String {
    let start: String = key.chars().take(12).collect();
    format!("{start}\u{2026}")
}
