//! The layers of a program's files: docs/INTERNALS.md lists them, and files import only from rows below their own.
use std::collections::BTreeMap;

use crate::{
    circles::Crate,
    sources::{files, root},
};

/// Sections with a table of layers, and the sources that it describes.
const PROGRAMS: [(&str, &str); 3] = [
    ("Inside the agent", "client-agent/src/"),
    ("Inside the gateway", "server-gateway/src/"),
    ("Inside the core of the gateway", "server-gateway/core/src/"),
];

/// The row of each file or folder of a table, from the top.
fn rows(section: &str) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(root().join("docs/INTERNALS.md")).expect("docs/INTERNALS.md");
    let section = text
        .split("\n## ")
        .find(|part| part.starts_with(section))
        .expect("the section exists");
    let lines = section.lines().skip_while(|line| !line.starts_with("| `"));
    let table = lines.take_while(|line| line.starts_with("| `"));
    let names = table.enumerate().flat_map(|(row, line)| {
        let cell = line.split('|').nth(1).unwrap_or_default();
        let names = cell.split('`').skip(1).step_by(2);
        names.map(move |name| (name.to_owned(), row)).collect::<Vec<_>>()
    });
    names.collect()
}

/// Returns true if a file belongs to an entry of a table.
fn is_of(name: &str, inside: &str) -> bool {
    // A module with children is a folder, a file beside the folder, or both.
    let module = |name: &str| name.trim_end_matches('/').trim_end_matches(".rs").to_owned();
    match name.split_once('*') {
        Some((start, end)) => inside.starts_with(start) && inside.ends_with(end),
        None => module(inside.split('/').next().unwrap_or_default()) == module(name),
    }
}

/// The entry of a table that a file belongs to, and its row.
fn entry<'a>(rows: &'a BTreeMap<String, usize>, inside: &str) -> Option<(&'a str, usize)> {
    let found = rows.iter().find(|(name, _)| is_of(name, inside));
    found.map(|(name, row)| (name.as_str(), *row))
}

#[test]
fn files_import_only_from_rows_below_their_own() {
    let sources = files(".rs");
    let mut mistakes = Vec::new();
    for (section, src) in PROGRAMS {
        let (rows, read) = (rows(section), Crate::read(src, &sources));
        for (file, others) in read.dependencies() {
            let inside = &file[src.len()..];
            if inside == "lib.rs" {
                continue;
            }
            let Some((name, row)) = entry(&rows, inside) else {
                mistakes.push(format!("{file} is in no row of `{section}`"));
                continue;
            };
            for other in others {
                let target = entry(&rows, &other[src.len()..]);
                if target.is_some_and(|(target, below)| target != name && below <= row) {
                    mistakes.push(format!("{file} imports {other}, which is in no row below"));
                }
            }
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn tables_name_only_files_that_exist() {
    let sources = files(".rs");
    for (section, src) in PROGRAMS {
        for name in rows(section).into_keys() {
            let mut inside = sources.iter().filter_map(|(file, _)| file.strip_prefix(src));
            assert!(
                inside.any(|inside| is_of(&name, inside)),
                "`{section}` has a row for `{name}`, which does not exist"
            );
        }
    }
}
