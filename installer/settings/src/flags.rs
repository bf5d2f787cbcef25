//! Flags of the command line.
use std::{collections::BTreeMap, marker::PhantomData, path::PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use crate::{Configured, Describe, Flag, FlagScope, Program, Setting, Value};

const CONFIG: &str = "config";

/// The settings that were given as flags, and `--config`.
#[derive(Clone, Debug, Default)]
pub struct Flags<C> {
    /// The configuration file.
    pub config: Option<PathBuf>,
    values: BTreeMap<&'static str, Value>,
    program: PhantomData<C>,
}

impl<C: Configured> Flags<C> {
    /// Gives a flag; a flag that may be repeated is given once more.
    pub fn set<T>(&mut self, setting: &Setting<T>, text: &str) {
        let text = Value::Text(text.to_owned());
        match (setting.flag, self.values.get_mut(setting.key)) {
            (Some(Flag::Many { .. }), Some(Value::List(items))) => items.push(text),
            (Some(Flag::Many { .. }), _) => {
                self.values.insert(setting.key, Value::List(vec![text]));
            }
            (Some(Flag::One { .. } | Flag::Switch { .. }) | None, _) => {
                self.values.insert(setting.key, text);
            }
        }
    }

    /// The same flags and one more.
    #[must_use]
    pub fn with<T>(mut self, setting: &Setting<T>, text: &str) -> Self {
        self.set(setting, text);
        self
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.values.iter().map(|(key, value)| (*key, value))
    }
}

impl<C: Configured> Args for Flags<C> {
    fn augment_args(command: Command) -> Command {
        let program = C::PROGRAM;
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help(config_help(program))
            .global(program.flag_scope == FlagScope::AllCommands);
        let described = program.settings.iter();
        let flags = described.filter_map(|setting| Some(argument(program, *setting, setting.flag()?)));
        command.arg(config).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Configured> FromArgMatches for Flags<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let text = |text: &String| Value::Text(text.clone());
        let given = |setting: &&'static dyn Describe| {
            let key = setting.key();
            let value = match setting.flag()? {
                Flag::One { .. } => text(matches.get_one::<String>(key)?),
                Flag::Many { .. } => Value::List(matches.get_many::<String>(key)?.map(text).collect()),
                Flag::Switch { sets, .. } => matches.get_flag(key).then(|| Value::Text(sets.to_owned()))?,
            };
            Some((key, value))
        };
        Ok(Self {
            config: matches.get_one::<PathBuf>(CONFIG).cloned(),
            values: C::PROGRAM.settings.iter().filter_map(given).collect(),
            program: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn argument(program: &Program, setting: &'static dyn Describe, flag: Flag) -> Arg {
    let argument = Arg::new(setting.key())
        .long(flag.name().trim_start_matches('-'))
        .help(help(setting, flag))
        .global(program.flag_scope == FlagScope::AllCommands);
    match flag {
        Flag::Many { value, .. } => argument.value_name(value).action(ArgAction::Append),
        Flag::One { value, .. } => argument.value_name(value).action(ArgAction::Set),
        Flag::Switch { .. } => argument.action(ArgAction::SetTrue),
    }
}

fn config_help(program: &Program) -> String {
    let files: Vec<_> = [Some(program.system_file.to_owned())]
        .into_iter()
        .chain([program.user_file.map(|file| format!("~/.config/{file}"))])
        .flatten()
        .collect();
    format!(
        "Configuration file (TOML). Variable LONGHAUL_CONFIG. [default: {}, if there]",
        files.join(" and ")
    )
}

/// The description of a flag, made from the description of its setting.
fn help(setting: &dyn Describe, flag: Flag) -> String {
    let variable = setting.variable();
    if let Flag::Switch { sets, meaning, .. } = flag {
        return format!("{meaning}. Variable {variable}={sets}");
    }
    let again = if matches!(flag, Flag::Many { .. }) {
        "; may be repeated"
    } else {
        ""
    };
    let default = setting.documented_default();
    // The marks of Markdown around a value are for the documentation.
    let default = match default.trim_matches('`') {
        value if value.contains('`') => default.as_str(),
        value => value,
    };
    let text = format!(
        "{}. Value: {}{again}. Variable {variable}. [default: {default}]",
        setting.meaning(),
        setting.form()
    );
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
