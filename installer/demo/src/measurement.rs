//! The same page over both ways.
use std::time::Duration;

use longhaul_netem::{Loss, Profile};
use longhaul_types::{BitRate, ByteCount};

/// Width of the longer bar on a terminal.
const BAR: u64 = 40;

/// One of the two loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Duration of the load.
    pub time: Duration,
    /// Bytes over the link towards the browser.
    pub bytes: ByteCount,
    /// Number of objects that did not arrive, or that differ from the origin's.
    pub failed: usize,
}

/// Loads of a page without and with Longhaul, over equal links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// URL of the page.
    pub url: String,
    /// Without Longhaul.
    pub direct: Way,
    /// With Longhaul.
    pub longhaul: Way,
}

impl Way {
    pub(crate) fn seconds(&self) -> f64 {
        self.time.as_secs_f64()
    }

    pub(crate) fn time_text(&self) -> String {
        format!("{:.1} s", self.seconds())
    }
}

impl Comparison {
    /// Length of the direct load's bar, of 1000.
    pub(crate) fn direct_share(&self) -> u64 {
        self.share(self.direct, 1000)
    }

    /// Length of Longhaul's bar, of 1000.
    pub(crate) fn longhaul_share(&self) -> u64 {
        self.share(self.longhaul, 1000)
    }

    fn share(&self, way: Way, full: u64) -> u64 {
        let longest = self.direct.time.max(self.longhaul.time).as_millis().max(1);
        let share = way.time.as_millis() * u128::from(full) / longest;
        u64::try_from(share).unwrap_or(full)
    }

    /// The result in a sentence.
    pub(crate) fn verdict(&self) -> String {
        let failures = |who: &str, failed: usize| {
            let objects = if failed == 1 { "object" } else { "objects" };
            format!("the times cannot be compared, because {failed} {objects} failed {who}")
        };
        if self.direct.failed > 0 {
            return failures("directly", self.direct.failed);
        }
        if self.longhaul.failed > 0 {
            return failures("through Longhaul", self.longhaul.failed);
        }
        let factor = self.direct.seconds() / self.longhaul.seconds().max(0.001);
        if factor >= 1.05 {
            format!("Longhaul was {factor:.1} times as fast")
        } else {
            "Longhaul was not faster".to_owned()
        }
    }

    /// Both times side by side, as lines for a terminal.
    pub fn bars(&self) -> String {
        let line = |name: &str, way: Way| {
            let length = usize::try_from(self.share(way, BAR)).unwrap_or_default().max(1);
            let bar = "█".repeat(length);
            let space = " ".repeat(usize::try_from(BAR).unwrap_or_default().saturating_sub(length));
            format!(
                "  {name:<12} {bar}{space} {:>7}  {}\n",
                way.time_text(),
                way.bytes
            )
        };
        let (direct, longhaul) = (line("direct", self.direct), line("Longhaul", self.longhaul));
        format!("{direct}{longhaul}  {}.\n", self.verdict())
    }
}

/// Describes an emulated link for people.
pub(crate) fn describe(profile: Profile) -> String {
    let loss = match profile.down().loss {
        Loss::Random(share) => format!(", {} % loss", share.value() * 100.0),
        Loss::Never | Loss::Bursts(_) => String::new(),
    };
    format!(
        "{}, emulated: {} down, {} up, {} ms round trip{loss}",
        profile.name(),
        rate(profile.rate_down()),
        rate(profile.rate_up()),
        profile.rtt().as_millis(),
    )
}

fn rate(rate: BitRate) -> String {
    match rate.as_bps() {
        bits if bits < 1_000_000 && bits.is_multiple_of(1000) => format!("{} kbit/s", bits / 1000),
        bits if bits < 1_000_000 => format!("{}.{} kbit/s", bits / 1000, bits % 1000 / 100),
        bits => format!("{} Mbit/s", bits / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(direct_ms: u64, longhaul_ms: u64) -> Comparison {
        let way = |millis, bytes| Way {
            time: Duration::from_millis(millis),
            bytes: ByteCount::new(bytes),
            failed: 0,
        };
        Comparison {
            url: "http://a.test/".to_owned(),
            direct: way(direct_ms, 182_000),
            longhaul: way(longhaul_ms, 61_200),
        }
    }

    #[test]
    fn bars_are_as_long_as_the_times() {
        let bars = comparison(5_240, 1_310).bars();
        let lines: Vec<_> = bars.lines().collect();
        let length = |line: &str| line.chars().filter(|c| *c == '█').count();
        assert_eq!((length(lines[0]), length(lines[1])), (40, 10), "{bars}");
        assert!(lines[0].ends_with("5.2 s  182.0 kB"), "{bars}");
        assert_eq!(lines[2], "  Longhaul was 4.0 times as fast.");
        assert_eq!(comparison(0, 0).bars().lines().count(), 3);
    }

    #[test]
    fn no_gain_is_claimed_without_one() {
        assert_eq!(comparison(1_000, 1_000).verdict(), "Longhaul was not faster");
        assert_eq!(comparison(1_000, 2_000).direct_share(), 500);
        let mut failed = comparison(100, 5_000);
        failed.direct.failed = 1;
        assert!(
            failed.verdict().contains("1 object failed directly"),
            "{}",
            failed.verdict()
        );
    }

    #[test]
    fn links_are_described_by_their_figures() {
        let text = |name| describe(Profile::named(name).unwrap());
        assert_eq!(
            text("gprs-3+1"),
            "gprs-3+1, emulated: 39.6 kbit/s down, 13.4 kbit/s up, 660 ms round trip"
        );
        assert_eq!(
            text("wlan-lossy"),
            "wlan-lossy, emulated: 20 Mbit/s down, 20 Mbit/s up, 60 ms round trip, 3 % loss"
        );
    }
}
