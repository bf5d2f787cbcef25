//! Cases in Chromium, directly and through Longhaul.
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Result;
use longhaul_differential::{Arena, Case, Mode, Protocol, Scheme, arena::Verdict};
use tokio::task::JoinSet;

use crate::number;

/// Cases of a batch: they share a host, and with it a limit of 180 cookies.
const BATCH: usize = 60;

/// How the cases of a seed are loaded.
#[derive(Clone, Copy, Debug)]
struct Round {
    name: &'static str,
    scheme: Scheme,
    protocol: Protocol,
}

impl Round {
    /// True if the case of a seed is loaded. Rounds of the smaller grammars take every second seed, and go through all of their
    /// productions twice; those of TLS and of names do not become others later.
    fn takes(self, seed: u64) -> bool {
        const TIMES: u64 = 8;
        let kinds = u64::try_from(self.protocol.kinds()).unwrap_or(u64::MAX);
        let is_second = (seed + seed / kinds).is_multiple_of(2) == (self.scheme == Scheme::Http);
        match self.protocol {
            Protocol::Http1 | Protocol::Http2 => true,
            Protocol::Socket => is_second,
            Protocol::Tls | Protocol::Names => is_second && seed < TIMES * kinds,
        }
    }
}

const ROUNDS: [Round; 8] = [
    Round {
        name: "http",
        scheme: Scheme::Http,
        protocol: Protocol::Http1,
    },
    Round {
        name: "https",
        scheme: Scheme::Https,
        protocol: Protocol::Http1,
    },
    Round {
        name: "https, HTTP/2",
        scheme: Scheme::Https,
        protocol: Protocol::Http2,
    },
    Round {
        name: "https, TLS",
        scheme: Scheme::Https,
        protocol: Protocol::Tls,
    },
    Round {
        name: "http, names",
        scheme: Scheme::Http,
        protocol: Protocol::Names,
    },
    Round {
        name: "https, names",
        scheme: Scheme::Https,
        protocol: Protocol::Names,
    },
    Round {
        name: "http, WebSocket",
        scheme: Scheme::Http,
        protocol: Protocol::Socket,
    },
    Round {
        name: "https, WebSocket",
        scheme: Scheme::Https,
        protocol: Protocol::Socket,
    },
];

/// Differences by the kinds of the smallest case and the aspect: how often, and an example.
#[derive(Debug, Default)]
struct Found {
    differences: BTreeMap<(&'static str, String, String), (u64, String)>,
    /// Differences that did not come again.
    unsteady: u64,
}

#[expect(clippy::print_stderr, reason = "a long run shows each difference at once")]
impl Found {
    /// Adds what another found.
    fn merge(&mut self, other: Self) {
        for (key, (times, text)) in other.differences {
            self.differences.entry(key).or_insert((0, text)).0 += times;
        }
        self.unsteady += other.unsteady;
    }

