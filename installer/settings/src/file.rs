//! Configuration files.
use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    path::Path,
};

use toml::de::{DeTable, DeValue};

use crate::{Mistake, Program, Source, Value, nearest_key::nearest};

/// Errors of syntax that are reported of one file: after a bracket that is not closed, each line has one.
const MAX_SYNTAX_ERRORS: usize = 10;

/// The values of a file by the settings' keys.
#[derive(Debug, Default)]
pub(crate) struct SettingsFile {
    pub(crate) values: Vec<(&'static str, Value, Source)>,
    pub(crate) mistakes: Vec<Mistake>,
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read(program: &Program, path: &Path) -> Option<SettingsFile> {
    match std::fs::read_to_string(path) {
        Ok(text) => Some(parse(program, path, &text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
        Err(error) => Some(SettingsFile {
            values: Vec::new(),
            mistakes: vec![unreadable(path, &error)],
        }),
    }
}

/// The mistake that a file cannot be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Mistake {
    let advice = [
        (ErrorKind::NotFound, "; check --config and LONGHAUL_CONFIG"),
        (
            ErrorKind::PermissionDenied,
            "; change its owner or mode, run as another user, or name another file with --config",
        ),
        (ErrorKind::IsADirectory, "; name a file"),
        (ErrorKind::InvalidData, "; it must be UTF-8 text"),
    ];
    let advice = advice.into_iter().find(|(kind, _)| *kind == error.kind());
    let advice = advice.map_or("", |(_, text)| text);
    Mistake::File {
        path: path.to_owned(),
        problem: format!("{error}{advice}"),
    }
}

/// Parses the text of a file. If it is not TOML, all errors of syntax are reported and no value is used.
pub(crate) fn parse(program: &Program, path: &Path, text: &str) -> SettingsFile {
    let at = |offset: usize| {
        let before = text.get(..offset).unwrap_or(text);
        Source::File {
            path: path.to_owned(),
            line: 1 + before.matches('\n').count(),
        }
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let mut mistakes: Vec<_> = errors
            .iter()
            .map(|error| (at(error.span().map_or(0, |span| span.start)), error))
            .collect();
        mistakes.sort_by_key(|(at, error)| (at.line(), error.span().map(|span| span.start)));
        // Further errors on a line mostly follow from the first.
        mistakes.dedup_by_key(|(at, _)| at.line());
        mistakes.truncate(MAX_SYNTAX_ERRORS);
        let mistake = |(at, error): (Source, &toml::de::Error)| Mistake::Syntax {
            at,
            problem: error.to_string().trim_end().to_owned(),
        };
        return SettingsFile {
            values: Vec::new(),
            mistakes: mistakes.into_iter().map(mistake).collect(),
        };
    }
    let mut file = SettingsFile::default();
    let mut unknown = BTreeMap::new();
    for (offset, key, value) in keys(program, table.get_ref()) {
        match program.setting(&key) {
            Some(setting) => file.values.push((setting.key(), value, at(offset))),
            None => {
                unknown.insert(offset, key);
            }
        }
    }
    file.mistakes = unknown
        .into_iter()
        .map(|(offset, key)| Mistake::UnknownKey {
            at: at(offset),
            hint: hint(program, &key),
            key,
        })
        .collect();
    file
}

/// Flattens sections to prefixes; a table that is the value of a setting stays a table.
fn keys(program: &Program, table: &DeTable<'_>) -> Vec<(usize, String, Value)> {
    let mut found = Vec::new();
    for (name, value) in table {
        let prefix = format!("{}.", name.get_ref());
        let is_section = program.keys().any(|key| key.starts_with(&prefix));
        let is_setting = program.setting(name.get_ref()).is_some();
        match value.get_ref() {
            // The keys of an unknown section are reported one by one, because each may have a suggestion.
            DeValue::Table(section) if is_section || (!is_setting && !section.is_empty()) => {
                found.extend(section.iter().map(|(key, value)| {
                    let value = Value::of_toml(value.get_ref());
                    (key.span().start, format!("{prefix}{}", key.get_ref()), value)
                }));
            }
            DeValue::Array(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Float(_)
            | DeValue::Integer(_)
            | DeValue::String(_)
            | DeValue::Table(_) => {
                let value = Value::of_toml(value.get_ref());
                found.push((name.span().start, name.get_ref().to_string(), value));
            }
        }
    }
    found
}

fn hint(program: &Program, unknown: &str) -> String {
    match nearest(unknown, program.keys()) {
        Some(known) => format!(" (did you mean `{known}`?)"),
        None => format!("; `{} check-config` lists all keys", program.name),
    }
}
