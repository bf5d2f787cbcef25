//! Cases in programs, directly and through Longhaul.
use std::collections::BTreeMap;

use anyhow::Result;
use longhaul_differential::programs::{ProgramArena, tools::Tools};

use crate::number;

#[tokio::test(flavor = "multi_thread")]
async fn programs_get_the_same_through_longhaul() -> Result<()> {
    let first = number("LONGHAUL_DIFFERENTIAL_FIRST", 0);
    // Programs are started for each case, and take ten times as long as a page.
    let seeds = number("LONGHAUL_DIFFERENTIAL_SEEDS", 200).div_ceil(10);
    let mut arena = ProgramArena::start().await?;
    for program in arena.missing() {
        eprintln!("SKIPPED {program}: it is not installed");
    }
    let mut found = BTreeMap::new();
    for seed in first..first + seeds {
        for (program, case, verdict) in arena.load(seed).await? {
            for difference in verdict.differences {
                let text = format!("{program}: {case}\n    {difference}");
                found
                    .entry((case.kinds().join(" "), difference.aspect, program))
                    .or_insert(text);
            }
        }
    }
    for text in found.values() {
        eprintln!("{text}");
    }
    assert!(found.is_empty(), "{} differences", found.len());
    Ok(())
}

/// Package managers, git and downloads print the same, directly and through Longhaul, over http and accelerated https.
#[tokio::test(flavor = "multi_thread")]
async fn package_managers_and_git_do_the_same_through_longhaul() -> Result<()> {
    let tools = match Tools::start().await? {
        Ok(tools) => tools,
        Err(program) => {
            eprintln!("SKIPPED: {program} is not installed");
            return Ok(());
        }
    };
    for scenario in tools.missing() {
        eprintln!("SKIPPED {scenario}: it is not installed");
    }
    let outcomes = tools.run().await?;
    let differing: Vec<String> = outcomes
        .iter()
        .filter(|outcome| outcome.direct != outcome.through)
        .map(ToString::to_string)
        .collect();
    assert!(differing.is_empty(), "{}\n{}", differing.join("\n"), tools.logs());
    let seen = tools.seen().await?;
    // A tunnel would hide what acceleration does to these; curl and git say which protocols they speak, wget and apt do not.
    for program in ["curl", "git"] {
        let is_installed = seen.iter().any(|line| line.ends_with(&format!(" {program}")));
        let accelerated = format!("https proxied {program}");
        assert!(!is_installed || seen.contains(&accelerated), "{seen:?}");
    }
    Ok(())
}
