//! Sections of the page, each a string of HTML, empty without content.
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

use crate::{chart::Palette, measurements::Measurements, results::Results};

/// Data for all sections.
pub(crate) struct Context<'a> {
    pub(crate) files: &'a [(String, Results)],
    pub(crate) measurements: &'a Measurements<'a>,
    pub(crate) palette: Palette,
}

/// A section: its anchor, its heading and its HTML.
pub(crate) struct Section {
    pub(crate) anchor: &'static str,
    pub(crate) title: &'static str,
    pub(crate) body: String,
}

/// Returns all sections in order. An empty body means that the files contain no data for it.
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
