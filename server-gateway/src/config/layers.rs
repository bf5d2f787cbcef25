//! Resolution of single settings: selects the layer, parses the value, collects the errors.
use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    path::PathBuf,
    time::Duration,
};

use longhaul_types::parse_duration;

use super::{ConfigError, ConfigFile, Keys, Raw, ResolvedSetting};

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The built-in default.
    Default,
    /// A variable of the environment.
    Environment(&'static str),
    /// The configuration file.
    File(PathBuf),
    /// A flag of the command line.
    Flag(&'static str),
}

impl Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::File(path) => path.display().fmt(f),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// The values of all layers.
pub(super) struct Layers<'a> {
    pub(super) file: Option<(PathBuf, ConfigFile)>,
    pub(super) environment: &'a BTreeMap<String, String>,
    pub(super) flags: Vec<(&'static Keys, Raw)>,
    pub(super) settings: Vec<ResolvedSetting>,
    pub(super) errors: Vec<ConfigError>,
}

impl Layers<'_> {
    fn find(&self, keys: &'static Keys) -> Option<(Raw, Source)> {
        if let Some((_, raw)) = self.flags.iter().find(|(flag, _)| flag.path == keys.path) {
            return Some((raw.clone(), Source::Flag(keys.flag)));
        }
        if let Some(text) = self.environment.get(keys.env) {
            return Some((Raw::Text(text.clone()), Source::Environment(keys.env)));
        }
        let (path, file) = self.file.as_ref()?;
        Some((file.get(keys.path)?.clone(), Source::File(path.clone())))
    }

    /// Returns the effective value of a setting, parsed by `parse`, or `default`. `show` formats it as TOML.
    pub(super) fn take<T>(
        &mut self,
        keys: &'static Keys,
        default: impl FnOnce() -> T,
        parse: impl FnOnce(&Raw) -> Result<T, String>,
        show: impl FnOnce(&T) -> String,
    ) -> T {
        let (value, source) = match self.find(keys) {
            None => (default(), Source::Default),
            Some((raw, source)) => match parse(&raw) {
                Ok(value) => (value, source),
                Err(problem) => {
                    self.errors.push(ConfigError::Value {
                        key: keys.path,
                        from: source.clone(),
                        problem,
                    });
                    (default(), source)
                }
            },
        };
        self.settings.push(ResolvedSetting {
            key: keys.path,
            value: show(&value),
            source,
        });
        value
    }

    /// A duration setting that must be within `range`.
    pub(super) fn duration(
        &mut self,
        keys: &'static Keys,
        default: Duration,
        range: std::ops::RangeInclusive<Duration>,
    ) -> Duration {
        let parse = |raw: &Raw| {
            let Raw::Text(text) = raw else {
                return Err("a duration is a text with its unit, such as \"30s\"".to_owned());
            };
            let value = parse_duration(text).map_err(|error| error.to_string())?;
            if range.contains(&value) {
                Ok(value)
            } else {
                Err(format!(
                    "`{text}` is not between {:?} and {:?}",
                    range.start(),
                    range.end()
                ))
            }
        };
        self.take(
            keys,
            || default,
            parse,
            |value| quoted(&format!("{}s", value.as_secs_f64())),
        )
    }

    /// A count from 1 to `most`.
    pub(super) fn count(&mut self, keys: &'static Keys, default: usize, most: usize) -> usize {
        let parse = |raw: &Raw| {
            let number = match raw {
                Raw::Integer(number) => usize::try_from(*number).ok(),
                Raw::Text(text) => text.trim().parse().ok(),
                Raw::List(_) | Raw::Table(_) | Raw::Other(_) => None,
            };
            number
                .filter(|number| (1..=most).contains(number))
                .ok_or_else(|| format!("a whole number from 1 to {most} is needed"))
        };
        self.take(keys, || default, parse, usize::to_string)
    }
}

/// Formats a string as TOML.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Formats a list of strings as TOML.
pub(super) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| quoted(&item.to_string())).collect();
    format!("[{}]", items.join(", "))
}

/// Parses a non-empty string.
pub(super) fn text(raw: &Raw) -> Result<&str, String> {
    match raw {
        Raw::Text(text) if !text.trim().is_empty() => Ok(text.trim()),
        Raw::Text(_) => Err("it is empty".to_owned()),
        Raw::Integer(_) | Raw::List(_) | Raw::Table(_) | Raw::Other(_) => Err("a text is needed".to_owned()),
    }
}

/// Parses a list of strings, or one string with commas. Integers (ports) count as strings.
pub(super) fn texts(raw: &Raw) -> Result<Vec<String>, String> {
    let items = match raw {
        Raw::List(items) => items.as_slice(),
        Raw::Text(_) | Raw::Integer(_) => std::slice::from_ref(raw),
        Raw::Table(_) => return Err("a list of texts is needed, not a table".to_owned()),
        Raw::Other(found) => return Err(format!("a list of texts is needed, not {found}")),
    };
    let mut found = Vec::new();
    for item in items {
        match item {
            Raw::Text(text) => {
                found.extend(
                    text.split(',')
                        .map(str::trim)
                        .filter(|text| !text.is_empty())
                        .map(str::to_owned),
                );
            }
            Raw::Integer(number) => found.push(number.to_string()),
            Raw::List(_) | Raw::Table(_) | Raw::Other(_) => {
                return Err("a list may hold only texts".to_owned());
            }
        }
    }
    Ok(found)
}
