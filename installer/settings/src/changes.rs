//! Differences between the configuration that a program runs with and a newly read one.
use crate::{Describe, Program, Report, TakesEffect};

/// The settings whose values differ, by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Settings that a reload applies.
    pub at_once: Vec<&'static str>,
    /// Settings that take effect at the next start.
    pub at_next_start: Vec<&'static str>,
}

impl Changes {
    /// Compares a newly read configuration with the values in force: `started` has those of the settings that
    /// a reload does not change, `applied` those of all others. Secret values are not in reports and are
    /// therefore not compared.
    pub fn between(program: &Program, started: &Report, applied: &Report, read: &Report) -> Self {
        let mut changes = Self::default();
        for setting in program.accepted() {
            let (in_force, changed) = match setting.takes_effect() {
                TakesEffect::AtOnce => (applied, &mut changes.at_once),
                TakesEffect::AtNextStart => (started, &mut changes.at_next_start),
            };
            if value(in_force, setting) != value(read, setting) {
                changed.push(setting.key());
            }
        }
        changes
    }
}

/// The value of a setting in a report.
fn value<'a>(report: &'a Report, setting: &dyn Describe) -> Option<&'a str> {
    let key = setting.key_in_section().unwrap_or_else(|| setting.key());
    let found = report.settings.iter().find(|resolved| resolved.key == key)?;
    found.value.as_deref()
}
