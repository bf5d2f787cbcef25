//! The configuration file before its values are parsed.
use std::{collections::BTreeMap, io, path::Path};

use toml::{Table, Value};

use super::{ConfigError, keys};

/// An unparsed value of any source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// A string. Lists and tables in the environment are strings, too.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A list.
    List(Vec<Self>),
    /// A table of strings.
    Table(BTreeMap<String, Self>),
    /// A value of a type that no setting has; the name of the type.
    Other(&'static str),
}

/// The values of a configuration file by `section.key`. Unknown keys are rejected, all at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFile {
    values: BTreeMap<String, Raw>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is not valid TOML, or contains unknown keys.
    pub fn read(path: &Path) -> Result<Self, Vec<ConfigError>> {
        let file_error = |problem: String| {
            vec![ConfigError::File {
                path: path.to_owned(),
                problem,
            }]
        };
        let text = std::fs::read_to_string(path).map_err(|error| {
            let advice = if error.kind() == io::ErrorKind::NotFound {
                "; check --config and LONGHAUL_CONFIG"
            } else if error.kind() == io::ErrorKind::PermissionDenied {
                "; change its owner or mode, or run as another user"
            } else {
                ""
            };
            file_error(format!("cannot be read: {error}{advice}"))
        })?;
        Self::parse(path, &text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The text is not valid TOML, or contains unknown keys.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Vec<ConfigError>> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            vec![ConfigError::File {
                path: path.to_owned(),
                problem: error.to_string().trim_end().to_owned(),
            }]
        })?;
        let mut values = BTreeMap::new();
        flatten("", table, &mut values);
        let unknown: Vec<_> = values
            .keys()
            .filter(|key| !keys::ALL.iter().any(|known| known.path == key.as_str()))
            .map(|key| ConfigError::UnknownKey {
                path: path.to_owned(),
                key: key.clone(),
                hint: hint(key),
            })
            .collect();
        if unknown.is_empty() {
            Ok(Self { values })
        } else {
            Err(unknown)
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<&Raw> {
        self.values.get(path)
    }
}

/// Flattens sections to prefixes; a table that is the value of a setting stays a table.
fn flatten(prefix: &str, table: Table, values: &mut BTreeMap<String, Raw>) {
    for (key, value) in table {
        let path = if prefix.is_empty() {
            key
        } else {
            format!("{prefix}.{key}")
        };
        let is_setting = keys::ALL.iter().any(|known| known.path == path);
        if is_setting || !prefix.is_empty() || !value.is_table() {
            values.insert(path, raw(value));
        } else if let Value::Table(section) = value {
            flatten(&path, section, values);
        }
    }
}

fn raw(value: Value) -> Raw {
    match value {
        Value::String(text) => Raw::Text(text),
        Value::Integer(number) => Raw::Integer(number),
        Value::Array(items) => Raw::List(items.into_iter().map(raw).collect()),
        Value::Table(table) => Raw::Table(table.into_iter().map(|(key, value)| (key, raw(value))).collect()),
        Value::Boolean(_) => Raw::Other("a boolean"),
        Value::Float(_) => Raw::Other("a number with a fraction"),
        Value::Datetime(_) => Raw::Other("a date"),
    }
}

/// Suggests the known key with an equal or similar last part.
fn hint(unknown: &str) -> String {
    let last = |path: &str| path.rsplit('.').next().unwrap_or(path).replace('_', "-");
    let meant = keys::ALL.iter().find(|known| last(known.path) == last(unknown));
    meant.map_or_else(
        || "; `longhaul-gateway check-config` lists all keys".to_owned(),
        |known| format!(" (did you mean `{}`?)", known.path),
    )
}
