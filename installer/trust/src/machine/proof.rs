//! Checks whether a step is in effect.
use std::path::Path;

use super::{Machine, read_text};
use crate::{
    command::{self, CommandRunner},
    error::ChangeError,
    firefox_policies, firefox_preferences, keyed_lines, nss,
    step::{Change, CommandLine, Step},
};

impl Machine<'_> {
    /// True if the step is in effect, whoever made the change.
    ///
    /// # Errors
    /// A file cannot be read or a command cannot be run.
    pub fn is_in_effect(&self, step: &Step) -> Result<bool, ChangeError> {
        is_in_effect(&step.change, self.runner.0)
    }
}

fn is_in_effect(change: &Change, runner: &dyn CommandRunner) -> Result<bool, ChangeError> {
    let text = |path: &Path| read_text(path).map(Option::unwrap_or_default);
    Ok(match change {
        Change::File { path, content, .. } => read_text(path)?.as_ref() == Some(content),
        Change::Keys {
            path, section, keys, ..
        } => {
            let text = text(path)?;
            keys.iter()
                .all(|(key, value)| keyed_lines::value(&text, section, key) == Some(value))
        }
        Change::FirefoxPreferences { profile, preferences } => {
            text(&profile.join("user.js"))?.contains(&firefox_preferences::block(preferences))
        }
        Change::FirefoxPolicies { path, policies, .. } => firefox_policies::has_ours(&text(path)?, policies),
        Change::NssCertificate {
            directory,
            certificate,
            ..
        } => {
            let found = nss::find(runner, directory, certificate)?;
            found.iter().any(|found| found.is_trusted)
        }
        Change::GnomeSetting { schema, key, value } => {
            &gnome_value(&command::run(runner, &gnome_get(schema, key))?) == value
        }
        Change::Command { proof, .. } => match proof {
            Some(proof) => command::succeeds(runner, proof)?,
            None => false,
        },
    })
}

pub(super) fn gnome_get(schema: &str, key: &str) -> CommandLine {
    CommandLine::new("gsettings", ["get", schema, key])
}

/// The string in the output of `gsettings get`.
pub(super) fn gnome_value(output: &str) -> String {
    let output = output.trim();
    let inner = output.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inner.unwrap_or(output).to_owned()
}
