//! Output of the tests: tables, and the trace of a run.
use std::{fmt::Write as _, time::Duration};

use longhaul_types::Timestamp;

/// A table that is printed when it is complete, so that parallel tests do not mix their lines.
pub(crate) struct Table {
    text: String,
}

impl Table {
    pub(crate) fn new(title: &str, columns: &[&str]) -> Self {
        let mut table = Self {
            text: format!("\n## {title}\n"),
        };
        table.row(columns);
        table.row(&vec!["---"; columns.len()]);
        table
    }

    pub(crate) fn row(&mut self, cells: &[impl AsRef<str>]) {
        self.text.push('|');
        for cell in cells {
            let _ = write!(self.text, " {} |", cell.as_ref());
        }
        self.text.push('\n');
    }

    /// Adds a complete row.
    pub(crate) fn line(&mut self, row: &str) {
        self.text.push_str(row);
        self.text.push('\n');
    }

    #[expect(clippy::print_stdout, reason = "the table is what `--nocapture` is for")]
    pub(crate) fn print(self) {
        println!("{}", self.text);
    }
}

/// A time in ms.
pub(crate) fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// A share in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// The median and the maximum of these values.
pub(crate) fn median_and_worst(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or_default();
    (median, values.last().copied().unwrap_or_default())
}

/// Prints a line of the trace of a run (`LONGHAUL_SIM_TRACE=1`).
#[expect(clippy::print_stdout, reason = "requested by an environment variable")]
pub(crate) fn trace(now: Timestamp, what: &str, datagram: &[u8]) {
    let head: String = datagram
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!(
        "{:>12.6} {what} {} B {head}",
        (now - Timestamp::ZERO).as_secs_f64(),
        datagram.len()
    );
}

/// Comparison of measurements with the design's targets. A missed target is printed. A value beyond its
/// limit, which is the value reached so far plus a margin, fails the test.
#[derive(Default)]
pub(crate) struct Bars {
    missed: Vec<String>,
    failed: Vec<String>,
}

impl Bars {
    /// `value` should be at most `bar`.
    pub(crate) fn at_most(&mut self, what: &str, value: f64, bar: f64, limit: f64) {
        if value > bar {
            let text = format!("{what}: {value:.3}, bar {bar:.3}, limit {limit:.3}");
            self.missed.push(text.clone());
            if value > limit {
                self.failed.push(text);
            }
        }
    }

    /// `value` should be at least `bar`.
    pub(crate) fn at_least(&mut self, what: &str, value: f64, bar: f64, limit: f64) {
        if value < bar {
            let text = format!("{what}: {value:.3}, bar {bar:.3}, limit {limit:.3}");
            self.missed.push(text.clone());
            if value < limit {
                self.failed.push(text);
            }
        }
    }

    /// `time` should be at most `bar`; the limit is `slack` times that.
    pub(crate) fn within(&mut self, what: &str, time: Duration, bar: Duration, slack: f64) {
        let (value, bar) = (time.as_secs_f64() * 1e3, bar.as_secs_f64() * 1e3);
        self.at_most(&format!("{what}, ms"), value, bar, bar * slack);
    }

    /// Prints the missed targets.
    ///
    /// # Panics
    /// If a value is beyond its limit.
    #[expect(clippy::print_stdout, reason = "the bars are what `--nocapture` is for")]
    pub(crate) fn settle(self, name: &str) {
        if !self.missed.is_empty() {
            println!("{name}, targets not met:\n  {}", self.missed.join("\n  "));
        }
        assert!(self.failed.is_empty(), "{name}: {:#?}", self.failed);
    }
}
