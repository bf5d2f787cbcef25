//! Rules on the dependencies between the files of a crate.
//!
//! A file depends on another file if it names an item that the other file defines. Re-exports are followed to the definition,
//! so a folder's `mod.rs` that only re-exports is not a dependency. Test modules do not count.
use std::collections::{BTreeMap, BTreeSet};

use crate::{
    paths::{Path, paths_of},
    sources::files,
};

/// More files than this that all depend on each other cannot be read one at a time.
const MAX_CIRCLE: usize = 8;
/// A chain of re-exports longer than this is a loop.
const MAX_REEXPORTS: usize = 16;

/// Module path from the crate's root.
type ModulePath = Vec<String>;

/// A source file of a crate.
struct Module {
    file: String,
    paths: Vec<Path>,
}

/// The modules of one crate.
pub(crate) struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    /// Reads the files below this `src` folder.
    pub(crate) fn read(src: &str, sources: &[(String, String)]) -> Self {
        let mut modules = BTreeMap::new();
        for (file, text) in sources {
            let Some(inside) = file
                .strip_prefix(src)
                .and_then(|inside| inside.strip_suffix(".rs"))
            else {
                continue;
            };
            let mut module: ModulePath = inside.split('/').map(str::to_owned).collect();
            let is_program = inside == "main" || inside.starts_with("bin/");
            let is_test = module.iter().any(|part| part == "tests");
            if is_program || is_test {
                continue;
            }
            if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
                module.pop();
            }
            let paths = paths_of(text);
            let file = file.clone();
            modules.insert(module, Module { file, paths });
        }
        Self { modules }
    }

    /// The module whose file defines the item that `path` names in module `from`; `None` outside of this crate.
    fn definition(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        if depth > MAX_REEXPORTS {
            return None;
        }
        let (mut at, rest) = self.start(from, path)?;
        for (index, name) in rest.iter().enumerate() {
            let mut child = at.clone();
            child.push(name.clone());
            if self.modules.contains_key(&child) {
                at = child;
                continue;
            }
            let module = self.modules.get(&at)?;
            let reexport = module
                .paths
                .iter()
                .find(|path| path.is_import && path.name() == Some(name));
            if let Some(reexport) = reexport {
                let mut target = reexport.segments.clone();
                target.extend_from_slice(&rest[index + 1..]);
                return self.definition(&at, &target, depth + 1);
            }
            let mut globs = module.paths.iter().filter(|path| path.is_glob());
            return globs
                .find_map(|glob| {
                    let mut target = glob.segments.clone();
                    target.pop();
                    target.extend_from_slice(&rest[index..]);
                    self.definition(&at, &target, depth + 1)
                })
                .or(Some(at));
        }
        Some(at)
    }

    /// The module in which the rest of a path is looked up.
    fn start<'a>(&self, from: &[String], path: &'a [String]) -> Option<(ModulePath, &'a [String])> {
        let mut at = from.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            name => {
                let mut child = at.clone();
                child.push(name.to_owned());
                self.modules.contains_key(&child).then_some(())?;
            }
        }
        Some((at, rest))
    }

    /// The files on which each file depends.
    pub(crate) fn dependencies(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (module, Module { file, paths }) in &self.modules {
            let own = found.entry(file).or_default();
            let used = paths.iter().filter(|path| !path.is_reexport);
            for target in used.filter_map(|path| self.definition(module, &path.segments, 0)) {
                own.extend(self.modules.get(&target).map(|target| target.file.as_str()));
            }
            own.remove(file.as_str());
        }
        found
    }
}

/// The sets of two or more files that all depend on each other.
fn circles<'a>(dependencies: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<Vec<&'a str>> {
    let reachable = |from: &'a str| {
        let mut found = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            for next in dependencies.get(file).into_iter().flatten().copied() {
                if found.insert(next) {
                    open.push(next);
                }
            }
        }
        found
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        dependencies.keys().map(|file| (*file, reachable(file))).collect();
    let circle = |file: &'a str| -> Vec<&'a str> {
        let others = reached[file].iter().copied();
        others.filter(|other| reached[other].contains(file)).collect()
    };
    dependencies
        .keys()
        .map(|file| circle(file))
        .filter(|circle| circle.len() > 1)
        .collect()
}

/// The folder of `src` that contains a file; `None` for a file of `src` itself, unless a folder of more than its
/// tests has its name.
fn room<'a>(src: &str, file: &'a str, sources: &[(String, String)]) -> Option<&'a str> {
    let inside = file.strip_prefix(src).unwrap_or(file);
    let name = inside.split('/').next()?;
    let folder = name.trim_end_matches(".rs");
    let is_folder = name == folder
        || sources.iter().any(|(other, _)| {
            let inside = other.strip_prefix(&format!("{src}{folder}/"));
            inside.is_some_and(|inside| !inside.starts_with("tests"))
        });
    is_folder.then_some(folder)
}

/// The `src/` folders of the product's crates.
fn product_crates(sources: &[(String, String)]) -> BTreeSet<&str> {
    let libraries = sources.iter().filter_map(|(file, _)| file.strip_suffix("lib.rs"));
    libraries.filter(|src| !src.starts_with("tests/")).collect()
}

#[test]
fn files_that_depend_on_each_other_are_few_and_in_one_folder() {
    let sources = files(".rs");
    let mut mistakes = Vec::new();
    for src in product_crates(&sources) {
        let read = Crate::read(src, &sources);
        let dependencies = read.dependencies();
        for circle in circles(&dependencies) {
            let rooms: BTreeSet<Option<&str>> = circle.iter().map(|file| room(src, file, &sources)).collect();
            if circle.len() <= MAX_CIRCLE && rooms.len() == 1 {
                continue;
            }
            let inside: BTreeSet<&str> = circle.iter().copied().collect();
            let arrows = circle.iter().flat_map(|file| {
                let others = dependencies[file].intersection(&inside);
                others.map(move |other| format!("  {file} -> {other}"))
            });
            let arrows: Vec<String> = arrows.collect();
            mistakes.push(format!(
                "{} files of {src} depend on each other, in {rooms:?}:\n{}",
                circle.len(),
                arrows.join("\n")
            ));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}
