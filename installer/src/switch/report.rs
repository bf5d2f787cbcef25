//! The result of a command: lines for people, or one line of JSON.
use std::fmt::Write as _;

use longhaul_trust::Step;
use serde_json::{Value, json};

/// State of a step after the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Planned; nothing was changed.
    Planned,
    /// Planned to be undone; nothing was changed.
    ToUndo,
    /// Applied now.
    Applied,
    /// In effect before.
    InEffect,
    /// Undone now.
    Undone,
    /// Left out, with the reason.
    Skipped(String),
    /// Not possible, with the reason.
    Failed(String),
}

impl State {
    const fn name(&self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::ToUndo => "to-undo",
            Self::Applied => "applied",
            Self::InEffect => "in-effect",
            Self::Undone => "undone",
            Self::Skipped(_) => "skipped",
            Self::Failed(_) => "failed",
        }
    }

    const fn words(&self) -> &'static str {
        match self {
            Self::Planned => "",
            Self::ToUndo => "undo: ",
            Self::Applied => "done: ",
            Self::InEffect => "as before: ",
            Self::Undone => "undone: ",
            Self::Skipped(_) => "LEFT OUT: ",
            Self::Failed(_) => "FAILED: ",
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Self::Skipped(reason) | Self::Failed(reason) => Some(reason),
            Self::Planned | Self::ToUndo | Self::Applied | Self::InEffect | Self::Undone => None,
        }
    }
}

/// A step and its state.
#[derive(Clone, Debug)]
struct Line {
    what: String,
    place: String,
    undo: String,
    state: State,
}

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Report {
    command: &'static str,
    is_dry_run: bool,
    lines: Vec<Line>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) const fn new(command: &'static str, is_dry_run: bool) -> Self {
        Self {
            command,
            is_dry_run,
            lines: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, step: &Step, state: State) {
        self.add((&step.what, &step.place, &step.undo), state);
    }

    /// Adds a change that is not a step: keys and other contents of the state directory.
    pub(super) fn add(&mut self, (what, place, undo): (&str, &str, &str), state: State) {
        self.lines.push(Line {
            what: what.to_owned(),
            place: place.to_owned(),
            undo: undo.to_owned(),
            state,
        });
    }

    /// True if nothing is changed, only planned.
    pub const fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    /// True if nothing failed. Undoing is complete only if nothing was left out, either.
    pub fn is_success(&self) -> bool {
        self.lines.iter().all(|line| match line.state {
            State::Failed(_) => false,
            State::Skipped(_) => self.command == "up",
            State::Planned | State::ToUndo | State::Applied | State::InEffect | State::Undone => true,
        })
    }

    /// The report as text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if self.lines.is_empty() {
            text.push_str("There is nothing to change.\n");
        }
        for line in &self.lines {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "  {}{}\n    where  {}",
                line.state.words(),
                line.what,
                line.place
            );
            match &line.state {
                State::Skipped(reason) => _ = writeln!(text, "    why    {reason}"),
                State::Failed(reason) => {
                    _ = writeln!(text, "    why    {reason}");
                    if self.command != "up" {
                        _ = writeln!(text, "    by hand: {}", line.undo);
                    }
                }
                State::Planned => _ = writeln!(text, "    undo   {}", line.undo),
                State::ToUndo | State::Applied | State::InEffect | State::Undone => {}
            }
        }
        for note in &self.notes {
            let _ = writeln!(text, "\n{note}");
        }
        text
    }

    /// The report as one line of JSON.
    pub fn to_json(&self) -> String {
        let steps = self.lines.iter().map(|line| {
            let mut step = json!({
                "what": line.what, "where": line.place, "undo": line.undo, "state": line.state.name(),
            });
            if let Some(reason) = line.state.reason() {
                step["reason"] = Value::from(reason);
            }
            step
        });
        let report = json!({
            "command": self.command,
            "dry_run": self.is_dry_run,
            "ok": self.is_success(),
            "steps": steps.collect::<Vec<_>>(),
            "notes": self.notes,
        });
        format!("{report}\n")
    }
}
