//! Values before a setting parses them.
use std::{collections::BTreeMap, fmt::Display};

use toml::de::DeValue;

use crate::Wrong;

/// An unparsed value of any source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A list.
    List(Vec<Self>),
    /// A value of a type that no setting has; the name of the type.
    Other(&'static str),
    /// A table.
    Table(BTreeMap<String, Self>),
    /// A text. Values of the environment are always texts.
    Text(String),
}

impl Value {
    pub(crate) fn of_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Self::Other("a number that is too large"), Self::Integer),
            DeValue::Boolean(yes) => Self::Boolean(*yes),
            DeValue::Float(_) => Self::Other("a number with a fraction"),
            DeValue::Datetime(_) => Self::Other("a date"),
            DeValue::Array(items) => {
                Self::List(items.iter().map(|item| Self::of_toml(item.get_ref())).collect())
            }
            DeValue::Table(table) => Self::Table(
                table
                    .iter()
                    .map(|(key, value)| (key.get_ref().to_string(), Self::of_toml(value.get_ref())))
                    .collect(),
            ),
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Boolean(_) => "true or false",
            Self::Integer(_) => "a number",
            Self::List(_) => "a list",
            Self::Other(name) => name,
            Self::Table(_) => "a table",
            Self::Text(_) => "a text",
        }
    }

    /// A text that is not empty, without space around it.
    ///
    /// # Errors
    /// The value is something else.
    pub fn text(&self) -> Result<&str, Wrong> {
        match self {
            Self::Text(text) if text.trim().is_empty() => Err(Wrong::new("it is empty")),
            Self::Text(text) => Ok(text.trim()),
            other => Err(Wrong::new(format!(
                "a text is needed, not {}: put it in quotes",
                other.type_name()
            ))),
        }
    }

    /// A text with a number and its unit, without space around it.
    ///
    /// # Errors
    /// The value is something else.
    pub fn text_with_unit(&self) -> Result<&str, Wrong> {
        match self {
            Self::Integer(number) => Err(Wrong::new(format!(
                "`{number}` needs a unit, as a text in quotes"
            ))),
            other => other.text(),
        }
    }

    /// Texts: a list, or one text with commas.
    ///
    /// # Errors
    /// The value is something else.
    pub fn texts(&self) -> Result<Vec<String>, Wrong> {
        let items = match self {
            Self::List(items) => items.as_slice(),
            Self::Text(_) => std::slice::from_ref(self),
            other => {
                return Err(Wrong::new(format!(
                    "a list of texts is needed, not {}",
                    other.type_name()
                )));
            }
        };
        let mut found = Vec::new();
        for item in items {
            let Self::Text(text) = item else {
                return Err(Wrong::new(format!(
                    "a list may hold only texts, not {}",
                    item.type_name()
                )));
            };
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            found.extend(parts.map(str::to_owned));
        }
        Ok(found)
    }

    /// Texts, of which some may be written as whole numbers.
    ///
    /// # Errors
    /// The value is something else.
    pub fn texts_and_numbers(&self) -> Result<Vec<String>, Wrong> {
        let text = |value: &Self| match value {
            Self::Integer(number) => Self::Text(number.to_string()),
            other => other.clone(),
        };
        match self {
            Self::List(items) => Self::List(items.iter().map(text).collect()).texts(),
            other => text(other).texts(),
        }
    }

    /// Pairs of texts: a table, or texts with `=`.
    ///
    /// # Errors
    /// The value is something else.
    pub fn pairs(&self) -> Result<BTreeMap<String, String>, Wrong> {
        if let Self::Table(table) = self {
            let pair = |(name, value): (&String, &Self)| match value {
                Self::Text(text) => Ok((name.clone(), text.clone())),
                other => Err(Wrong::new(format!(
                    "`{name}`: a text is needed, not {}",
                    other.type_name()
                ))),
            };
            return table.iter().map(pair).collect();
        }
        let pair = |text: String| match text.split_once('=') {
            Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
            None => Err(Wrong::new(format!("`{text}` is not NAME=ADDR"))),
        };
        self.texts()?.into_iter().map(pair).collect()
    }
}

/// Formats a text as TOML.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Formats a list of texts as TOML.
pub fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| quoted(&item.to_string())).collect();
    format!("[{}]", items.join(", "))
}
