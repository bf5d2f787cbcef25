//! The section with the user's rules for sites.
use longhaul_http::site::{host_of_url, registrable_domain};
use longhaul_session::ImageLevel;
use maud::{Markup, html};

use crate::dashboard::{
    RULES_ORIGINALS, RULES_PAUSE, RULES_REMOVE, RULES_RESUME, RULES_SET, figures,
    page_loads::PageLoad,
    rules_status::{RuleStatus, RulesStatus},
};

/// Number of sites of the last pages that are offered.
const MAX_OFFERED: usize = 6;

pub(super) fn section(rules: &RulesStatus, loads: &[PageLoad], now_s: u64) -> Markup {
    let offered = offered(rules, loads);
    html! {
        section id="rules" {
            h2 { "Rules" }
            (pause_of_everything(rules, now_s))
            @for rule in &rules.rules { (of_name(&rule.name, Some(rule), now_s)) }
            @if !offered.is_empty() {
                h3 { "Sites of the last pages" }
                @for site in &offered { (of_name(site, None, now_s)) }
            }
            form method="post" action=(RULES_SET) class="rule" {
                fieldset {
                    legend { "Another site" }
                    label { "Site or host " input name="name" required maxlength="253" autocapitalize="none" spellcheck="false" autocomplete="off"; }
                    (fields(None))
                    button { "Save" }
                }
            }
            p class="quiet" {
                "A name includes its subdomains, and the longest name decides. Rules apply to the next request and stay until \
                 you remove them; a pause ends after an hour. Pictures follow the page that shows them. What the browser has \
                 stored itself stays until a reload without caches (Ctrl+Shift+R)."
            }
        }
    }
}

/// The rules of the site of a page, and what decides about its https.
pub(super) fn of_page(url: &str, rules: &RulesStatus, decision: &str, now_s: u64) -> Markup {
    let host = host_of_url(url).unwrap_or_default();
    let site = registrable_domain(host);
    html! {
        section id="rules" {
            h2 { "Rules" }
            p { "HTTPS of " (host) ": " (decision) "." }
            (of_name(site, rules.rule(site), now_s))
            @if host != site {
                (of_name(host, rules.rule(host), now_s))
            }
        }
    }
}

/// The sites of the last pages without rules, newest first.
fn offered<'a>(rules: &RulesStatus, loads: &'a [PageLoad]) -> Vec<&'a str> {
    let mut sites = Vec::new();
    for load in loads {
        let site = host_of_url(&load.page.url).map(registrable_domain);
        let Some(site) = site.filter(|site| rules.rule(site).is_none() && !sites.contains(site)) else {
            continue;
        };
        sites.push(site);
        if sites.len() == MAX_OFFERED {
            break;
        }
    }
    sites
}

fn pause_of_everything(rules: &RulesStatus, now_s: u64) -> Markup {
    html! {
        form method="post" {
            @match rules.paused_until {
                Some(until) => p class="notice" {
                    "Everything is paused for another " (left(until, now_s)) ": pages load without Longhaul\u{2019}s changes. "
                    button formaction=(RULES_RESUME) { "Resume" }
                },
                None => button formaction=(RULES_PAUSE) { "Pause everything for an hour" },
            }
        }
    }
}

/// The form of one name; `rule` is absent if there is none yet.
fn of_name(name: &str, rule: Option<&RuleStatus>, now_s: u64) -> Markup {
    let query = |path: &str| format!("{path}?name={name}");
    let paused = rule.and_then(|rule| rule.paused_until);
    html! {
        form method="post" action=(query(RULES_SET)) class="rule" {
            fieldset {
                legend { (name) }
                (fields(rule))
                button { "Save" }
                @match paused {
                    Some(_) => button formaction=(query(RULES_RESUME)) { "Resume" },
                    None => button formaction=(query(RULES_PAUSE)) { "Pause for an hour" },
                }
                button formaction=(query(RULES_ORIGINALS)) { "Original pictures now" }
                @if rule.is_some() {
                    button formaction=(query(RULES_REMOVE)) { "Remove" }
                }
                (now_in_effect(rule, now_s))
            }
        }
    }
}

fn now_in_effect(rule: Option<&RuleStatus>, now_s: u64) -> Markup {
    html! {
        @if let Some(rule) = rule {
            p class="quiet" {
                @if let Some(until) = rule.paused_until { "Paused for another " (left(until, now_s)) ". " }
                @if let Some(until) = rule.originals_until { "Original pictures for another " (left(until, now_s)) ". " }
                @if let Some(decision) = &rule.decision { "HTTPS: " (decision) "." }
            }
        }
    }
}

/// The two choices of a rule.
fn fields(rule: Option<&RuleStatus>) -> Markup {
    let https = rule.and_then(|rule| rule.https.as_deref()).unwrap_or("default");
    let images = rule.and_then(|rule| rule.images.as_deref()).unwrap_or("default");
    let choices = [
        ("default", "as the settings say"),
        ("accelerate", "accelerate: the gateway can read it"),
        ("tunnel", "pass through, unread"),
    ];
    html! {
        label {
            "HTTPS "
            select name="https" {
                @for (value, words) in choices {
                    option value=(value) selected[value == https] { (words) }
                }
            }
        }
        label {
            "Pictures "
            select name="images" {
                option value="default" selected[images == "default"] { "as on all sites" }
                @for level in ImageLevel::ALL {
                    option value=(level.name()) selected[level.name() == images] { (level.name()) }
                }
            }
        }
    }
}

fn left(until: u64, now_s: u64) -> String {
    let seconds = u32::try_from(until.saturating_sub(now_s)).unwrap_or(u32::MAX);
    figures::time(f64::from(seconds))
}