    /// Loads the cases and adds their differences.
    async fn add(&mut self, arena: &mut Arena, round: Round, cases: &[Case]) -> Result<()> {
        let verdicts = arena.load(round.scheme, cases).await?;
        let mut suspects = Vec::new();
        for (case, verdict) in cases.iter().zip(verdicts) {
            for difference in verdict.differences {
                match self.differences.get_mut(&key(round, case, &difference.aspect)) {
                    Some(known) => known.0 += 1,
                    None => suspects.push((case, difference.aspect)),
                }
            }
        }
        if suspects.is_empty() {
            return Ok(());
        }
        // A difference must come again. With each suspect, its mutations are loaded alone: most differences have one reason.
        // A frame shows a broken body as far as it came, and cannot tell; `fetch` can.
        let mut again = Vec::new();
        for (case, _) in &suspects {
            let fetched = if case.mode == Mode::Socket {
                (*case).clone()
            } else {
                case.loaded_by(Mode::Fetch)
            };
            again.extend([(*case).clone(), fetched]);
            again.extend(case.singles());
        }
        let again_seen = match round.protocol {
            // Such a host may be asked over HTTP/1.1 from then on.
            Protocol::Http2 => arena.load_alone(round.scheme, &again).await?,
            Protocol::Http1 | Protocol::Socket | Protocol::Tls | Protocol::Names => {
                let mut seen = Vec::new();
                for cases in again.chunks(BATCH) {
                    seen.extend(arena.load(round.scheme, cases).await?);
                }
                seen
            }
        };
        let mut seen = again.into_iter().zip(again_seen);
        for (_, aspect) in suspects {
            let (Some((case, verdict)), Some((_, fetched))) = (seen.next(), seen.next()) else {
                break;
            };
            let singles: Vec<_> = seen.by_ref().take(case.singles().len()).collect();
            let is_whole = |seen: &serde_json::Value| seen["outcome"] == "whole";
            if case.mode == Mode::Frame && !(is_whole(&fetched.direct) && is_whole(&fetched.through)) {
                continue;
            }
            if !differs(&verdict, &aspect) {
                self.unsteady += 1;
                eprintln!("unsteady in {}: {aspect} of {case}", round.name);
                continue;
            }
            let single = singles.into_iter().find(|(_, verdict)| differs(verdict, &aspect));
            let (small, verdict) = match single {
                Some(single) => single,
                None => shrink(arena, round, case, &aspect, verdict).await?,
            };
            let text = example(&small, &verdict, &aspect);
            eprintln!("{}: {text}", round.name);
            self.differences
                .entry(key(round, &small, &aspect))
                .or_insert((0, text))
                .0 += 1;
        }
        Ok(())
    }
}

fn key(round: Round, case: &Case, aspect: &str) -> (&'static str, String, String) {
    (round.name, case.kinds().join(" "), aspect.to_owned())
}

fn differs(verdict: &Verdict, aspect: &str) -> bool {
    verdict
        .differences
        .iter()
        .any(|difference| difference.aspect == aspect)
}

fn example(case: &Case, verdict: &Verdict, aspect: &str) -> String {
    let difference = verdict
        .differences
        .iter()
        .find(|difference| difference.aspect == aspect);
    format!(
        "{case}\n    {}",
        difference.map(ToString::to_string).unwrap_or_default()
    )
}

/// Loads a case alone, on a host of its own, and returns what was seen if it differs in this aspect.
async fn alone(arena: &mut Arena, round: Round, case: &Case, aspect: &str) -> Result<Option<Verdict>> {
    let verdict = arena
        .load(round.scheme, std::slice::from_ref(case))
        .await?
        .remove(0);
    Ok(differs(&verdict, aspect).then_some(verdict))
}

/// Removes mutations while the difference in this aspect stays.
async fn shrink(
    arena: &mut Arena,
    round: Round,
    mut case: Case,
    aspect: &str,
    mut verdict: Verdict,
) -> Result<(Case, Verdict)> {
    let mut index = 0;
    while index < case.mutations.len() && case.mutations.len() > 1 {
        let smaller = case.without(index);
        match alone(arena, round, &smaller, aspect).await? {
            Some(seen) => (case, verdict) = (smaller, seen),
            None => index += 1,
        }
    }
    Ok((case, verdict))
}

/// The seeds that nobody has taken yet.
#[derive(Debug)]
struct Seeds {
    next: AtomicU64,
    end: u64,
}

impl Seeds {
    /// Takes the seeds of a batch.
    fn take(&self) -> Option<Range<u64>> {
        let batch = u64::try_from(BATCH).ok()?;
        let start = self.next.fetch_add(batch, Ordering::Relaxed);
        (start < self.end).then(|| start..(start + batch).min(self.end))
    }
}

/// Loads the cases of seeds in all rounds, or in the one of this name, until no seeds are left.
#[expect(clippy::print_stderr, reason = "a long run shows how far it is")]
async fn load(seeds: Arc<Seeds>, only: String) -> Result<Found> {
    let mut arena = Arena::start().await?;
    if !arena.has_tls() {
        eprintln!("SKIPPED TLS: Python or OpenSSL is not installed");
    }
    let mut found = Found::default();
    while let Some(batch) = seeds.take() {
        for round in ROUNDS {
            if (!only.is_empty() && round.name != only)
                || (round.protocol == Protocol::Tls && !arena.has_tls())
            {
                continue;
            }
            let cases: Vec<Case> = batch
                .clone()
                .filter(|seed| round.takes(*seed))
                .map(|seed| Case::new(round.protocol, seed))
                .collect();
            found.add(&mut arena, round, &cases).await?;
        }
        let (number, unsteady) = (found.differences.len(), found.unsteady);
        eprintln!("seeds {batch:?}: so far {number} differences, {unsteady} unsteady");
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_origins_look_the_same_through_longhaul() -> Result<()> {
    let first = number("LONGHAUL_DIFFERENTIAL_FIRST", 0);
    let seeds = Arc::new(Seeds {
        next: AtomicU64::new(first),
        end: first + number("LONGHAUL_DIFFERENTIAL_SEEDS", 200),
    });
    let only = std::env::var("LONGHAUL_DIFFERENTIAL_ROUND").unwrap_or_default();
    // Most of the time goes by in waiting: for what hangs, and for what fails late.
    let mut lanes = JoinSet::new();
    for _ in 0..number("LONGHAUL_DIFFERENTIAL_LANES", 1) {
        lanes.spawn(load(seeds.clone(), only.clone()));
    }
    let mut found = Found::default();
    while let Some(lane) = lanes.join_next().await {
        found.merge(lane??);
    }
    let mut often: Vec<_> = found.differences.iter().collect();
    often.sort_by_key(|(_, (times, _))| *times);
    for ((round, kinds, aspect), (times, _)) in often {
        eprintln!("{times} times {round}, {kinds}: {aspect}");
    }
    assert!(
        found.differences.is_empty(),
        "{} differences",
        found.differences.len()
    );
    Ok(())
}
