//! Forms of values, and their parsers.
use std::{
    fmt::{self, Display},
    path::PathBuf,
    time::Duration,
};

use longhaul_types::ByteCount;

use crate::{
    Value, Wrong,
    units::{self, bound_of_duration, bound_of_size},
};

/// The form of a setting's values, with their unit and bounds. It displays as the object of "write".
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A whole number from 1 to this one.
    Count(usize),
    /// A time with its unit.
    Duration {
        /// The shortest.
        least: Duration,
        /// The longest.
        most: Duration,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A size with its unit.
    Size {
        /// The smallest, except zero.
        least: ByteCount,
        /// The largest, if there is one.
        most: Option<ByteCount>,
        /// Effect of zero; `None` if zero is rejected.
        zero: Option<&'static str>,
    },
    /// Another form, in these words.
    Text(&'static str),
    /// Yes or no.
    YesNo,
}

impl Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(most) => write!(f, "a whole number from 1 to {most}"),
            Self::Duration { least, most } => {
                let (least, most) = (bound_of_duration(*least), bound_of_duration(*most));
                write!(f, "a time with its unit, from `{least}` to `{most}`")
            }
            Self::OneOf(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                match words.split_last() {
                    Some((last, [])) => f.write_str(last),
                    Some((last, others)) => write!(f, "{} or {last}", others.join(", ")),
                    None => Ok(()),
                }
            }
            Self::Size { least, most, zero } => {
                let least = bound_of_size(*least);
                match most {
                    Some(most) => write!(
                        f,
                        "a size with its unit, from `{least}` to `{}`",
                        bound_of_size(*most)
                    )?,
                    None => write!(f, "a size with its unit, `{least}` or more")?,
                }
                zero.map_or(Ok(()), |effect| write!(f, "; or `0` for {effect}"))
            }
            Self::Text(text) => f.write_str(text),
            Self::YesNo => f.write_str("`yes` or `no`"),
        }
    }
}

/// Parsers for settings of these forms.
impl Form {
    /// A text that is not empty, without space around it.
    ///
    /// # Errors
    /// The value is not a text, or it is empty.
    pub fn text(&self, value: &Value) -> Result<String, Wrong> {
        value.text().map(str::to_owned)
    }

    /// A path.
    ///
    /// # Errors
    /// The value is not a text, or it is empty.
    pub fn path(&self, value: &Value) -> Result<PathBuf, Wrong> {
        value.text().map(PathBuf::from)
    }

    /// Yes or no.
    ///
    /// # Errors
    /// The value is neither.
    pub fn yes_no(&self, value: &Value) -> Result<bool, Wrong> {
        if let Value::Boolean(yes) = value {
            return Ok(*yes);
        }
        match value.text()? {
            "yes" | "true" | "on" => Ok(true),
            "no" | "false" | "off" => Ok(false),
            other => Err(Wrong::new(format!("`{other}` is neither yes nor no"))),
        }
    }

    /// A whole number within the form's bounds.
    ///
    /// # Errors
    /// The value is something else.
    pub fn count(&self, value: &Value) -> Result<usize, Wrong> {
        let number = match value {
            Value::Integer(number) => usize::try_from(*number).ok(),
            Value::Text(text) => text.trim().parse().ok(),
            Value::Boolean(_) | Value::List(_) | Value::Table(_) | Value::Other(_) => None,
        };
        let most = if let Self::Count(most) = self { *most } else { 0 };
        number
            .filter(|number| (1..=most).contains(number))
            .ok_or_else(|| Wrong::explained(format!("{self} is needed")))
    }

    /// A duration within the form's bounds.
    ///
    /// # Errors
    /// The value is something else.
    pub fn duration(&self, value: &Value) -> Result<Duration, Wrong> {
        let Value::Text(text) = value else {
            return Err(Wrong::explained(format!(
                "a duration is a text with its unit, such as \"30s\": {self}"
            )));
        };
        let duration = units::parse_duration(text).map_err(Wrong::new)?;
        if let Self::Duration { least, most } = self
            && !(*least..=*most).contains(&duration)
        {
            return Err(Wrong::new(format!("`{text}` is too short or too long")));
        }
        Ok(duration)
    }

    /// A size within the form's bounds.
    ///
    /// # Errors
    /// The value is something else.
    pub fn size(&self, value: &Value) -> Result<ByteCount, Wrong> {
        let Self::Size { least, most, zero } = self else {
            return Err(Wrong::new("this setting has no size"));
        };
        let size = match value {
            Value::Integer(0) => ByteCount::ZERO,
            Value::Text(text) => units::parse_size(text.trim()).map_err(Wrong::new)?,
            Value::Integer(_) | Value::Boolean(_) | Value::List(_) | Value::Table(_) | Value::Other(_) => {
                return Err(Wrong::explained(format!(
                    "a size is a text with its unit, such as \"2 GiB\": {self}"
                )));
            }
        };
        if (size == ByteCount::ZERO && zero.is_some())
            || (size >= *least && most.is_none_or(|most| size <= most))
        {
            return Ok(size);
        }
        Err(Wrong::new(format!(
            "`{}` is too small or too large",
            bound_of_size(size)
        )))
    }

    /// The position of the value among the form's words.
    ///
    /// # Errors
    /// The value is none of them.
    pub fn word(&self, value: &Value) -> Result<usize, Wrong> {
        let text = value.text()?;
        let words = if let Self::OneOf(words) = self {
            *words
        } else {
            &[]
        };
        words
            .iter()
            .position(|word| *word == text)
            .ok_or_else(|| Wrong::new(format!("`{text}` is none of the words of this setting")))
    }
}
