//! The list of differences that stay, in code and in the documentation.
use std::path::Path;

use longhaul_differential::known::known;

#[test]
fn the_document_lists_the_known_differences() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/COMPATIBILITY.md");
    let text = std::fs::read_to_string(path).expect("docs/COMPATIBILITY.md");
    let rows: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(2)
        .collect();
    let expected: Vec<_> = known()
        .map(|known| format!("| {} | {} |", known.what, known.reason))
        .collect();
    assert_eq!(rows, expected, "the table should be:\n{}", expected.join("\n"));
}
