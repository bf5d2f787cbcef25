//! Layers of values, and their resolution.
use std::{collections::BTreeMap, path::PathBuf};

use crate::{
    Configured, Describe, Environment, FileState, Flags, FoundVariable, Mistake, Mistakes, Program, Report,
    Resolved, Setting, Source, Sources, Value, Wrong,
    file::{self, SettingsFile},
    nearest_key::nearest,
};

const CONFIG_VARIABLE: &str = "LONGHAUL_CONFIG";

/// Use of the program's default files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultFiles {
    /// They are not read: for tests, which other files on the machine must not affect.
    Ignored,
    /// They are read if they exist, unless another file is named.
    Read,
}

/// The values of all layers, and the settings that were resolved from them.
pub struct Layers<'a> {
    program: &'static Program,
    environment: &'a Environment,
    /// The values of a setting, in the order of the layers: the last one takes effect.
    values: BTreeMap<&'static str, Vec<(Value, Source)>>,
    sources: Sources,
    resolved: Vec<Resolved>,
    mistakes: Vec<Mistake>,
    overridden: Vec<Mistake>,
}

impl<'a> Layers<'a> {
    /// Reads the files, the environment and the flags. Mistakes of files are kept for [`Layers::finish`].
    pub fn read<C: Configured>(
        flags: &Flags<C>,
        environment: &'a Environment,
        default_files: DefaultFiles,
    ) -> Self {
        let program = C::PROGRAM;
        let mut layers = Self {
            program,
            environment,
            values: BTreeMap::new(),
            sources: Sources::default(),
            resolved: Vec::new(),
            mistakes: Vec::new(),
            overridden: Vec::new(),
        };
        let named = flags.config.clone().or_else(|| {
            let variable = program.variable(environment, CONFIG_VARIABLE)?;
            Some(PathBuf::from(variable))
        });
        match (named, default_files) {
            (Some(path), _) => layers.read_named_file(path),
            (None, DefaultFiles::Read) => layers.read_default_files(),
            (None, DefaultFiles::Ignored) => {}
        }
        layers.read_environment();
        for (key, value) in flags.values() {
            let name = program.setting(key).and_then(Describe::flag);
            let source = name.map_or(Source::Default, |flag| Source::Flag(flag.name()));
            layers.add(key, value.clone(), source);
        }
        layers
    }

    fn read_named_file(&mut self, path: PathBuf) {
        match std::fs::read_to_string(&path) {
            Ok(text) => self.add_file(path.clone(), file::parse(self.program, &path, &text)),
            Err(error) => {
                self.mistakes.push(file::unreadable(&path, &error));
                self.sources.files.push((path, FileState::Unusable));
            }
        }
    }

    fn read_default_files(&mut self) {
        for path in self.program.default_files(self.environment) {
            match file::read(self.program, &path) {
                Some(file) => self.add_file(path, file),
                None => self.sources.files.push((path, FileState::Absent)),
            }
        }
    }

    fn add_file(&mut self, path: PathBuf, file: SettingsFile) {
        let state = if file.values.is_empty() && !file.mistakes.is_empty() {
            FileState::Unusable
        } else {
            FileState::Read(file.values.len())
        };
        self.sources.files.push((path, state));
        self.mistakes.extend(file.mistakes);
        for (key, value, source) in file.values {
            self.add(key, value, source);
        }
    }

    fn read_environment(&mut self) {
        let program = self.program;
        for name in self
            .environment
            .names()
            .filter(|name| name.starts_with("LONGHAUL_"))
        {
            let Some(text) = program.variable(self.environment, name) else {
                continue;
            };
            let setting = program.accepted().find(|setting| setting.variable() == name);
            let found = match setting {
                Some(setting) => {
                    let value = (Value::Text(text.to_owned()), Source::Variable(name.to_owned()));
                    self.values.entry(setting.key()).or_default().push(value);
                    FoundVariable::Read
                }
                None if name == CONFIG_VARIABLE || program.other_variables.contains(&name) => {
                    FoundVariable::Read
                }
                None => {
                    let known: Vec<_> = program.settings.iter().map(|known| known.variable()).collect();
                    let meant = nearest(name, known.iter().map(String::as_str));
                    FoundVariable::Unknown(meant.map(str::to_owned))
                }
            };
            self.sources.variables.push((name.to_owned(), found));
        }
    }

