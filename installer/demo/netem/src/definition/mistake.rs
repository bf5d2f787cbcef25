//! Mistakes in link definition files.
use std::fmt;

use crate::ParseTraceError;

/// Errors of a file that defines no links.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkFileError {
    /// The file is not TOML; the message contains the position.
    #[error("the link file is not TOML: {0}")]
    Syntax(String),
    /// The file exceeds the maximum length.
    #[error("the link file has {bytes} bytes; at most {limit} are read")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The maximum length in bytes.
        limit: usize,
    },
    /// The file is TOML and contains these mistakes, at least one.
    #[error("{}", Lines(.0))]
    Mistakes(Vec<LinkMistake>),
}

/// One mistake in a link's definition.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {mistake}", Place(self))]
pub struct LinkMistake {
    /// The link; empty if the mistake is outside of all links.
    pub link: String,
    /// The key with its parent keys: `rate.down`.
    pub key: String,
    /// Kind of the mistake.
    pub mistake: Mistake,
}

/// Kinds of mistakes of a key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// The key does not exist.
    #[error("there is no such key; known are: {known}")]
    UnknownKey {
        /// The valid keys, separated by commas.
        known: String,
    },
    /// A required key is missing.
    #[error("is missing; expected {expected}")]
    Missing {
        /// Description of a valid value.
        expected: &'static str,
    },
    /// The value is invalid.
    #[error("`{found}` is not {expected}")]
    Value {
        /// The beginning of the value.
        found: String,
        /// Description of a valid value.
        expected: &'static str,
    },
    /// The key contradicts another key.
    #[error("conflicts with `{other}`; {advice}")]
    Conflict {
        /// The other key.
        other: &'static str,
        /// Advice for the user.
        advice: &'static str,
    },
    /// The base of the link does not exist.
    #[error("there is no link `{base}`; known are: {known}")]
    UnknownBase {
        /// The unknown name.
        base: String,
        /// The existing names, separated by commas.
        known: String,
    },
    /// The link is, directly or indirectly, its own base.
    #[error("the bases of the links form a circle")]
    Circle,
    /// The trace file cannot be read.
    #[error("cannot read the trace `{path}`: {reason}")]
    Unreadable {
        /// Its path as given.
        path: String,
        /// Message of the operating system.
        reason: String,
    },
    /// The file is not a valid trace.
    #[error("`{path}` is not a trace: {error}")]
    Trace {
        /// Its path as given.
        path: String,
        /// The error of its text.
        error: ParseTraceError,
    },
}

struct Place<'a>(&'a LinkMistake);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LinkMistake { link, key, .. } = self.0;
        match (link.as_str(), key.as_str()) {
            ("", key) => write!(f, "`{key}`"),
            (link, "") => write!(f, "link `{link}`"),
            (link, key) => write!(f, "link `{link}`, key `{key}`"),
        }
    }
}

struct Lines<'a>(&'a [LinkMistake]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mistake) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            write!(f, "{separator}{mistake}")?;
        }
        Ok(())
    }
}
