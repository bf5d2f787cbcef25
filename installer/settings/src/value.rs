//! Values before a setting parses them.
use std::{collections::BTreeMap, fmt::Display};

use toml::de::DeValue;

use crate::Wrong;

/// An unparsed value of any source.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        let Self::Text(text) = self else {
            let found = self.type_name();
            let problem = format!("a text is needed, not {found}: put it in quotes");
            return Err(Wrong::new(problem));
        };
        match text.trim() {
            "" => Err(Wrong::new("it is empty")),
            text => Ok(text),
        }
    }

    /// A text with a number and its unit, without space around it.
    ///
    /// # Errors
    /// The value is something else.
    pub fn text_with_unit(&self) -> Result<&str, Wrong> {
        if let Self::Integer(number) = self {
            let problem = format!("`{number}` needs a unit, as a text in quotes");
            return Err(Wrong::new(problem));
        }
        self.text()
    }

    /// Texts: a list, or one text with commas.
    ///
    /// # Errors
    /// The value is something else.
    pub fn texts(&self) -> Result<Vec<String>, Wrong> {
        let items = if let Self::List(items) = self {
            items.as_slice()
        } else {
            std::slice::from_ref(self)
        };
        let mut found = Vec::new();
        for item in items {
            let Self::Text(text) = item else {
                let problem = format!("texts are needed, not {}", item.type_name());
                return Err(Wrong::new(problem));
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
        self.with_numbers_as_texts().texts()
    }

    fn with_numbers_as_texts(&self) -> Self {
        match self {
            Self::Integer(number) => Self::Text(number.to_string()),
            Self::List(items) => Self::List(items.iter().map(Self::with_numbers_as_texts).collect()),
            Self::Boolean(_) | Self::Other(_) | Self::Table(_) | Self::Text(_) => self.clone(),
        }
    }

    /// Pairs of texts: a table, or texts with `=`.
    ///
    /// # Errors
    /// The value is something else.
    pub fn pairs(&self) -> Result<BTreeMap<String, String>, Wrong> {
        if let Self::Table(table) = self {
            let pair = |(name, value): (&String, &Self)| {
                let Self::Text(text) = value else {
                    let problem = format!("`{name}`: a text is needed, not {}", value.type_name());
                    return Err(Wrong::new(problem));
                };
                Ok((name.clone(), text.clone()))
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