    fn add(&mut self, key: &'static str, value: Value, source: Source) {
        self.values.entry(key).or_default().push((value, source));
    }

    /// The environment.
    pub const fn environment(&self) -> &'a Environment {
        self.environment
    }

    /// Resolves a setting: the value of the last layer that has one, else the default. If the setting does
    /// not accept the value, the mistake is kept for [`Layers::finish`], and the default is returned so that
    /// the other settings can be checked.
    pub fn get<T>(&mut self, setting: &Setting<T>) -> T {
        let environment = self.environment;
        self.get_or(setting, || (setting.default)(environment))
    }

    /// Resolves a hidden setting, which the report names only if it is given.
    pub fn get_hidden<T>(&mut self, setting: &Setting<T>) -> T {
        if self.is_given(setting) {
            self.get(setting)
        } else {
            (setting.default)(self.environment)
        }
    }

    /// Resolves a setting whose default depends on other settings.
    pub fn get_or<T>(&mut self, setting: &Setting<T>, default: impl FnOnce() -> T) -> T {
        let mut layers = self.values.get(setting.key).into_iter().flatten().rev();
        let (value, source) = match layers.next() {
            None => (default(), Source::Default),
            Some((value, source)) => match (setting.parse)(value, &setting.form) {
                Ok(value) => (value, source.clone()),
                Err(wrong) => {
                    self.mistakes.push(mistake(setting, source, &wrong));
                    return default();
                }
            },
        };
        for (value, source) in layers {
            if let Err(wrong) = (setting.parse)(value, &setting.form) {
                self.overridden.push(mistake(setting, source, &wrong));
            }
        }
        self.resolved.push(Resolved {
            key: setting.key_in_section.unwrap_or(setting.key),
            value: (setting.show)(&value),
            source,
        });
        value
    }

    /// True if a file, a variable or a flag sets this setting.
    pub fn is_given<T>(&self, setting: &Setting<T>) -> bool {
        self.values.contains_key(setting.key)
    }

    /// True if a mistake of this setting was found.
    pub fn is_wrong<T>(&self, setting: &Setting<T>) -> bool {
        self.mistakes
            .iter()
            .any(|mistake| mistake.key() == Some(setting.key))
    }

    /// Adds a mistake of a setting that no parser can find, such as a conflict with another setting.
    pub fn reject<T>(&mut self, setting: &Setting<T>, wrong: &Wrong) {
        let values = self.values.get(setting.key).into_iter().flatten();
        let source = values.map(|(_, source)| source).next_back();
        let source = source.cloned().unwrap_or(Source::Default);
        self.mistakes.push(mistake(setting, &source, wrong));
    }

    /// The mistakes so far.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    /// Ends the resolution with those mistakes that `concerns` selects.
    pub fn into_mistakes(self, concerns: impl Fn(&Mistake) -> bool) -> Mistakes {
        Mistakes {
            list: self.mistakes.into_iter().filter(concerns).collect(),
            sources: self.sources,
        }
    }

    /// Ends the resolution.
    ///
    /// # Errors
    /// All mistakes.
    pub fn finish(self) -> Result<Report, Mistakes> {
        if self.mistakes.is_empty() {
            Ok(Report {
                settings: self.resolved,
                sources: self.sources,
                overridden: self.overridden,
            })
        } else {
            Err(self.into_mistakes(|_| true))
        }
    }
}

fn mistake<T>(setting: &Setting<T>, source: &Source, wrong: &Wrong) -> Mistake {
    Mistake::Value {
        key: setting.key,
        from: source.clone(),
        problem: wrong.text(&setting.form),
    }
}
