//! Workers that answer wrongly or not at all.
use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::{Duration, Instant},
};

use longhaul_images::picture_workers::{Made, PictureWorkers, Program, Settings, TranscodeTimeouts};

use super::{made, pictures::photo, quick, settings};

/// A program with this shell script as worker.
fn impostor(folder: &Path, script: &str) -> Program {
    let path = folder.join("impostor");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    Program::File(path)
}

const READY: &str = r"printf '\001\000\000\000\000'";

#[tokio::test(flavor = "multi_thread")]
async fn missing_and_wrong_replies_cost_a_bounded_time() {
    let begun = Instant::now();
    for (script, expected) in [
        // Silence; exit; death by a signal; SIGKILL; an excessive length; a partial message; another message;
        // no WebP.
        (format!("{READY}; cat > /dev/null"), Made::Kept),
        (format!("{READY}; head -c 100 > /dev/null"), Made::Kept),
        (
            format!("{READY}; head -c 100 > /dev/null; kill -SEGV $$"),
            Made::Kept,
        ),
        (
            format!("{READY}; head -c 100 > /dev/null; kill -KILL $$"),
            Made::NotNow,
        ),
        (
            format!(r"{READY}; printf '\377\377\377\377'; cat > /dev/null"),
            Made::Kept,
        ),
        (
            format!(r"{READY}; printf '\040\000\000\000\001RIFF'; head -c 100 > /dev/null"),
            Made::Kept,
        ),
        (
            format!(r"{READY}; printf '\001\000\000\000\011'; cat > /dev/null"),
            Made::Kept,
        ),
        (
            format!(r"{READY}; printf '\005\000\000\000\001GIF8'; cat > /dev/null"),
            Made::NotNow,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let workers = PictureWorkers::new(Settings {
            program: impostor(folder.path(), &script),
            timeouts: TranscodeTimeouts {
                answer: Duration::from_secs(1),
                ..TranscodeTimeouts::default()
            },
            ..settings()
        });
        assert_eq!(
            made(&workers, 1, &photo(300), &quick()).await,
            expected,
            "{script}"
        );
    }
    println!("eight invalid responses: {:.2} s", begun.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_failures_suspend_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("started");
    let started = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    let logs = format!("echo x >> {}", log.display());
    // The worker cannot be started.
    let workers = PictureWorkers::new(Settings {
        program: impostor(folder.path(), &logs),
        ..settings()
    });
    for _ in 0..20 {
        assert_eq!(made(&workers, 1, &photo(100), &quick()).await, Made::NotNow);
    }
    assert!((3..10).contains(&started()), "{} starts of workers", started());
    // One device's images crash the worker.
    std::fs::remove_file(&log).unwrap();
    let dies = format!("{logs}; {READY}; head -c 100 > /dev/null; kill -SEGV $$");
    let workers = PictureWorkers::new(Settings {
        program: impostor(folder.path(), &dies),
        ..settings()
    });
    for _ in 0..20 {
        made(&workers, 1, &photo(100), &quick()).await;
    }
    let before = started();
    assert!((3..10).contains(&before), "{before} starts of workers");
    made(&workers, 2, &photo(100), &quick()).await;
    assert_eq!(started(), before + 1, "images of another device start a worker");
}
