//! Rules on the crate graph, from `cargo metadata`.
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

use crate::sources::root;

/// Which crates of the workspace a crate may import (docs/ARCHITECTURE.md). Tests may import anything.
const ALLOWED: &[(&str, &[&str])] = &[
    ("longhaul-types", &[]),
    ("longhaul-protocol", &["longhaul-types"]),
    ("longhaul-driver", &["longhaul-protocol", "longhaul-types"]),
    ("longhaul-cache", &["longhaul-http", "longhaul-types"]),
    ("longhaul-codec", &["longhaul-types"]),
    ("longhaul-http", &["longhaul-types"]),
    ("longhaul-origin", &["longhaul-http", "longhaul-types"]),
    ("longhaul-page", &["longhaul-http", "longhaul-types"]),
    ("longhaul-transcode", &[]),
    (
        "longhaul-agent",
        &[
            "longhaul-cache",
            "longhaul-codec",
            "longhaul-driver",
            "longhaul-http",
            "longhaul-origin",
            "longhaul-protocol",
            "longhaul-types",
        ],
    ),
    (
        "longhaul-gateway",
        &[
            "longhaul-cache",
            "longhaul-codec",
            "longhaul-driver",
            "longhaul-http",
            "longhaul-origin",
            "longhaul-page",
            "longhaul-protocol",
            "longhaul-transcode",
            "longhaul-types",
        ],
    ),
    ("longhaul", &["longhaul-page", "longhaul-types"]),
    ("longhaul-netem", &["longhaul-types"]),
];
/// Test code: nothing but other test code imports these, netem also as a dev-dependency of the protocol and its driver.
const TEST_CRATES: &[&str] = &[
    "longhaul-bench",
    "longhaul-bulk",
    "longhaul-chromium",
    "longhaul-fuzz",
    "longhaul-hosting",
    "longhaul-loader",
    "longhaul-netem",
    "longhaul-pages",
    "longhaul-report",
    "longhaul-tests",
    "longhaul-world",
];
/// Crates without I/O, clock or runtime: none of `RUNTIME` may be below them.
const PURE: &[&str] = &[
    "longhaul-types",
    "longhaul-protocol",
    "longhaul-codec",
    "longhaul-http",
    "longhaul-netem",
    "longhaul-page",
    "longhaul-transcode",
];
const RUNTIME: &[&str] = &[
    "tokio",
    "mio",
    "async-std",
    "quinn-udp",
    "socket2",
    "rusqlite",
    "hyper",
];
/// Never anywhere: they need cmake, libclang or the system's OpenSSL to build.
const BANNED: &[&str] = &[
    "aws-lc-sys",
    "aws-lc-rs",
    "openssl-sys",
    "bindgen",
    "cmake",
    "native-tls",
    "xdelta3",
];
/// A dependency that only the named crates of the workspace may import directly.
const RESERVED: &[(&str, &[&str])] = &[
    ("snow", &["longhaul-protocol"]),
    ("bincode", &["longhaul-protocol"]),
    ("rusqlite", &["longhaul-cache"]),
    ("quinn-udp", &["longhaul-driver"]),
];
/// Licences that may be linked into what we ship.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

struct Package {
    name: String,
    licence: String,
    /// (name, is a dev-dependency)
    direct: Vec<(String, bool)>,
}

struct Graph {
    packages: BTreeMap<String, Package>,
    members: Vec<String>,
    /// Normal and build edges of the resolved graph, by package id.
    edges: BTreeMap<String, Vec<String>>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn graph() -> Graph {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let json: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = list(&json["packages"]).iter().map(|package| {
        let direct = list(&package["dependencies"])
            .iter()
            .map(|dependency| {
                (
                    text(&dependency["name"]),
                    dependency["kind"].as_str() == Some("dev"),
                )
            })
            .collect();
        let read = Package {
            name: text(&package["name"]),
            licence: text(&package["license"]),
            direct,
        };
        (text(&package["id"]), read)
    });
    let edges = list(&json["resolve"]["nodes"]).iter().map(|node| {
        let below = list(&node["deps"])
            .iter()
            .filter(|dep| {
                list(&dep["dep_kinds"])
                    .iter()
                    .any(|kind| kind["kind"].as_str() != Some("dev"))
            })
            .map(|dep| text(&dep["pkg"]))
            .collect();
        (text(&node["id"]), below)
    });
    Graph {
        packages: packages.collect(),
        edges: edges.collect(),
        members: list(&json["workspace_members"]).iter().map(text).collect(),
    }
}

impl Graph {
    fn member(&self, name: &str) -> Option<&String> {
        self.members.iter().find(|id| self.packages[*id].name == name)
    }

    fn below(&self, id: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for next in &self.edges[id] {
                if found.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        found
    }
}

#[test]
fn crates_import_only_what_the_architecture_allows() {
    let graph = graph();
    for id in &graph.members {
        let package = &graph.packages[id];
        let ours = package
            .direct
            .iter()
            .filter(|(name, _)| name.starts_with("longhaul"));
        if TEST_CRATES.contains(&package.name.as_str()) && package.name != "longhaul-netem" {
            continue;
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
            panic!("{} is not in the table of allowed imports", package.name);
        };
        for (name, dev) in ours {
            let may_use_netem = ["longhaul-protocol", "longhaul-driver"].contains(&package.name.as_str());
            let netem = *dev && name == "longhaul-netem" && may_use_netem;
            // A test of one end may speak to the other through the driver.
            assert!(
                allowed.contains(&name.as_str()) || netem || (*dev && !TEST_CRATES.contains(&name.as_str())),
                "{} must not import {name}",
                package.name
            );
        }
    }
}

#[test]
fn pure_crates_stay_pure() {
    let graph = graph();
    for name in PURE {
        let Some(id) = graph.member(name) else { continue };
        for below in graph.below(id) {
            let below = &graph.packages[below].name;
            assert!(!RUNTIME.contains(&below.as_str()), "{name} reaches {below}");
        }
    }
}

#[test]
fn agent_and_gateway_do_not_know_each_other() {
    let graph = graph();
    for (from, to) in [
        ("longhaul-agent", "longhaul-gateway"),
        ("longhaul-gateway", "longhaul-agent"),
    ] {
        let from_id = graph.member(from).expect("a member");
        assert!(
            !graph
                .below(from_id)
                .iter()
                .any(|id| graph.packages[*id].name == to),
            "{from} reaches {to}"
        );
    }
}

#[test]
fn banned_crates_are_nowhere() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    for name in BANNED {
        assert!(
            !lock.contains(&format!("name = \"{name}\"\n")),
            "{name} is in Cargo.lock"
        );
    }
}

#[test]
fn reserved_crates_have_one_importer() {
    let graph = graph();
    for (name, importers) in RESERVED {
        for id in &graph.members {
            let package = &graph.packages[id];
            let imports = package.direct.iter().any(|(direct, _)| direct == name);
            assert!(
                !imports || importers.contains(&package.name.as_str()),
                "{} imports {name}",
                package.name
            );
        }
    }
}

#[test]
fn licences_are_known() {
    let graph = graph();
    for package in graph.packages.values() {
        let expression = package.licence.replace('/', " OR ");
        // `A OR B` needs one that is known; `A AND B` needs all.
        let fine = expression.replace(['(', ')'], " ").split(" OR ").any(|choice| {
            choice
                .split(" AND ")
                .all(|licence| LICENCES.contains(&licence.trim()))
        });
        assert!(fine, "{}: licence `{}`", package.name, package.licence);
    }
}
