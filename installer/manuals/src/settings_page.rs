//! Manual pages of configuration files, made from the descriptions of the settings.
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use longhaul_settings::{Describe, Program};

/// The page `PROGRAM.toml(5)`.
pub fn settings_page(program: &Program) -> String {
    let mut roff = Roff::new();
    let name = format!("{}.toml", program.name);
    let source = format!("Longhaul {}", env!("CARGO_PKG_VERSION"));
    roff.control("TH", [name.as_str(), "5", "", source.as_str(), "Longhaul"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - settings of {}", program.name))]);
    describe(program, &mut roff);
    roff.control("SH", ["SETTINGS"]);
    let mut section = "";
    for setting in program.settings {
        let (of_setting, _) = setting.key().split_once('.').unwrap_or_default();
        if of_setting != section {
            section = of_setting;
            roff.control("SS", [format!("[{section}]").as_str()]);
        }
        add(*setting, &mut roff);
    }
    roff.control("SH", ["FILES"]);
    for file in files(program) {
        roff.control("TP", []);
        roff.text([bold(file)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(format!("{}(1)", program.name))]);
    roff.render()
}

fn files(program: &Program) -> Vec<String> {
    let of_user = program.user_file.map(|file| format!("~/.config/{file}"));
    [program.system_file.to_owned()]
        .into_iter()
        .chain(of_user)
        .collect()
}

fn describe(program: &Program, roff: &mut Roff) {
    roff.control("SH", ["DESCRIPTION"]);
    roff.text(inlines(&format!(
        "`{}` reads `{}`, in the TOML format, if the file exists. A variable `LONGHAUL_...` of the environment \
         overrides the file, and a flag overrides both. `--config FILE` or `LONGHAUL_CONFIG` names another file, \
         which has to exist.",
        program.name,
        files(program).join("` and then `"),
    )));
    roff.control("PP", []);
    roff.text(inlines(&format!(
        "A setting `section.key` is written as `key` below the line `[section]`. Times and sizes are texts with a \
         unit: `\"30s\"`, `\"10min\"`, `\"64 MiB\"`. `{} check-config` shows all settings that are in effect with \
         their sources, and reports all mistakes.",
        program.name
    )));
}

fn add(setting: &dyn Describe, roff: &mut Roff) {
    roff.control("TP", []);
    let mut title = vec![bold(setting.key())];
    if let Some(second) = setting.key_in_section() {
        title.extend([roman(" or "), bold(second)]);
    }
    roff.text(title);
    let meaning = match setting.reason() {
        "" => format!("{}.", sentence(setting.meaning())),
        reason => format!("{}. {reason}.", sentence(setting.meaning())),
    };
    roff.text(inlines(&meaning));
    roff.control("br", []);
    roff.text([vec![italic("Value: ")], inlines(&setting.form().to_string())].concat());
    roff.control("br", []);
    roff.text([vec![italic("Default: ")], inlines(&setting.documented_default())].concat());
    roff.control("br", []);
    let mut others = vec![italic("Variable: "), bold(setting.variable())];
    if let Some(flag) = setting.flag() {
        others.extend([italic("  Flag: "), bold(flag.name())]);
    }
    roff.text(others);
}

/// A text with a capital at its beginning.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Text between backticks, which are Markdown's marks of values, is bold.
fn inlines(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts
        .filter(|(_, part)| !part.is_empty())
        .map(|(number, part)| if number % 2 == 0 { roman(part) } else { bold(part) })
        .collect()
}
