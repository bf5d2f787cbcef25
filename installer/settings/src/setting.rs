//! Descriptions of settings.
use std::{path::PathBuf, time::Duration};

use longhaul_types::ByteCount;

use crate::{
    Environment, Form, Value, Wrong, quoted,
    units::{show_duration, show_size},
};

/// The only description of a setting. The parser, `--help` and docs/CONFIGURATION.md use it.
pub struct Setting<T> {
    pub(crate) key: &'static str,
    pub(crate) key_in_section: Option<&'static str>,
    pub(crate) flag: Option<Flag>,
    pub(crate) form: Form,
    pub(crate) default: fn(&Environment) -> T,
    pub(crate) default_text: Option<&'static str>,
    pub(crate) meaning: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) takes_effect: TakesEffect,
    pub(crate) parse: fn(&Value, &Form) -> Result<T, Wrong>,
    pub(crate) show: fn(&T) -> Option<String>,
}

impl<T> Setting<T> {
    /// A setting. `key` is its key in the file, `name` or `section.name`. `show` formats a value as TOML; it
    /// returns `None` if there is no value or if the value is secret.
    pub const fn new(
        key: &'static str,
        form: Form,
        default: fn(&Environment) -> T,
        parse: fn(&Value, &Form) -> Result<T, Wrong>,
        show: fn(&T) -> Option<String>,
    ) -> Self {
        Self {
            key,
            key_in_section: None,
            flag: None,
            form,
            default,
            default_text: None,
            meaning: "",
            reason: "",
            takes_effect: TakesEffect::AtNextStart,
            parse,
            show,
        }
    }

    /// With a second key in the file, for a setting that has the name of a section.
    #[must_use]
    pub const fn or_key(mut self, key: &'static str) -> Self {
        self.key_in_section = Some(key);
        self
    }

    /// With a flag that has one value.
    #[must_use]
    pub const fn flag(mut self, name: &'static str, value: &'static str) -> Self {
        self.flag = Some(Flag::One { name, value });
        self
    }

    /// With a flag that may be repeated; each value is an element of a list.
    #[must_use]
    pub const fn repeated_flag(mut self, name: &'static str, value: &'static str) -> Self {
        self.flag = Some(Flag::Many { name, value });
        self
    }

    /// With a flag that has no value and sets this value; `meaning` is its effect, for `--help`.
    #[must_use]
    pub const fn switch(mut self, name: &'static str, sets: &'static str, meaning: &'static str) -> Self {
        self.flag = Some(Flag::Switch { name, sets, meaning });
        self
    }

    /// With a default in words, where it depends on the machine or is no value.
    #[must_use]
    pub const fn default_text(mut self, text: &'static str) -> Self {
        self.default_text = Some(text);
        self
    }

    /// A change takes effect when the running program reads its configuration again. Without this call, a
    /// change takes effect at the next start.
    #[must_use]
    pub const fn reloadable(mut self) -> Self {
        self.takes_effect = TakesEffect::AtOnce;
        self
    }

    /// With its effect, for `--help` and for the documentation.
    #[must_use]
    pub const fn meaning(mut self, text: &'static str) -> Self {
        self.meaning = text;
        self
    }

    /// With details and the reason for the default, for the documentation.
    #[must_use]
    pub const fn reason(mut self, text: &'static str) -> Self {
        self.reason = text;
        self
    }
}

impl Setting<Duration> {
    /// A duration within bounds.
    pub const fn duration(
        key: &'static str,
        least: Duration,
        most: Duration,
        default: fn(&Environment) -> Duration,
    ) -> Self {
        let show = |time: &Duration| Some(quoted(&show_duration(*time)));
        let form = Form::Duration { least, most };
        Self::new(key, form, default, |value, form| form.duration(value), show)
    }
}

impl Setting<usize> {
    /// A whole number from 1 to `most`.
    pub const fn count(key: &'static str, most: usize, default: fn(&Environment) -> usize) -> Self {
        let show = |count: &usize| Some(count.to_string());
        Self::new(
            key,
            Form::Count(most),
            default,
            |value, form| form.count(value),
            show,
        )
    }
}

