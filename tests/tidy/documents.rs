//! Rules on documents: every citation and link has a target.
use crate::sources::{files, root};

/// A citation `docs/protocol/NAME.md section N.M` in a comment names a heading of that file.
#[test]
fn cited_protocol_sections_exist() {
    for (path, text) in files(".rs") {
        if path.starts_with("tests/tidy") {
            continue;
        }
        for (at, _) in text.match_indices("docs/protocol/") {
            let cited = &text[at + "docs/protocol/".len()..];
            let Some((name, rest)) = cited.split_once(".md section ") else {
                continue;
            };
            if name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
                continue;
            }
            let number: String = rest
                .chars()
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            let number = number.trim_end_matches('.');
            let document = root().join("docs/protocol").join(format!("{name}.md"));
            let document = std::fs::read_to_string(&document)
                .unwrap_or_else(|error| panic!("{path} cites {}: {error}", document.display()));
            let exists = document.lines().any(|line| {
                line.starts_with('#') && line.trim_start_matches('#').trim().split(' ').next() == Some(number)
            });
            assert!(
                exists,
                "{path} cites docs/protocol/{name}.md section {number}, which does not exist"
            );
        }
    }
}

/// Folders of decision records; their numbers are one series.
const RECORD_FOLDERS: &[&str] = &["docs/decisions/", "tests/lab/records/"];

/// Every decision has a number of its own, a title, a date, a status, and a row in the README.md of its folder.
#[test]
fn decisions_have_unique_numbers_titles_dates_statuses_and_rows() {
    let mut numbers = Vec::new();
    for folder in RECORD_FOLDERS {
        let index = std::fs::read_to_string(root().join(folder).join("README.md"))
            .unwrap_or_else(|error| panic!("{folder}README.md: {error}"));
        for (path, text) in files(".md") {
            let Some(name) = path.strip_prefix(folder).filter(|name| *name != "README.md") else {
                continue;
            };
            let number = name.split('-').next().unwrap_or_default().to_owned();
            assert!(
                number.len() == 4 && number.chars().all(|c| c.is_ascii_digit()),
                "{path}: the name has the form NNNN-title.md"
            );
            assert!(text.starts_with("# "), "{path} does not start with its title");
            let is_dated = |line: &str| line.starts_with("Date: 20") && line.contains("Status: ");
            assert!(text.lines().any(is_dated), "{path} has no date and status");
            let is_row = |line: &str| line.starts_with('|') && line.contains(&format!("]({name})"));
            assert!(
                index.lines().any(is_row),
                "{folder}README.md has no row for {name}"
            );
            numbers.push(number);
        }
    }
    numbers.sort();
    let before = numbers.len();
    numbers.dedup();
    assert_eq!(before, numbers.len(), "two decisions share a number");
}

/// The targets of relative links in documents exist.
#[test]
fn relative_links_have_existing_targets() {
    for (path, text) in files(".md") {
        let folder = root().join(&path);
        let folder = folder.parent().expect("a file has a parent folder");
        for (at, _) in text.match_indices("](") {
            let target: String = text[at + 2..]
                .chars()
                .take_while(|c| *c != ')' && *c != '#')
                .collect();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            assert!(
                folder.join(&target).exists(),
                "{path} links to {target}, which does not exist"
            );
        }
    }
}

/// Folders at the top of the repository with which the paths in documents begin.
const TOP_FOLDERS: &[&str] = &[
    "cache",
    "client-agent",
    "docs",
    "installer",
    "protocol",
    "scripts",
    "server-gateway",
    "tests",
];
/// Documents whose paths must exist, beside the files of `docs/` itself.
const WITH_PATHS: &[&str] = &["README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md"];
/// Documents whose lines may be long: generated tables, what was released, and records of measurements.
const LONG_LINES: &[&str] = &["CHANGELOG.md", "docs/CONFIGURATION.md", "tests/lab/records/"];
/// Longest line of a document, in characters.
const MAX_LINE: usize = 400;

/// The texts in backticks of one line.
fn in_backticks(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns true if a text looks like the path of a file or folder of the repository.
fn is_path(text: &str) -> bool {
    let begins = |folder: &&str| {
        let rest = text.strip_prefix(*folder);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let is_pattern = text.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '<' | '…' | '{'));
    !is_pattern && TOP_FOLDERS.iter().any(begins)
}

/// Paths in backticks exist, in the documents of the root and of `docs/`.
#[test]
fn paths_in_backticks_exist() {
    let mut missing = Vec::new();
    for (path, text) in files(".md") {
        let is_of_docs = path.strip_prefix("docs/").is_some_and(|name| !name.contains('/'));
        if !is_of_docs && !WITH_PATHS.contains(&path.as_str()) {
            continue;
        }
        let named = prose(&text).flat_map(in_backticks).filter(|text| is_path(text));
        let absent = named.filter(|named| !root().join(named).exists());
        missing.extend(absent.map(|named| format!("{path} names {named}, which does not exist")));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// No line of a document is too long to be read in an editor.
#[test]
fn lines_of_documents_are_short() {
    let mut long = Vec::new();
    for (path, text) in files(".md") {
        if LONG_LINES.iter().any(|start| path.starts_with(start)) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let length = line.chars().count();
            if length > MAX_LINE {
                long.push(format!("{path}:{} has {length} characters", index + 1));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn paths_and_patterns_are_told_apart() {
    assert!(is_path("tests/tidy/documents.rs") && is_path("docs/protocol/"));
    for text in [
        "tests",
        "testsuite/a.rs",
        "config/mod.rs",
        "tests/*.rs",
        "docs/<name>.md",
        "docs/a b.md",
    ] {
        assert!(!is_path(text), "{text}");
    }
    let text = "`a` and `b`\n```\n`c`\n```\n`d`";
    let found: Vec<&str> = prose(text).flat_map(in_backticks).collect();
    assert_eq!(found, ["a", "b", "d"]);
}
