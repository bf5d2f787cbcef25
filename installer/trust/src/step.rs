//! A change to the machine as data: its place, its undo and its proof.
use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// One planned change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Effect, as a phrase for the user: `Chromium trusts this device's certificate authority`.
    pub what: String,
    /// File, directory or setting that changes.
    pub place: String,
    /// How to undo the change by hand.
    pub undo: String,
    /// How to check by hand that the change is in effect.
    pub proof: String,
    /// The browser that must be closed while the change is applied or undone.
    pub held_by: Option<Browser>,
    /// The change.
    pub change: Change,
}

impl Step {
    /// A change that a command applies, another one undoes, and a third one proves.
    pub(crate) fn by_command(what: &str, place: &str, [apply, undo, proof]: [CommandLine; 3]) -> Self {
        Self {
            what: what.to_owned(),
            place: place.to_owned(),
            undo: undo.to_string(),
            proof: proof.to_string(),
            held_by: None,
            change: Change::Command {
                apply,
                undo,
                proof: Some(proof),
                subject: String::new(),
                directories: Vec::new(),
            },
        }
    }
}

/// A browser that keeps its databases open while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Browser {
    /// Chromium and its relatives, which share one NSS database per user.
    Chromium,
    /// Firefox.
    Firefox,
}

impl fmt::Display for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chromium => "Chromium",
            Self::Firefox => "Firefox",
        })
    }
}

/// The change of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Change {
    /// A file that belongs to Longhaul.
    File {
        /// The file.
        path: PathBuf,
        /// Its text.
        content: String,
        /// Runs after the file is written and after it is removed.
        refresh: Option<CommandLine>,
    },
    /// Values of keys in a sectioned text file of somebody else: INI, or TOML with one line per key.
    Keys {
        /// The file.
        path: PathBuf,
        /// Name of the section.
        section: String,
        /// Form of the lines.
        form: KeyForm,
        /// Keys and their values as written in the file.
        keys: Vec<(String, String)>,
        /// Runs after the file is changed and after it is restored.
        refresh: Option<CommandLine>,
    },
    /// Preferences in `user.js` of a Firefox profile.
    ///
    /// Firefox copies them into `prefs.js` when it starts, so undoing visits that file as well.
    FirefoxPreferences {
        /// Directory of the profile.
        profile: PathBuf,
        /// Names and values as JavaScript literals.
        preferences: Vec<(String, String)>,
    },
    /// Members of Firefox's `policies.json`, which may contain policies of others.
    FirefoxPolicies {
        /// The file.
        path: PathBuf,
        /// The members.
        policies: FirefoxPolicies,
        /// Homes of the users whose profiles keep the certificate after the policy is gone.
        homes: Vec<PathBuf>,
    },
    /// A certificate authority in an NSS database, trusted for web servers.
    NssCertificate {
        /// Directory of the database; it is created if it does not exist.
        directory: PathBuf,
        /// Name of the certificate in the database.
        nickname: String,
        /// The certificate in PEM.
        certificate: String,
    },
    /// A key of GNOME's settings.
    GnomeSetting {
        /// The schema.
        schema: String,
        /// The key.
        key: String,
        /// The value as a string, without quotes.
        value: String,
    },
    /// A command of the system.
    Command {
        /// Applies the change; applying it twice is harmless.
        apply: CommandLine,
        /// Undoes the change; undoing it twice is harmless.
        undo: CommandLine,
        /// Succeeds if the change is in effect.
        proof: Option<CommandLine>,
        /// Text that the effect of the command depends on, such as the unit of a service: with another text, the
        /// change is undone and applied again.
        subject: String,
        /// Directories that the command may create, outermost first.
        directories: Vec<PathBuf>,
    },
}

impl Change {
    /// The command that applies the change, or that runs after its files are written.
    pub(crate) fn command(&self) -> Option<CommandLine> {
        match self {
            Self::GnomeSetting { schema, key, value } => {
                Some(CommandLine::new("gsettings", ["set", schema, key, value]))
            }
            Self::Command { apply, .. } => Some(apply.clone()),
            Self::File { .. }
            | Self::Keys { .. }
            | Self::FirefoxPreferences { .. }
            | Self::FirefoxPolicies { .. }
            | Self::NssCertificate { .. } => self.refresh().cloned(),
        }
    }

    /// The command that runs after the files of the change are written or restored.
    pub(crate) const fn refresh(&self) -> Option<&CommandLine> {
        match self {
            Self::File { refresh, .. } | Self::Keys { refresh, .. } => refresh.as_ref(),
            Self::FirefoxPreferences { .. }
            | Self::FirefoxPolicies { .. }
            | Self::NssCertificate { .. }
            | Self::GnomeSetting { .. }
            | Self::Command { .. } => None,
        }
    }
}

/// Form of a line with a key and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyForm {
    /// `key=value`
    Ini,
    /// `key = value`
    Toml,
}

/// The members that Longhaul adds to Firefox's policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirefoxPolicies {
    /// Address of the proxy script.
    pub script: String,
    /// The certificate authority, if https is accelerated.
    pub authority: Option<PolicyAuthority>,
}

/// A certificate authority that a policy installs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyAuthority {
    /// Path of the certificate's file, as Firefox sees it.
    pub file: String,
    /// The certificate in PEM.
    pub certificate: String,
}

/// A program and its arguments; no shell takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// Name of the program, looked for on the search path.
    pub program: String,
    /// The arguments.
    pub arguments: Vec<String>,
}

impl CommandLine {
    /// Makes a command line.
    pub fn new<const N: usize>(program: &str, arguments: [&str; N]) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments.map(str::to_owned).to_vec(),
        }
    }
}

impl fmt::Display for CommandLine {
    /// Writes the command as one types it in a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        for argument in &self.arguments {
            write!(f, " {}", quoted(argument))?;
        }
        Ok(())
    }
}

/// Quotes a word for a POSIX shell, if necessary.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        let command = CommandLine::new(
            "certutil",
            ["-d", "sql:/home/a b/.pki", "-n", "it's", "-t", "C,,", ""],
        );
        let shown = r"certutil -d 'sql:/home/a b/.pki' -n 'it'\''s' -t C,, ''";
        assert_eq!(command.to_string(), shown);
    }
}
