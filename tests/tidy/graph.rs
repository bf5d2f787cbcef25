//! Rules on the crate graph, from `cargo metadata`.
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

use crate::sources::root;

/// Crates without I/O, clock or runtime: they must not depend on any crate of `RUNTIME`, not even indirectly.
const PURE: &[&str] = &[
    "longhaul-types",
    "longhaul-protocol",
    "longhaul-session",
    "longhaul-codec",
    "longhaul-public-suffix",
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
/// Crates that must not appear in Cargo.lock, because they need cmake, libclang or the system's OpenSSL to
/// build.
const BANNED: &[&str] = &[
    "aws-lc-sys",
    "aws-lc-rs",
    "openssl-sys",
    "bindgen",
    "cmake",
    "native-tls",
    "xdelta3",
];
/// Dependencies that only the listed crates of the workspace may import directly.
const RESERVED: &[(&str, &[&str])] = &[
    ("snow", &["longhaul-protocol"]),
    ("bincode", &["longhaul-session"]),
    ("rusqlite", &["longhaul-agent", "longhaul-cache"]),
    ("psl", &["longhaul-public-suffix"]),
    ("quinn-udp", &["longhaul-driver"]),
    (
        "longhaul-carriers",
        &[
            "longhaul-agent",
            "longhaul-bulk",
            "longhaul-clientless",
            "longhaul-fuzz",
            "longhaul-gateway",
        ],
    ),
];
/// Licences of dependencies that the programs may be linked with.
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

/// Dependencies of tests and of `longhaul-bench` alone, which no program contains that we ship to users.
const LICENCE_EXCEPTIONS: &[(&str, &str)] = &[("jpeg-encoder", "(MIT OR Apache-2.0) AND IJG")];

struct Package {
    name: String,
    licence: String,
    /// Path of its Cargo.toml.
    manifest: String,
    /// Direct dependencies: name, and `true` for a dev-dependency.
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
        .expect("cargo metadata runs");
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
            manifest: text(&package["manifest_path"]),
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

    fn dependencies_of(&self, id: &str) -> BTreeSet<&str> {
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

/// A row of the code map in docs/ARCHITECTURE.md.
struct CodeMapRow {
    folder: String,
    name: String,
    may_import: Imports,
}

/// The last column of the code map.
enum Imports {
    /// Test code: any crate.
    Anything,
    /// The crates of these names.
    Only(BTreeSet<String>),
}

impl CodeMapRow {
    /// Test code is imported by no product crate.
    fn is_test(&self) -> bool {
        self.folder.starts_with("tests/")
    }
}

/// Reads the code map.
fn code_map() -> Vec<CodeMapRow> {
    let text = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("docs/ARCHITECTURE.md");
    let map = text
        .split("\n## ")
        .find(|section| section.starts_with("Code map"));
    let mut rooms: Vec<CodeMapRow> = Vec::new();
    for line in map.expect("a section `Code map`").lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", folder, name, _, may_import, ""] = cells.as_slice() else {
            continue;
        };
        if !name.starts_with("longhaul") {
            continue;
        }
        // Text after a semicolon is a remark.
        let listed = may_import.split(';').next().unwrap_or_default();
        let may_import = match listed {
            "-" => Imports::Only(BTreeSet::new()),
            "all above" => Imports::Only(rooms.iter().map(|room| room.name.clone()).collect()),
            "anything" => Imports::Anything,
            names => Imports::Only(
                names
                    .split(',')
                    .map(|name| format!("longhaul-{}", name.trim()))
                    .collect(),
            ),
        };
        rooms.push(CodeMapRow {
            folder: folder.trim_matches('`').to_owned(),
            name: (*name).to_owned(),
            may_import,
        });
    }
    rooms
}

/// The names of all crates of the workspace.
pub(crate) fn members() -> Vec<String> {
    let graph = graph();
    let names = graph.members.iter().map(|id| graph.packages[id].name.clone());
    names.collect()
}

#[test]
fn crates_import_only_what_the_architecture_allows() {
    let (graph, rooms) = (graph(), code_map());
    let room = |name: &str| rooms.iter().find(|room| room.name == name);
    for id in &graph.members {
        let package = &graph.packages[id];
        let Some(CodeMapRow {
            folder, may_import, ..
        }) = room(&package.name)
        else {
            panic!("{} is not in the code map of docs/ARCHITECTURE.md", package.name);
        };
        assert!(
            package.manifest.ends_with(&format!("/{folder}Cargo.toml")),
            "{} is at {}, not in {folder}",
            package.name,
            package.manifest
        );
        let Imports::Only(allowed) = may_import else {
            continue;
        };
        let ours = package
            .direct
            .iter()
            .filter(|(name, _)| name.starts_with("longhaul"));
        for (name, dev) in ours {
            let is_test = room(name).is_some_and(CodeMapRow::is_test);
            let is_testing = room(name).is_some_and(|room| room.folder.starts_with("tests/testing/"));
            // Tests of the transport import the link model, and tests of one end import the driver as its
            // peer.
            let in_tests = *dev && (!is_test || is_testing);
            assert!(
                allowed.contains(name) || in_tests,
                "{} must not import {name}",
                package.name
            );
        }
    }
    for room in rooms {
        assert!(
            graph.member(&room.name).is_some(),
            "{} of the code map does not exist",
            room.name
        );
    }
}

#[test]
fn pure_crates_depend_on_no_runtime() {
    let graph = graph();
    for name in PURE {
        let Some(id) = graph.member(name) else { continue };
        for below in graph.dependencies_of(id) {
            let below = &graph.packages[below].name;
            assert!(!RUNTIME.contains(&below.as_str()), "{name} depends on {below}");
        }
    }
}

#[test]
fn agent_and_gateway_do_not_depend_on_each_other() {
    let graph = graph();
    for (from, to) in [
        ("longhaul-agent", "longhaul-gateway"),
        ("longhaul-gateway", "longhaul-agent"),
    ] {
        let from_id = graph.member(from).expect("a workspace member");
        assert!(
            !graph
                .dependencies_of(from_id)
                .iter()
                .any(|id| graph.packages[*id].name == to),
            "{from} depends on {to}"
        );
    }
}

#[test]
fn banned_crates_are_not_in_the_lock_file() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    for name in BANNED {
        assert!(
            !lock.contains(&format!("name = \"{name}\"\n")),
            "{name} is in Cargo.lock"
        );
    }
}

