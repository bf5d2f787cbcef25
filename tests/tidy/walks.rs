//! Rules on the walks of docs/INTERNALS.md: the files, types and functions that they name exist.
use crate::sources::root;

/// Number of walks; the section's title says it.
const WALKS: usize = 5;

/// A function that a walk names.
struct Step<'a> {
    path: &'a str,
    /// The type of a method.
    owner: Option<&'a str>,
    function: &'a str,
}

/// The text of the section "Five walks".
fn section() -> String {
    let text = std::fs::read_to_string(root().join("docs/INTERNALS.md")).expect("docs/INTERNALS.md");
    let walks = text
        .split("\n## ")
        .find(|section| section.starts_with("Five walks"));
    walks.expect("a section `Five walks`").to_owned()
}

/// The text of a list item without its number; `None` for any other line.
fn list_item(line: &str) -> Option<&str> {
    let (number, item) = line.split_once(". ")?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    is_number.then_some(item)
}

/// Reads an item of the form "`path/file.rs` `Type::function`: clause"; a free function has no type.
fn step(item: &str) -> Option<Step<'_>> {
    let (path, rest) = item.strip_prefix('`')?.split_once("` `")?;
    let (name, _) = rest.split_once("`: ")?;
    let (owner, function) = match name.split_once("::") {
        Some((owner, function)) => (Some(owner), function),
        None => (None, name),
    };
    Some(Step {
        path,
        owner,
        function,
    })
}

/// True if a source text defines this function.
fn defines_function(text: &str, function: &str) -> bool {
    let signature = format!("fn {function}");
    text.split(signature.as_str())
        .skip(1)
        .any(|after| after.starts_with(['(', '<']))
}

/// True if a source text implements functions of this type.
fn implements_type(text: &str, owner: &str) -> bool {
    let is_in_name = |c: char| c.is_alphanumeric() || c == '_';
    text.lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("impl"))
        .any(|line| line.split(|c: char| !is_in_name(c)).any(|word| word == owner))
}

/// The mistake of a list item, if it has one.
fn mistake(item: &str) -> Option<String> {
    let Some(Step {
        path,
        owner,
        function,
    }) = step(item)
    else {
        return Some(format!(
            "not of the form \"`path` `Type::function`: clause\": {item}"
        ));
    };
    let Ok(text) = std::fs::read_to_string(root().join(path)) else {
        return Some(format!("{path} does not exist"));
    };
    if !defines_function(&text, function) {
        return Some(format!("{path} does not define the function {function}"));
    }
    let owner = owner?;
    (!implements_type(&text, owner)).then(|| format!("{path} does not implement {owner}"))
}

#[test]
fn functions_of_the_walks_exist() {
    let section = section();
    let mistakes: Vec<String> = section
        .lines()
        .filter_map(list_item)
        .filter_map(mistake)
        .collect();
    assert!(
        mistakes.is_empty(),
        "docs/INTERNALS.md, section Five walks:\n{}",
        mistakes.join("\n")
    );
}

#[test]
fn every_walk_has_steps() {
    let section = section();
    let walks: Vec<&str> = section.split("\n### ").skip(1).collect();
    assert_eq!(walks.len(), WALKS, "walks in docs/INTERNALS.md");
    for walk in walks {
        let title = walk.lines().next().unwrap_or_default();
        let steps = walk.lines().filter_map(list_item).count();
        assert!(steps > 1, "the walk `{title}` has {steps} steps");
    }
}

#[test]
fn steps_and_definitions_are_read() {
    let read = step("`a/b.rs` `Type::call`: hands on.").expect("a step");
    assert_eq!(
        (read.path, read.owner, read.function),
        ("a/b.rs", Some("Type"), "call")
    );
    let read = step("`a/b.rs` `call`: hands on.").expect("a step");
    assert_eq!((read.owner, read.function), (None, "call"));
    assert!(step("`a/b.rs` hands on.").is_none());
    assert_eq!(list_item("12. `a/b.rs`"), Some("`a/b.rs`"));
    assert_eq!(list_item("Text. More text."), None);
    let source = "impl<'a> Trait for Type<'a> {\n    async fn call<T>(&self) {}\n}";
    assert!(defines_function(source, "call") && !defines_function(source, "cal"));
    assert!(implements_type(source, "Type") && !implements_type(source, "Typ"));
}
