//! Manual pages of commands: one for each command and subcommand.
use std::io;

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use longhaul_settings::Program;

use crate::Documented;

/// A manual page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Name of the file, such as `longhaul-up.1`.
    pub file: String,
    /// Contents, in the language of roff.
    pub roff: String,
}

/// The pages of a command and of its subcommands, except of hidden ones.
pub fn command_pages(documented: &Documented) -> Vec<Page> {
    let mut command = documented.command.clone().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, &page_name(&command), documented.settings, &mut pages);
    pages
}

/// clap's name of a page: that of the command and of its parents, with hyphens.
fn page_name(command: &Command) -> String {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    name.to_owned()
}

fn add_pages(command: &Command, program: &str, settings: Option<&'static Program>, pages: &mut Vec<Page>) {
    let name = page_name(command);
    let is_program = name == program;
    pages.push(Page {
        file: format!("{name}.1"),
        roff: page(command, program, is_program, settings),
    });
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add_pages(below, program, settings, pages);
    }
}

fn page(command: &Command, program: &str, is_program: bool, settings: Option<&'static Program>) -> String {
    // Flags that every subcommand has are on the page of the program alone.
    let has_global = !is_program && command.get_arguments().any(|flag| flag.is_global_set());
    let shown = command.clone().mut_args(|flag| {
        let is_repeated = !is_program && flag.is_global_set();
        if is_repeated { flag.hide(true) } else { flag }
    });
    let man = Man::new(shown.clone())
        .title(page_name(command))
        .source(format!("Longhaul {}", env!("CARGO_PKG_VERSION")))
        .manual("Longhaul");
    let mut written = Vec::new();
    let sections = |written: &mut Vec<u8>| -> io::Result<()> {
        man.render_title(written)?;
        man.render_name_section(written)?;
        synopsis(&shown).to_writer(written)?;
        man.render_description_section(written)?;
        man.render_options_section(written)?;
        if command.has_subcommands() {
            man.render_subcommands_section(written)?;
        }
        if command.get_after_help().is_some() || command.get_after_long_help().is_some() {
            man.render_extra_section(written)?;
        }
        last_sections(command, program, has_global, settings).to_writer(written)
    };
    match sections(&mut written) {
        Ok(()) => String::from_utf8_lossy(&written).into_owned(),
        // A vector accepts all writes.
        Err(error) => format!(".\\\" {error}\n"),
    }
}

/// The usage line of `--help`: required flags and arguments with their values. clap_mangen lists all flags without values.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let words = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let (name, rest) = usage
        .strip_prefix(words)
        .map_or(("", usage), |rest| (words, rest));
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold(name), roman(rest)]);
    roff
}

/// Files, and related pages.
fn last_sections(
    command: &Command,
    program: &str,
    has_global: bool,
    settings: Option<&'static Program>,
) -> Roff {
    let mut roff = Roff::new();
    if has_global {
        roff.control("SH", ["FLAGS OF ALL COMMANDS"]);
        roff.text([
            roman("The flags of "),
            bold(program),
            roman("(1) may be given before or after this command."),
        ]);
    }
    if let Some(settings) = settings {
        roff.control("SH", ["FILES"]);
        for (file, meaning) in [
            (Some(settings.system_file.to_owned()), "Settings of this machine."),
            (
                settings.user_file.map(|file| format!("~/.config/{file}")),
                "Settings of this user; they have precedence.",
            ),
        ] {
            let Some(file) = file else { continue };
            roff.control("TP", []);
            roff.text([bold(file)]);
            roff.text([roman(meaning)]);
        }
    }
    let name = page_name(command);
    let mut related: Vec<String> = ["longhaul", "longhaul-agent", "longhaul-gateway"]
        .into_iter()
        .filter(|other| *other != name)
        .map(|other| format!("{other}(1)"))
        .collect();
    if program == "longhaul-bench" && name != program {
        related.push("longhaul-bench(1)".to_owned());
    }
    if let Some(settings) = settings {
        related.push(format!("{}.toml(5)", settings.name));
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(related.join(", "))]);
    roff
}
