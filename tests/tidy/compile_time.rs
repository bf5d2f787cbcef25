//! Rules on what decides how long compilation takes: features of dependencies, and profiles.
use std::{collections::BTreeSet, process::Command};

use crate::{graph::members, sources::root};

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

/// Without an opt-level of its own, a crate of the workspace would have that of the dependencies.
#[test]
fn every_crate_has_an_opt_level_in_the_dev_profile() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let profile = manifest
        .split("\n[")
        .find_map(|table| table.strip_prefix("profile.dev.package]"))
        .expect("a table [profile.dev.package]");
    for name in members() {
        let entry = format!("\n{name} = {{ opt-level = ");
        assert!(
            profile.contains(&entry),
            "[profile.dev.package] in Cargo.toml has no opt-level for {name}"
        );
    }
}
