//! Progress display of a run: a bar on a terminal, occasional lines elsewhere.
use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval of the lines without a terminal.
const LINE: Duration = Duration::from_secs(30);

/// Progress of a run, on standard error.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    on_terminal: bool,
    total: usize,
    done: usize,
    began: Instant,
    last_line: Instant,
}

impl Progress {
    /// Creates the progress of `total` loads.
    pub fn new(total: usize) -> Self {
        let on_terminal = std::io::stderr().is_terminal();
        let target = if on_terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:24} {pos}/{len}  {elapsed} (left: {eta})  {msg}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        let now = Instant::now();
        Self {
            bar,
            on_terminal,
            total,
            done: 0,
            began: now,
            last_line: now,
        }
    }

    /// Counts a completed load; `what` is displayed.
    pub fn step(&mut self, what: &str) {
        self.done += 1;
        self.bar.set_message(what.to_owned());
        self.bar.inc(1);
        if !self.on_terminal && (self.last_line.elapsed() >= LINE || self.done == self.total) {
            self.last_line = Instant::now();
            let seconds = self.began.elapsed().as_secs();
            self.say(&format!("{}/{} after {seconds} s: {what}", self.done, self.total));
        }
    }

    /// Prints a permanent line.
    pub fn say(&self, line: &str) {
        if self.on_terminal {
            self.bar.println(line);
        } else {
            crate::say(line);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
