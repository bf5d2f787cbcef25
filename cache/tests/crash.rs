//! The process is killed while it writes: the file opens, and all bodies reported as stored are present.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#[cfg(test)]
#[allow(dead_code, reason = "this program uses a part of it")]
#[path = "store/support/mod.rs"]
mod support;

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use longhaul_cache::{Cost, Partition};
use longhaul_types::{ByteCount, ContentHash};
use support::{body, open_sound, read, response, store};

const QUOTA: ByteCount = ByteCount::mib(256);
const DIR: &str = "LONGHAUL_CACHE_CRASH_DIR";
const ROUND: &str = "LONGHAUL_CACHE_CRASH_ROUND";

fn url(chk: ContentHash) -> String {
    format!("http://example.org/{chk}")
}

/// Not a test: the process that is killed. It writes until then, and prints the stored bodies.
#[tokio::test]
async fn child() {
    let (Some(dir), Ok(round)) = (env::var_os(DIR), env::var(ROUND)) else {
        return;
    };
    let round: u32 = round.parse().unwrap();
    let cache = open_sound(&PathBuf::from(dir), QUOTA);
    // A body that remains in progress all the time.
    let mut endless = cache.writer(Cost::unknown());
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let cache = cache.clone();
            tokio::spawn(async move {
                for number in 0..50_000 {
                    let length = [900, 40_000, 300_000, 1_200_000][writer as usize];
                    let number = (round * 4 + writer) * 50_000 + number;
                    let chk = store(&cache, &body(number, length)).await.unwrap();
                    cache
                        .put(response(&Partition::Shared, &url(chk), 0, Some(chk)))
                        .await;
                    println!("stored {chk}");
                    std::io::stdout().flush().unwrap();
                }
            })
        })
        .collect();
    loop {
        endless.write(body(round, 10_000)).await;
        tokio::task::yield_now().await;
        assert!(
            !writers.iter().any(tokio::task::JoinHandle::is_finished),
            "ended before it was killed"
        );
    }
}

/// Runs the child until it has stored this many bodies, then kills it. Returns the bodies that it reported as
/// stored.
fn run_and_kill(dir: &Path, round: u32, lines: usize) -> Vec<ContentHash> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(DIR, dir)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut stored = Vec::new();
    for line in output.lines() {
        // The harness writes "test child ..." without a line end before the first line.
        if let Some(chk) = line.unwrap().split("stored ").nth(1) {
            stored.push(chk.parse().unwrap());
        }
        if stored.len() == lines {
            child.kill().unwrap();
        }
        // Reading continues to the end: bodies reported in the meantime are stored, too.
    }
    child.wait().unwrap();
    assert!(stored.len() >= lines);
    stored
}

#[tokio::test]
async fn confirmed_bodies_survive_a_kill_at_any_point() {
    let dir = tempfile::tempdir().unwrap();
    let mut stored = Vec::new();
    for (lines, round) in [1, 2, 3, 5, 8, 13, 21, 40].into_iter().zip(0..) {
        stored.extend(run_and_kill(dir.path(), round, lines));
        let cache = open_sound(dir.path(), QUOTA);
        for chk in &stored {
            assert!(
                read(&cache, *chk).await.is_some(),
                "round {round}: a stored body is missing"
            );
            let found = cache.find(&Partition::Shared, &url(*chk)).await;
            assert_eq!(found, [response(&Partition::Shared, &url(*chk), 0, Some(*chk))]);
        }
        let usage = cache.usage().await;
        assert_eq!((usage.damaged, usage.resets, usage.evicted), (0, 0, 0));
        // Each of the four writers may have been killed between its commit and its report.
        let said = stored.len() as u64;
        assert!(
            (said..=said + 4 * (u64::from(round) + 1)).contains(&usage.bodies),
            "{said} of {usage:?}"
        );
        cache.close().await;
    }
}
