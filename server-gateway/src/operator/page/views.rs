//! The pages.
use longhaul_types::{BitRate, ByteCount};
use maud::{DOCTYPE, Markup, html};

use crate::{
    operator::{
        messages::{DeviceEntry, DeviceList},
        orders::GatewayStatus,
    },
    quota_limits::{month_text, rate_text},
};

/// Characters of a key that tell two keys apart for a person.
const KEY_FORM: usize = 8;

/// The list of devices, and the state of the gateway. Without a token there are no forms.
pub(super) fn devices(list: &DeviceList, state: &GatewayStatus, token: Option<&str>) -> Markup {
    let main = html! {
        @if let Some(left) = state.ends_within_s {
            p class="notice" {
                "The gateway drains: no session begins any more. It ends when nothing is in progress, at the latest in "
                (left) " s."
            }
        }
        dl class="figures" {
            (figure("Open sessions", &state.sessions.to_string()))
            (figure("Devices", &list.devices.len().to_string()))
            (figure("Accepted handshakes", &state.handshakes_accepted.to_string()))
            (figure("Running since", &time(&state.since)))
        }
        section {
            h2 { "Devices" }
            @if list.devices.is_empty() {
                p { "None yet. " code { "longhaul-gateway invite NAME" } " admits one." }
            } @else {
                (table(list))
            }
        }
        (refusals(state))
        @if let Some(token) = token {
            (drain(state, token))
        }
    };
    document(
        "Gateway",
        if state.draining { "draining" } else { "serving" },
        &main,
    )
}

fn table(list: &DeviceList) -> Markup {
    html! {
        div class="wide" tabindex="0" role="region" aria-label="Devices" {
            table class="devices" {
                thead {
                    tr {
                        th scope="col" { "Device" }
                        th scope="col" { "State" }
                        th scope="col" { "Last seen" }
                        th scope="col" { "Agent and link" }
                        th scope="col" { "Down and up" }
                        th scope="col" { "This month" }
                    }
                }
                tbody {
                    @for device in &list.devices {
                        tr {
                            th scope="row" {
                                a href={ "/device?id=" (device.id) } { (device.name) }
                                small { code { (device.id) } }
                            }
                            td { b data-state=(state(device)) { (state(device)) } }
                            td { (device.last_seen.as_deref().map_or_else(|| "never".to_owned(), time)) }
                            td { (agent(device)) }
                            td { (transferred(device)) }
                            td { (month(device)) }
                        }
                    }
                }
            }
        }
    }
}

fn agent(device: &DeviceEntry) -> Markup {
    html! {
        (device.software.as_deref().unwrap_or("unknown"))
        @if let Some(rate) = device.link_bps {
            small { (BitRate::bps(rate)) @if let Some(rtt) = device.rtt_ms { ", " (rtt) " ms" } }
        }
    }
}

fn transferred(device: &DeviceEntry) -> Markup {
    html! {
        (ByteCount::new(device.bytes_down.unwrap_or(0)))
        small { (ByteCount::new(device.bytes_up.unwrap_or(0))) " up" }
    }
}

fn month(device: &DeviceEntry) -> Markup {
    let down = device.month_bytes_down.unwrap_or(0);
    let used = down.saturating_add(device.month_bytes_up.unwrap_or(0));
    html! {
        (ByteCount::new(used))
        @if let Some(most) = device.quota_month_bytes {
            " of " (month_text(ByteCount::new(most)))
            meter min="0" max=(most) value=(used.min(most)) aria-label="used of the month's quota" {}
        }
        @if device.quota_reached {
            small class="bad" { "used up until " (time(&device.month_ends)) }
        }
        @if let Some(rate) = device.quota_rate_bps {
            small { "at most " (rate_text(BitRate::bps(rate))) }
        }
    }
}

