//! Parts of a section, as HTML and as Markdown.
use maud::{Markup, html};

use crate::{
    markup::{Cell, Column, Table, Text, Tone},
    quantity,
};

/// A section about one table or figure of a paper.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) anchor: &'static str,
    pub(super) title: &'static str,
    pub(super) parts: Vec<Part>,
}

/// A part of a section.
#[derive(Debug)]
pub(super) enum Part {
    /// A paragraph.
    Words(String),
    /// A table.
    Table(Grid),
    /// A chart, which only the page has.
    Chart(Markup),
}

/// A table: the first column contains words, the others figures.
#[derive(Debug)]
pub(super) struct Grid {
    caption: String,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new(caption: &str, heads: &[&str]) -> Self {
        Self {
            caption: caption.to_owned(),
            heads: heads.iter().map(|head| (*head).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, head: &str, figures: impl IntoIterator<Item = String>) {
        let mut row = vec![head.to_owned()];
        row.extend(figures);
        row.resize(self.heads.len(), quantity::NONE.to_owned());
        self.rows.push(row);
    }

    fn html(&self) -> Markup {
        let columns: Vec<(&str, Column)> = self
            .heads
            .iter()
            .enumerate()
            .map(|(index, head)| {
                let column = if index == 0 {
                    Column::Words
                } else {
                    Column::Numbers
                };
                (head.as_str(), column)
            })
            .collect();
        let mut table = Table::new(&self.caption, &columns);
        for row in &self.rows {
            let cells = row.iter().enumerate().map(|(index, words)| {
                if index == 0 {
                    Cell::Head(words.clone())
                } else {
                    Cell::Number(words.clone())
                }
            });
            table.row(Tone::Plain, &cells.collect::<Vec<_>>());
        }
        table.finish()
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<_> = cells.iter().map(|words| words.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = format!("{}:\n\n{}", self.caption, line(&self.heads));
        text.push_str(&format!("| --- |{}\n", " ---: |".repeat(self.heads.len() - 1)));
        for row in &self.rows {
            text.push_str(&line(row));
        }
        text.push('\n');
        text
    }
}

impl Section {
    pub(super) fn html(&self) -> Markup {
        html! {
            section id=(self.anchor) aria-labelledby={ (self.anchor) "-title" } {
                h2 id={ (self.anchor) "-title" } { (self.title) } "\n"
                @for part in &self.parts {
                    @match part {
                        Part::Words(words) => { (paragraph(words)) }
                        Part::Table(grid) => { (grid.html()) }
                        Part::Chart(chart) => { div class="figure" { (chart) } "\n" }
                    }
                }
            }
            "\n"
        }
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n", self.title);
        for part in &self.parts {
            match part {
                Part::Words(words) => text.push_str(&format!("{words}\n\n")),
                Part::Table(grid) => text.push_str(&grid.markdown()),
                Part::Chart(_) => {}
            }
        }
        text
    }
}

/// A paragraph; text between backticks is code.
pub(super) fn paragraph(words: &str) -> Markup {
    html! {
        p {
            @for (index, part) in words.split('`').enumerate() {
                @if index % 2 == 0 { (Text(part)) } @else { code { (Text(part)) } }
            }
        }
        "\n"
    }
}

/// Seconds, with about three digits.
pub(super) fn seconds(time: Option<f64>) -> String {
    quantity::number_or_none(time)
}

/// The share of the baseline that is saved.
pub(super) fn saved(base: Option<f64>, time: Option<f64>) -> String {
    let share = base
        .zip(time)
        .and_then(|(base, time)| crate::comparison::improvement(base, time));
    quantity::percent_or_none(share)
}
