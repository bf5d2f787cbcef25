//! The report as one HTML file.
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{
    chart::Palette,
    markup::{Text, shorten},
    measurements::Measurements,
    results::Results,
    section::{self, Context},
};

/// Inline, so that the file needs no network and no script, and can be sent by mail.
const STYLE: &str = include_str!("page.css");
/// Maximum number of programs at the head of the report; the section on the environment contains all.
const MAX_PROGRAMS: usize = 12;
/// Returns the report of these results files, each with its name, as one self-contained HTML page.
///
/// The page needs neither network nor script, and is suitable for light and dark screens and for print. No
/// content of a results file can make it invalid: text is escaped, and figures that are not finite become
/// dashes.
pub fn html(results: &[(String, Results)]) -> String {
    let measurements = Measurements::of(results);
    let palette = Palette::new(measurements.labels());
    let context = Context {
        files: results,
        measurements: &measurements,
        palette,
    };
    let sections = section::all(&context);
    let sections: Vec<_> = sections.iter().filter(|section| !section.is_empty()).collect();
    let contents: Vec<_> = sections
        .iter()
        .map(|section| (section.anchor, section.title))
        .collect();
    let introduction = html! {
        p class="quiet" { (provenance(results)) } "\n"
        (section::introduction(&context))
    };
    let body = html! {
        @for section in &sections {
            (section)
        }
    };
    document("Longhaul benchmark report", &introduction, &contents, &body)
}

/// Returns a self-contained HTML page of sections; `contents` are their anchors and headings.
pub(crate) fn document(
    title: &str,
    introduction: &Markup,
    contents: &[(&str, &str)],
    sections: &Markup,
) -> String {
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="color-scheme" content="light dark";
                title { (title) } "\n"
                style { "\n" (PreEscaped(STYLE)) }
            }
            "\n"
            body {
                "\n" (patterns())
                header {
                    h1 { (title) } "\n"
                    (introduction)
                }
                "\n"
                nav aria-label="Contents" {
                    ul {
                        @for (anchor, title) in contents {
                            li { a href={ "#" (anchor) } { (title) } }
                        }
                    }
                }
                "\n"
                main {
                    "\n"
                    (sections)
                }
            }
        }
        "\n"
    };
    page.into_string()
}

/// Returns the patterns to which charts refer.
fn patterns() -> Markup {
    html! {
        svg width="0" height="0" aria-hidden="true" style="position:absolute" {
            defs {
                pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    rect width="6" height="6" fill="var(--page)" {}
                    rect width="2.5" height="6" fill="var(--bad)" {}
                }
            }
        }
        "\n"
    }
}

/// Returns the source of each file: its run in a line, then the machine and the programs with their versions.
pub(crate) fn provenance(results: &[(String, Results)]) -> Markup {
    html! {
        @if results.is_empty() {
            "no files"
        }
        @for (index, (name, results)) in results.iter().enumerate() {
            @if index > 0 { br; }
            b { (Text(&joined(&run(name, results)))) } br; (Text(&joined(&machine(results))))
        }
    }
}

/// Returns the file, date, commit and seed of a run.
fn run(name: &str, results: &Results) -> [String; 4] {
    let environment = &results.environment;
    let commit: String = environment.commit.chars().take(12).collect();
    [
        shorten(name, 120),
        environment.date.clone(),
        if commit.is_empty() {
            "commit unknown".to_owned()
        } else {
            format!("commit {commit}")
        },
        format!("seed {}", environment.seed),
    ]
}

/// Returns the processor, the kernel and the programs of a run.
fn machine(results: &Results) -> Vec<String> {
    let environment = &results.environment;
    let mut machine = vec![
        shorten(&environment.cpu, 120),
        format!("kernel {}", shorten(&environment.kernel, 60)),
    ];
    let programs = environment.versions.iter().take(MAX_PROGRAMS);
    machine.extend(
        programs.map(|(program, version)| format!("{} {}", shorten(program, 60), shorten(version, 60))),
    );
    machine
}

fn joined(words: &[String]) -> String {
    let words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" · ")
}
