//! The report as one HTML file.
use crate::{
    chart::Palette,
    markup::{escape, shorten},
    measurements::Measurements,
    results::Results,
    section::{self, Context},
};

/// Inline, so that the file needs no network and no script, and can be sent by mail.
const STYLE: &str = include_str!("page.css");
/// Maximum number of programs at the head of the report; the section on the environment contains all.
const MAX_PROGRAMS: usize = 12;
/// Patterns to which charts refer.
const PATTERNS: &str = "<svg width=\"0\" height=\"0\" aria-hidden=\"true\" style=\"position:absolute\"><defs><pattern id=\"hatch\" width=\"6\" \
height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"var(--page)\"/><rect width=\"2.5\" \
height=\"6\" fill=\"var(--bad)\"/></pattern></defs></svg>\n";

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
    let mut body = String::new();
    let mut contents = String::new();
    for section in section::all(&context)
        .into_iter()
        .filter(|section| !section.body.is_empty())
    {
        contents.push_str(&format!(
            "<li><a href=\"#{}\">{}</a></li>",
            section.anchor,
            escape(section.title)
        ));
        body.push_str(&format!(
            "<section id=\"{0}\" aria-labelledby=\"{0}-title\"><h2 id=\"{0}-title\">{1}</h2>\n{2}</section>\n",
            section.anchor,
            escape(section.title),
            section.body
        ));
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>Longhaul benchmark report</title>\n<style>\n{STYLE}</style></head>\n<body>\n{PATTERNS}\
         <header><h1>Longhaul benchmark report</h1>\n<p class=\"quiet\">{}</p>\n{}</header>\n<nav aria-label=\"Contents\"><ul>{contents}</ul></nav>\n\
         <main>\n{body}</main></body></html>\n",
        provenance(results),
        section::introduction(&context)
    )
}

/// Returns the source of each file: its run in a line, then the machine and the programs with their versions.
fn provenance(results: &[(String, Results)]) -> String {
    let lines: Vec<String> = results
        .iter()
        .map(|(name, results)| {
            let environment = &results.environment;
            let commit: String = environment.commit.chars().take(12).collect();
            let run = [
                shorten(name, 120),
                environment.date.clone(),
                if commit.is_empty() {
                    "commit unknown".to_owned()
                } else {
                    format!("commit {commit}")
                },
                format!("seed {}", environment.seed),
            ];
            let mut machine = vec![
                shorten(&environment.cpu, 120),
                format!("kernel {}", shorten(&environment.kernel, 60)),
            ];
            let programs = environment.versions.iter().take(MAX_PROGRAMS);
            machine.extend(
                programs
                    .map(|(program, version)| format!("{} {}", shorten(program, 60), shorten(version, 60))),
            );
            format!("<b>{}</b><br>{}", joined(&run), joined(&machine))
        })
        .collect();
    if lines.is_empty() {
        "no files".to_owned()
    } else {
        lines.join("<br>")
    }
}

fn joined(words: &[String]) -> String {
    let words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|word| !word.is_empty())
        .collect();
    escape(&words.join(" · "))
}
