//! A really full disk: a small tmpfs in its own mount namespace, if the system allows that.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#[cfg(test)]
#[allow(dead_code, reason = "this program uses a part of it")]
#[path = "store/support/mod.rs"]
mod support;

use std::{
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use longhaul_cache::{Cache, StoreError};
use longhaul_types::{ByteCount, ContentHash};
use support::{body, open_sound, read, store};

const DIR: &str = "LONGHAUL_CACHE_SMALL_DISK";

/// Not a test: the process that runs on the small disk.
#[tokio::test]
async fn child() {
    let Some(dir) = env::var_os(DIR).map(PathBuf::from) else {
        return;
    };
    // The quota is far above the size of the disk.
    let cache = open_sound(&dir.join("cache"), ByteCount::mib(64));
    let refused = store_many(&cache, 0..600).await;
    let right = all_right(&cache, 0..600).await;
    let usage = cache.usage().await;
    println!("on a small disk: {refused} of 600 refused, {right} readable, {usage:?}");
    assert!(right > 0);
    assert!(
        refused > 0 || usage.evicted > 0 || usage.resets > 0,
        "the disk must have been full"
    );

    // Another file takes the rest of the disk.
    let mut hog = fs::File::create(dir.join("hog")).unwrap();
    while hog.write_all(&[1; 4096]).is_ok() {}
    let refused = store_many(&cache, 600..800).await;
    let right = all_right(&cache, 0..800).await;
    println!(
        "on a full disk: {refused} of 200 refused, {right} readable, {:?}",
        cache.usage().await
    );
    drop(hog);
    fs::remove_file(dir.join("hog")).unwrap();
    cache.close().await;

    let cache = support::open(&dir.join("cache"), ByteCount::mib(64)).cache;
    all_right(&cache, 0..800).await;
    let new = body(1_000, 10_000);
    let chk = store(&cache, &new).await.unwrap();
    assert_eq!(read(&cache, chk).await, Some(new));
    println!("survived");
}

/// Returns the number of rejected bodies.
async fn store_many(cache: &Cache, numbers: std::ops::Range<u32>) -> u32 {
    let mut refused = 0;
    for number in numbers {
        match store(cache, &body(number, 60_000)).await {
            Ok(chk) => assert_eq!(chk, ContentHash::of(&body(number, 60_000))),
            Err(StoreError::Full | StoreError::Reset) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    refused
}

async fn all_right(cache: &Cache, numbers: std::ops::Range<u32>) -> u32 {
    let mut there = 0;
    for number in numbers {
        let expected = body(number, 60_000);
        let found = read(cache, ContentHash::of(&expected)).await;
        there += u32::from(found.is_some());
        assert!(found.is_none_or(|found| found == expected));
    }
    there
}

fn on_small_disk(dir: &Path, size: &str) -> Option<String> {
    let script =
        "mount -t tmpfs -o size=$1 tmpfs \"$2\" && echo mounted && exec \"$3\" --exact child --nocapture";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", size])
        .arg(dir)
        .arg(env::current_exe().unwrap())
        .env(DIR, dir)
        .output()
        .ok()?;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    text.starts_with("mounted").then_some(text)
}

#[test]
fn a_full_disk_loses_bodies_but_fails_no_page() {
    for size in ["3m", "7m", "20m"] {
        let dir = tempfile::tempdir().unwrap();
        let Some(output) = on_small_disk(dir.path(), size) else {
            println!("SKIPPED: no mount namespace can be had here (it takes root)");
            return;
        };
        println!("{size}: {output}");
        assert!(output.contains("survived"), "{output}");
    }
}
