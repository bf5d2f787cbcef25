//! Filters of log messages.
use std::fmt::{self, Display};

use tracing_subscriber::EnvFilter;

/// The severity of all parts of the program that a filter does not name.
const UNNAMED: &str = "info";
/// Words that are a severity.
const SEVERITIES: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// A valid filter of log messages: severities, separated by commas, each for all parts of the program or, as
/// `PART=SEVERITY`, for the parts whose name begins with PART.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

/// A text that is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A word is no severity. `tracing` would take it for a part of the program and silence all others.
    #[error("`{0}` is no severity")]
    Severity(String),
    /// The severity of a part is missing or wrong.
    #[error("`{directive}`: {problem}")]
    Directive {
        /// The part of the filter between two commas.
        directive: String,
        /// The problem.
        problem: String,
    },
}

impl LogFilter {
    /// Parses a filter.
    ///
    /// # Errors
    /// See [`FilterError`].
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        for directive in text.split(',').map(str::trim) {
            check(directive)?;
        }
        Ok(Self(text.to_owned()))
    }

    /// The filter as it was written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The filter for `tracing`: parts of the program that the filter does not name have the severity
    /// [`UNNAMED`], so that a filter for one part does not silence all others.
    pub(crate) fn env_filter(&self) -> EnvFilter {
        let mut directives: Vec<_> = self.0.split(',').map(str::trim).collect();
        if !directives.iter().any(|directive| is_severity(directive)) {
            directives.insert(0, UNNAMED);
        }
        EnvFilter::new(directives.join(","))
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self(UNNAMED.to_owned())
    }
}

impl Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_severity(word: &str) -> bool {
    SEVERITIES
        .iter()
        .any(|severity| word.eq_ignore_ascii_case(severity))
}

fn check(directive: &str) -> Result<(), FilterError> {
    let wrong = |problem: String| FilterError::Directive {
        directive: directive.to_owned(),
        problem,
    };
    if is_severity(directive) {
        return Ok(());
    }
    let Some((part, severity)) = directive.rsplit_once('=') else {
        return Err(FilterError::Severity(directive.to_owned()));
    };
    if !is_severity(severity) {
        return Err(wrong(format!("`{severity}` is no severity")));
    }
    if part.is_empty() {
        return Err(wrong("the part of the program is missing before `=`".to_owned()));
    }
    directive
        .parse::<tracing_subscriber::filter::Directive>()
        .map(drop)
        .map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_severities_for_all_or_for_parts() {
        for text in [
            "info",
            "DEBUG",
            "warn,longhaul_gateway=debug",
            "longhaul_agent::https=trace",
            "off",
        ] {
            assert_eq!(
                LogFilter::parse(text)
                    .map(|filter| filter.text().to_owned())
                    .as_deref(),
                Ok(text)
            );
        }
    }

    #[test]
    fn words_that_would_silence_the_program_are_mistakes() {
        for text in [
            "inof",
            "",
            "info,",
            "longhaul_gateway",
            "a=b=c",
            "a=verbose",
            "a=",
            "=info",
            "info,[x=debug",
        ] {
            assert!(LogFilter::parse(text).is_err(), "{text}");
        }
        let error = LogFilter::parse("info,longhaul_gateway=loud").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`longhaul_gateway=loud`: `loud` is no severity"
        );
    }

    #[test]
    fn a_filter_for_one_part_leaves_the_others_at_info() {
        let of = |text: &str| LogFilter::parse(text).unwrap().env_filter().to_string();
        assert!(
            of("longhaul_gateway=debug")
                .split(',')
                .any(|directive| directive == "info")
        );
        assert!(!of("warn,longhaul_gateway=debug").contains("info"));
    }
}
