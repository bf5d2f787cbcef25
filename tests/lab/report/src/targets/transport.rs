//! The transport's bars as targets.
use super::{Finding, Target};
use crate::results::{Bar, Results};

/// Maximum number of missed bars in the text.
const MAX_NAMED: usize = 5;

pub(super) fn judge(files: &[(String, Results)]) -> Vec<Target> {
    let bars: Vec<&Bar> = files
        .iter()
        .flat_map(|(_, results)| &results.bars)
        .filter(|bar| bar.system.starts_with("longhaul"))
        .collect();
    let (zero, others): (Vec<&Bar>, Vec<&Bar>) = bars.iter().partition(|bar| is_bar_zero(bar));
    vec![
        finding(&zero).target(
            "transport, bar 0: page bundle",
            "hop busy at least 98.5 % from the first to the last byte of a bundle",
            "kernel BBR, quinn",
        ),
        finding(&others).target(
            "transport, the other bars",
            "each bar within its limit",
            "kernel BBR, quinn",
        ),
    ]
}

fn is_bar_zero(bar: &Bar) -> bool {
    bar.id.chars().take_while(char::is_ascii_digit).eq(['0'])
}

fn finding(bars: &[&Bar]) -> Finding {
    let met = bars.iter().filter(|bar| bar.met == Some(true)).count();
    let missed: Vec<String> = bars
        .iter()
        .filter(|bar| bar.met == Some(false))
        .map(|bar| format!("{} on {}", bar.id, bar.link))
        .collect();
    if met + missed.len() == 0 {
        return Finding::unmeasured("no bars with a limit in these files");
    }
    let mut text = format!("{met} met, {} missed", missed.len());
    if !missed.is_empty() {
        text.push_str(&format!(": {}", missed[..missed.len().min(MAX_NAMED)].join(", ")));
    }
    if missed.len() > MAX_NAMED {
        text.push_str(&format!(" and {} more", missed.len() - MAX_NAMED));
    }
    Finding::decided(text, missed.is_empty())
}
