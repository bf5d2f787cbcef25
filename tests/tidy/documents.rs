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
            assert!(index.lines().any(is_row), "{folder}README.md has no row for {name}");
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
