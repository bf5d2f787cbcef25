//! The reference of a program's settings in docs/CONFIGURATION.md.
use crate::{Describe, Flag, Program, TakesEffect};

/// The table of a program's settings, in Markdown.
pub fn reference_table(program: &Program) -> String {
    let mut table =
        "| key | flag | value | default | reload | meaning, and reason for the default |\n| --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for setting in program.settings {
        table.push_str(&row(*setting));
    }
    table
}

fn row(setting: &dyn Describe) -> String {
    let key = match setting.key_in_section() {
        Some(second) => format!("`{}` or `{second}`", setting.key()),
        None => format!("`{}`", setting.key()),
    };
    let flag = match setting.flag() {
        Some(Flag::Many { name, value } | Flag::One { name, value }) => format!("`{name} {value}`"),
        Some(Flag::Switch { name, .. }) => format!("`{name}`"),
        None => String::new(),
    };
    let meaning = match setting.reason() {
        "" => setting.meaning().to_owned(),
        reason => format!("{}. {reason}", setting.meaning()),
    };
    let reload = match setting.takes_effect() {
        TakesEffect::AtOnce => "yes",
        TakesEffect::AtNextStart => "no",
    };
    let cells = [
        key,
        flag,
        setting.form().to_string(),
        setting.documented_default(),
        reload.to_owned(),
        meaning,
    ];
    let cell = |text: &String| match text.replace('|', "\\|") {
        empty if empty.is_empty() => "| ".to_owned(),
        text => format!("| {text} "),
    };
    let cells: Vec<_> = cells.iter().map(cell).collect();
    format!("{}|\n", cells.concat())
}

/// The first table of a document after a heading.
pub fn table_after(document: &str, heading: &str) -> String {
    document
        .lines()
        .skip_while(|line| *line != heading)
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .map(|line| format!("{line}\n"))
        .collect()
}
