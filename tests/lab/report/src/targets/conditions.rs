//! Selection of the rows that decide a target.
use crate::measurements::{Measurements, Pages, Setting, Variant};

/// The rows of one source.
pub(super) struct Judged<'m> {
    pub(super) measurements: &'m Measurements<'m>,
    pub(super) source: Option<&'m str>,
}

/// Required properties of a row for a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'w> {
    pub(super) system: &'w str,
    pub(super) link: Option<&'w str>,
    pub(super) loader: Option<&'w str>,
    pub(super) state: Option<&'w str>,
    pub(super) level: Option<&'w str>,
    /// Share of packets lost in the Internet.
    pub(super) loss: f64,
    /// Unusual conditions.
    pub(super) unusual: &'w str,
}

impl Wanted<'_> {
    /// Longhaul with agent and gateway, no loss in the Internet, everything else unrestricted.
    pub(super) const LONGHAUL: Self = Self {
        system: "longhaul",
        link: None,
        loader: None,
        state: None,
        level: None,
        loss: 0.0,
        unusual: "",
    };
}

/// Selected rows, with their source.
pub(super) struct Found<'m> {
    pub(super) setting: &'m Setting,
    pub(super) variant: &'m Variant,
    pub(super) pages: &'m Pages<'m>,
}

impl Found<'_> {
    /// Returns the number of invalid loads.
    pub(super) fn failed(&self) -> usize {
        self.pages.values().map(|loads| loads.failed()).sum()
    }
}

impl<'m> Judged<'m> {
    /// Returns all matching rows, in the order of tables.
    pub(super) fn find(&self, wanted: Wanted<'_>) -> Vec<Found<'m>> {
        let fits = |wanted: Option<&str>, value: &str| wanted.is_none_or(|wanted| wanted == value);
        let mut found = Vec::new();
        for (setting, systems) in &self.measurements.settings {
            let in_setting = fits(wanted.link, &setting.link.text)
                && fits(wanted.loader, &setting.loader.text)
                && fits(wanted.state, &setting.state.text)
                && setting.unusual == wanted.unusual
                && (setting.loss.share() - wanted.loss).abs() < 1e-9;
            if !in_setting {
                continue;
            }
            for (variant, pages) in systems {
                let is_wanted = variant.is_complete()
                    && variant.system.text == wanted.system
                    && variant.source() == self.source
                    && wanted.level.is_none_or(|level| variant.level() == Some(level));
                if is_wanted {
                    found.push(Found {
                        setting,
                        variant,
                        pages,
                    });
                }
            }
        }
        found
    }

    /// Returns the rows of the scripted browser, or of Chromium if there are none: both are never mixed.
    pub(super) fn find_by_one_loader(&self, wanted: Wanted<'_>) -> Vec<Found<'m>> {
        let model = self.find(Wanted {
            loader: Some("model"),
            ..wanted
        });
        if model.is_empty() {
            self.find(Wanted {
                loader: Some("chromium"),
                ..wanted
            })
        } else {
            model
        }
    }

    /// Returns system `direct` in the same setting.
    pub(super) fn baseline(&self, found: &Found<'m>) -> Option<&'m Pages<'m>> {
        self.measurements.baseline(found.setting, found.variant)
    }
}