fn refusals(state: &GatewayStatus) -> Markup {
    html! {
        section {
            h2 { "Refused handshakes" }
            p class="quiet" {
                "Since the start of the gateway. Malformed handshakes, those that are not authentic or for another key, and those \
                 beyond the rate limit got no answer; the other devices were told the reason."
            }
            table class="narrow" {
                thead { tr { th scope="col" { "Reason" } th scope="col" { "Number" } } }
                tbody {
                    @for (reason, count) in &state.handshakes_refused {
                        tr { th scope="row" { (reason.replace('-', " ")) } td { (count) } }
                    }
                }
            }
        }
    }
}

fn drain(state: &GatewayStatus, token: &str) -> Markup {
    html! {
        section {
            h2 { "End the gateway" }
            p {
                "Draining refuses new sessions, lets downloads and tunnels go on, and then ends the gateway. A service manager may \
                 start it again."
            }
            form method="post" action="/order" {
                input type="hidden" name="token" value=(token);
                label {
                    "Minutes for what is in progress "
                    input type="number" name="minutes" value="10" min="0" max="1440" required;
                }
                button name="order" value="drain" { @if state.draining { "Set another limit" } @else { "Drain" } }
            }
        }
    }
}

/// One device, and the forms that change it.
pub(super) fn device(device: &DeviceEntry, token: Option<&str>) -> Markup {
    let main = html! {
        p { a href="/" { "All devices" } }
        dl class="figures" {
            (figure("State", state(device)))
            (figure("Last seen", &device.last_seen.as_deref().map_or_else(|| "never".to_owned(), time)))
            (figure("Added", &time(&device.added)))
            (figure("Id", &device.id))
            (figure("Key", &device.key.chars().take(KEY_FORM).collect::<String>()))
            (figure("Agent", device.software.as_deref().unwrap_or("unknown")))
        }
        article { h2 { "This month" } p { (month(device)) } }
        @if let Some(token) = token {
            @if device.revoked.is_some() {
                (form(device, token, &html! {
                    h2 { "Restore" }
                    p { "Its agent opens sessions again with the key that it has." }
                    button name="order" value="restore" { "Restore the device" }
                }))
            } @else {
                (form(device, token, &html! {
                    h2 { "Quota" }
                    p { "An amount with its unit, " code { "none" } ", or " code { "default" } " for the gateway\u{2019}s setting." }
                    label { "Rate " input name="rate" value=(device.quota_rate) required; }
                    label { "Month " input name="month" value=(device.quota_month) required; }
                    button name="order" value="quota" { "Set the quota" }
                }))
                (form(device, token, &html! {
                    h2 { "Name" }
                    label { "Name " input name="name" value=(device.name) maxlength="64" required; }
                    button name="order" value="rename" { "Rename" }
                }))
                (form(device, token, &html! {
                    h2 { "Remove" }
                    p { "Its session and its downloads end at once, and its agent tells its user." }
                    label { input type="checkbox" required; " Remove " (device.name) }
                    button name="order" value="remove" { "Remove the device" }
                }))
            }
        }
    };
    document(&device.name, state(device), &main)
}

fn form(device: &DeviceEntry, token: &str, inside: &Markup) -> Markup {
    html! {
        article {
            form method="post" action="/order" {
                input type="hidden" name="token" value=(token);
                input type="hidden" name="device" value=(device.id);
                (inside)
            }
        }
    }
}

/// A page that says why an order was not carried out.
pub(super) fn told(words: &str) -> Markup {
    let main = html! { p class="notice" { (words) } p { a href="/" { "All devices" } } };
    document("Not done", "", &main)
}

fn state(device: &DeviceEntry) -> &str {
    device.state.as_deref().unwrap_or(&device.status)
}

fn figure(name: &str, value: &str) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// A time for people, in UTC.
fn time(rfc3339: &str) -> String {
    rfc3339.replace('T', " ").replace('Z', " UTC")
}

fn document(title: &str, state: &str, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                meta name="color-scheme" content="light dark";
                title { (title) " \u{2013} Longhaul gateway" }
                link rel="stylesheet" href="/admin.css";
            }
            body {
                header data-state=(state) { div { h1 { (title) } p { (state) } } }
                main { (main) }
                footer { "Longhaul gateway " (env!("CARGO_PKG_VERSION")) }
            }
        }
    }
}
