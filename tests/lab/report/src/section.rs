//! Sections of the page, empty without content.
mod current_systems;
mod effects;
mod factors;
mod header;
mod idle;
mod pages;
mod pictures;
mod second_visits;
mod summary;
mod target_table;
mod transport;
mod waterfalls;

use maud::{Markup, Render, html};

use crate::{chart::Palette, markup::Text, measurements::Measurements, results::Results};

/// Data for all sections.
pub(crate) struct Context<'a> {
    pub(crate) files: &'a [(String, Results)],
    pub(crate) measurements: &'a Measurements<'a>,
    pub(crate) palette: Palette,
}

/// A section: its anchor, its heading and its content.
pub(crate) struct Section {
    pub(crate) anchor: &'static str,
    pub(crate) title: &'static str,
    body: Markup,
}

impl Section {
    /// True if the files contain no data for the section.
    pub(crate) fn is_empty(&self) -> bool {
        self.body.0.is_empty()
    }
}

impl Render for Section {
    fn render(&self) -> Markup {
        html! {
            section id=(self.anchor) aria-labelledby={ (self.anchor) "-title" } {
                h2 id={ (self.anchor) "-title" } { (self.title) } "\n"
                (self.body)
            }
            "\n"
        }
    }
}

/// Returns parts of a section, each with its heading, below the section's legend; nothing without parts.
fn with_legend(legend: &Markup, parts: &[(String, Markup)]) -> Markup {
    html! {
        @if !parts.is_empty() {
            (legend)
        }
        @for (title, part) in parts {
            h3 { (Text(title)) } "\n"
            (part)
        }
    }
}

/// Returns all sections in order.
pub(crate) fn all(context: &Context<'_>) -> Vec<Section> {
    let section = |anchor, title, body| Section { anchor, title, body };
    vec![
        section("failures", "Failed loads", header::failures(context)),
        section("targets", "Targets", target_table::render(context)),
        section("summary", "Summary by link", summary::render(context)),
        section("idle", "Causes of idle time on the hop", idle::render(context)),
        section("returns", "Second visits", second_visits::render(context)),
        section("pages", "Results by page", pages::render(context)),
        section("pictures", "Screenshots of pages", pictures::render(context)),
        section(
            "factors",
            "Factors relative to two connections",
            factors::render(context),
        ),
        section(
            "effects",
            "Effects described in the papers",
            effects::render(context),
        ),
        section("transport", "Transport", transport::render(context)),
        section("waterfalls", "Waterfalls", waterfalls::render(context)),
        section("environment", "Environment", header::environment(context)),
    ]
}

pub(crate) use header::introduction;