#[test]
fn reserved_crates_are_imported_only_by_the_listed_crates() {
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
fn licences_of_dependencies_are_allowed() {
    let graph = graph();
    for package in graph.packages.values() {
        let expression = package.licence.replace('/', " OR ");
        let is_exception = LICENCE_EXCEPTIONS.contains(&(package.name.as_str(), expression.as_str()));
        assert!(
            is_exception || is_allowed(&expression),
            "{}: licence `{}`",
            package.name,
            package.licence
        );
    }
}

/// `A OR B` needs one allowed licence; `A AND B` needs all. Brackets group the choices of an `AND`.
fn is_allowed(expression: &str) -> bool {
    let is_grouped = expression.contains('(');
    let (outer, inner) = if is_grouped {
        (" AND ", " OR ")
    } else {
        (" OR ", " AND ")
    };
    let is_listed = |licence: &str| LICENCES.contains(&licence.trim());
    let part = |part: &str| {
        let part = part.trim().trim_start_matches('(').trim_end_matches(')');
        let mut licences = part.split(inner);
        if is_grouped {
            licences.any(is_listed)
        } else {
            licences.all(is_listed)
        }
    };
    let mut parts = expression.split(outer);
    if is_grouped {
        parts.all(part)
    } else {
        parts.any(part)
    }
}

#[test]
fn brackets_of_licence_expressions_are_read() {
    assert!(is_allowed("MIT"));
    assert!(is_allowed("GPL-3.0 OR MIT"));
    assert!(is_allowed("(MIT OR GPL-3.0) AND Unicode-3.0"));
    assert!(!is_allowed("MIT AND GPL-3.0"));
    assert!(!is_allowed("(MIT OR Apache-2.0) AND IJG"));
}