impl Setting<ByteCount> {
    /// A size; `form` has its bounds.
    pub const fn size(key: &'static str, form: Form, default: fn(&Environment) -> ByteCount) -> Self {
        let show = |size: &ByteCount| Some(quoted(&show_size(*size)));
        Self::new(key, form, default, |value, form| form.size(value), show)
    }
}

impl Setting<PathBuf> {
    /// A path; `what` names the file or directory for error texts.
    pub const fn path(key: &'static str, what: &'static str, default: fn(&Environment) -> PathBuf) -> Self {
        let show = |path: &PathBuf| Some(quoted(&path.display().to_string()));
        Self::new(
            key,
            Form::Text(what),
            default,
            |value, form| form.path(value),
            show,
        )
    }
}

impl Setting<bool> {
    /// Yes or no.
    pub const fn yes_no(key: &'static str, default: fn(&Environment) -> bool) -> Self {
        let show = |yes: &bool| Some(quoted(if *yes { "yes" } else { "no" }));
        Self::new(key, Form::YesNo, default, |value, form| form.yes_no(value), show)
    }
}

/// When a changed value takes effect in a running program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesEffect {
    /// When the program reads its configuration again (SIGHUP), for new work.
    AtOnce,
    /// At the next start of the program.
    AtNextStart,
}

/// The flag of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// A flag that may be repeated; each value is an element of a list.
    Many {
        /// Name with hyphens.
        name: &'static str,
        /// Name of the value.
        value: &'static str,
    },
    /// A flag with one value.
    One {
        /// Name with hyphens.
        name: &'static str,
        /// Name of the value.
        value: &'static str,
    },
    /// A flag without value.
    Switch {
        /// Name with hyphens.
        name: &'static str,
        /// The value that the flag sets.
        sets: &'static str,
        /// Effect of the flag, for `--help`.
        meaning: &'static str,
    },
}

impl Flag {
    /// Name with hyphens.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Many { name, .. } | Self::One { name, .. } | Self::Switch { name, .. } => name,
        }
    }
}

/// A setting of any type.
pub trait Describe: Sync {
    /// Key in the file.
    fn key(&self) -> &'static str;
    /// Second key in the file.
    fn key_in_section(&self) -> Option<&'static str>;
    /// The flag, if there is one.
    fn flag(&self) -> Option<Flag>;
    /// Form of the values.
    fn form(&self) -> &Form;
    /// Effect of the setting.
    fn meaning(&self) -> &'static str;
    /// Details, and the reason for the default.
    fn reason(&self) -> &'static str;
    /// When a change takes effect in a running program.
    fn takes_effect(&self) -> TakesEffect;
    /// The default as documented, in Markdown.
    fn documented_default(&self) -> String;
    /// The default as TOML; `None` if the default is no value.
    fn default_value(&self, environment: &Environment) -> Option<String>;
    /// Parses a value and formats it as TOML.
    ///
    /// # Errors
    /// The setting does not accept the value.
    fn check(&self, value: &Value) -> Result<Option<String>, Wrong>;

    /// Variable of the environment.
    fn variable(&self) -> String {
        let name = self.key().replace(['.', '-'], "_").to_ascii_uppercase();
        format!("LONGHAUL_{name}")
    }
}

impl<T> Describe for Setting<T> {
    fn key(&self) -> &'static str {
        self.key
    }

    fn key_in_section(&self) -> Option<&'static str> {
        self.key_in_section
    }

    fn flag(&self) -> Option<Flag> {
        self.flag
    }

    fn form(&self) -> &Form {
        &self.form
    }

    fn meaning(&self) -> &'static str {
        self.meaning
    }

    fn reason(&self) -> &'static str {
        self.reason
    }

    fn takes_effect(&self) -> TakesEffect {
        self.takes_effect
    }

    fn documented_default(&self) -> String {
        if let Some(text) = self.default_text {
            return text.to_owned();
        }
        let shown = self.default_value(&Environment::new());
        shown.map_or_else(
            || "none".to_owned(),
            |text| format!("`{}`", text.trim_matches('"')),
        )
    }

    fn default_value(&self, environment: &Environment) -> Option<String> {
        (self.show)(&(self.default)(environment))
    }

    fn check(&self, value: &Value) -> Result<Option<String>, Wrong> {
        let parsed = (self.parse)(value, &self.form)?;
        Ok((self.show)(&parsed))
    }
}
