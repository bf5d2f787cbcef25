//! Rules on what decides how long compilation takes.
use std::{collections::BTreeSet, process::Command};

use crate::sources::root;

/// Returns all packages that the workspace reaches by these kinds of dependencies, each with its features.
fn packages(edges: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--workspace", "--edges", edges])
        .args(["--prefix", "none", "--no-dedupe", "--format", "{p} {f}"])
        .current_dir(root())
        .output()
        .expect("cargo tree runs");
    assert!(
        output.status.success(),
        "cargo tree: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

/// A crate with different features with and without tests is compiled twice, and so are all crates that depend on it.
#[test]
fn tests_add_no_features_to_dependencies() {
    let (without, with) = (packages("normal,build"), packages("normal,build,dev"));
    let changed: Vec<_> = without.difference(&with).collect();
    assert!(
        changed.is_empty(),
        "tests add features to these crates; add the features to the dependencies in tests/Cargo.toml: {changed:#?}"
    );
}
