//! What can be wrong with a text of links.
use std::fmt;

use crate::ParseTraceError;

/// A text that defines no links.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkFileError {
    /// It is not TOML; the message says where.
    #[error("the link file is not TOML: {0}")]
    Syntax(String),
    /// It is beyond what a file of links may be.
    #[error("the link file has {bytes} bytes; at most {limit} are read")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The most that is read.
        limit: usize,
    },
    /// It is TOML, and these are its mistakes, at least one.
    #[error("{}", Lines(.0))]
    Mistakes(Vec<LinkMistake>),
}

/// One mistake in a link's definition.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {mistake}", Place(self))]
pub struct LinkMistake {
    /// The link, empty where the mistake is outside of all links.
    pub link: String,
    /// The key, with the keys above it: `rate.down`.
    pub key: String,
    /// What is wrong.
    pub mistake: Mistake,
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// There is no such key.
    #[error("there is no such key; known are: {known}")]
    UnknownKey {
        /// The keys that can stand there, with commas.
        known: String,
    },
    /// A key is needed that is not there.
    #[error("is missing; expected {expected}")]
    Missing {
        /// What should be there.
        expected: &'static str,
    },
    /// The value is of no use.
    #[error("`{found}` is not {expected}")]
    Value {
        /// The beginning of the value.
        found: String,
        /// What should be there.
        expected: &'static str,
    },
    /// The key makes no sense beside another.
    #[error("cannot stand beside `{other}`; {advice}")]
    Conflict {
        /// The other key.
        other: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// The link that it builds on does not exist.
    #[error("there is no link `{base}`; known are: {known}")]
    UnknownBase {
        /// The name that is not known.
        base: String,
        /// The names that are, with commas.
        known: String,
    },
    /// The link builds on itself.
    #[error("the links build on each other in a circle")]
    Circle,
    /// The trace file cannot be read.
    #[error("cannot read the trace `{path}`: {reason}")]
    Unreadable {
        /// Its path as given.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// The trace file is no trace.
    #[error("`{path}` is not a trace: {error}")]
    Trace {
        /// Its path as given.
        path: String,
        /// What is wrong with it.
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
