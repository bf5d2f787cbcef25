//! The environment of a process.
use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Variables that are valid Unicode. A setting cannot have another value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// An environment without variables.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The variables of this process.
    pub fn of_process() -> Self {
        let text =
            |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        std::env::vars_os().filter_map(text).collect()
    }

    /// A variable that is set, even if it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A variable that is set and not empty.
    pub fn get_filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// The directory for a purpose (XDG Base Directory Specification): the variable, or the directory below
    /// the home directory. `None` if there is no home directory.
    pub fn user_directory(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        // The specification requires that relative paths are ignored.
        let set = self
            .get_filled(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        set.or_else(|| Some(Path::new(self.get_filled("HOME")?).join(below_home)))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect()
    }
}
