//! Real worker processes: their results, and their end.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod impostors;
mod pictures;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use bytes::Bytes;
use longhaul_images::picture_workers::{Made, PictureWorkers, Program, Settings, TranscodeTimeouts};
use longhaul_transcode::{ImageLevel, Limits, Outcome, Request, TranscodeEffort, inspect, transcode};
use longhaul_types::{ByteCount, PublicKey, SecretKey};
use tokio::time::{interval, timeout};

use self::pictures::{flat, photo, slow};

/// Maximum wait for one event; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(5);

fn device(number: u8) -> PublicKey {
    SecretKey::from_bytes([number; 32]).public()
}

fn settings() -> Settings {
    Settings {
        memory: ByteCount::mib(256),
        workers: 2,
        program: Program::File(env!("CARGO_BIN_EXE_longhaul-gateway").into()),
        timeouts: TranscodeTimeouts::default(),
    }
}

fn request(level: ImageLevel, effort: TranscodeEffort) -> Request {
    Request {
        level,
        effort,
        limits: Limits {
            pixels: 16_000_000,
            ..Limits::default()
        },
        ..Request::default()
    }
}

fn quick() -> Request {
    request(ImageLevel::Low, TranscodeEffort::Quick)
}

async fn made(workers: &PictureWorkers, number: u8, picture: &Bytes, request: &Request) -> Made {
    let header = inspect(picture).unwrap();
    let made = workers.transcode(device(number), picture.clone(), &header, request);
    timeout(LIMIT, made).await.unwrap().0
}

/// Processes that run `program`. Tests run concurrently, so each uses a program path of its own.
fn processes(program: &Path) -> BTreeSet<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(program.as_os_str().as_encoded_bytes())
        })
        .collect()
}

/// A copy of the program under its own path, to distinguish its processes from those of other tests.
fn own_program(folder: &Path) -> PathBuf {
    let path = folder.join("worker");
    std::fs::hard_link(env!("CARGO_BIN_EXE_longhaul-gateway"), &path)
        .or_else(|_| std::fs::copy(env!("CARGO_BIN_EXE_longhaul-gateway"), &path).map(drop))
        .unwrap();
    path
}

async fn until(reached: impl Fn() -> bool) {
    let mut looks = interval(LOOK);
    let wait = async {
        while !reached() {
            looks.tick().await;
        }
    };
    timeout(LIMIT, wait).await.unwrap();
}

fn kill(pid: u32) {
    let sent = Command::new("kill")
        .arg("-9")
        .arg(pid.to_string())
        .status()
        .unwrap();
    assert!(sent.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gives_the_same_result_as_the_transcoder() {
    let workers = PictureWorkers::new(settings());
    let mut smaller = 0;
    for picture in [
        photo(40),
        photo(320),
        photo(700),
        flat(300, 200),
        flat(2_000, 1_500),
    ] {
        for level in [ImageLevel::High, ImageLevel::Medium, ImageLevel::Low] {
            for effort in [
                TranscodeEffort::Fixed,
                TranscodeEffort::Quick,
                TranscodeEffort::Standard,
            ] {
                let request = request(level, effort);
                let expected = match transcode(&picture, &request) {
                    Ok(Outcome::Transcoded(variant)) => Made::Smaller(variant.webp.into()),
                    Ok(Outcome::Kept(_)) | Err(_) => Made::Kept,
                };
                smaller += usize::from(expected != Made::Kept);
                assert!(
                    made(&workers, 1, &picture, &request).await == expected,
                    "{level} {effort:?} of {} bytes",
                    picture.len()
                );
            }
        }
    }
    assert!(smaller > 20, "{smaller}");
    let broken = photo(320).slice(..5_000);
    assert_eq!(made(&workers, 1, &broken, &quick()).await, Made::Kept);
    let header = inspect(&flat(5_000, 4_000)).unwrap();
    let (large, request) = (flat(5_000, 4_000), quick());
    let large = workers.transcode(device(1), large, &header, &request);
    assert_eq!(large.await.0, Made::NotNow, "above the limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_loses_only_its_picture() {
    let folder = tempfile::tempdir().unwrap();
    let program = own_program(folder.path());
    let workers = PictureWorkers::new(Settings {
        program: Program::File(program.clone()),
        ..settings()
    });
    for round in 0..4 {
        // A worker that died before it received the image is a failed start, and repeated ones suspend attempts.
        let made = loop {
            let (workers, picture) = (workers.clone(), slow());
            let made = tokio::spawn(async move { made(&workers, 1, &picture, &quick()).await });
            until(|| made.is_finished() || !processes(&program).is_empty()).await;
            if !made.is_finished() {
                break made;
            }
            assert_eq!(made.await.unwrap(), Made::NotNow, "suspended in round {round}");
        };
        for pid in processes(&program) {
            kill(pid);
        }
        assert_eq!(made.await.unwrap(), Made::NotNow, "round {round}");
        until(|| processes(&program).is_empty()).await;
    }
    let small = photo(300);
    until_made(&workers, &small).await;
    // The death of an idle worker is noticed when the worker is needed.
    let idle = processes(&program);
    assert_eq!(idle.len(), 1);
    idle.iter().copied().for_each(kill);
    until_made(&workers, &small).await;
    assert_ne!(processes(&program), idle);
}

/// Waits until images are transcoded again.
async fn until_made(workers: &PictureWorkers, picture: &Bytes) {
    let mut looks = interval(LOOK);
    let wait = async {
        while !matches!(made(workers, 1, picture, &quick()).await, Made::Smaller(_)) {
            looks.tick().await;
        }
    };
    timeout(LIMIT, wait).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_picture_frees_its_worker() {
    let folder = tempfile::tempdir().unwrap();
    let program = own_program(folder.path());
    let workers = PictureWorkers::new(Settings {
        workers: 1,
        program: Program::File(program.clone()),
        ..settings()
    });
    let (others, picture) = (workers.clone(), slow());
    let cancelled = tokio::spawn(async move { made(&others, 1, &picture, &quick()).await });
    until(|| !processes(&program).is_empty()).await;
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    // The device may have one image in progress.
    assert!(matches!(
        made(&workers, 1, &photo(300), &quick()).await,
        Made::Smaller(_)
    ));
    drop(workers);
    until(|| processes(&program).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_end_when_idle_and_after_a_large_picture() {
    let folder = tempfile::tempdir().unwrap();
    let program = own_program(folder.path());
    let workers = PictureWorkers::new(Settings {
        program: Program::File(program.clone()),
        timeouts: TranscodeTimeouts {
            idle: Duration::from_millis(200),
            ..TranscodeTimeouts::default()
        },
        ..settings()
    });
    made(&workers, 1, &photo(300), &quick()).await;
    until(|| processes(&program).is_empty()).await;
    assert!(matches!(
        made(&workers, 1, &flat(3_000, 2_000), &quick()).await,
        Made::Smaller(_)
    ));
    until(|| processes(&program).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_confined_to_computation() {
    let folder = tempfile::tempdir().unwrap();
    let program = own_program(folder.path());
    let workers = PictureWorkers::new(Settings {
        program: Program::File(program.clone()),
        ..settings()
    });
    made(&workers, 1, &photo(300), &quick()).await;
    let pid = processes(&program).pop_first().unwrap();
    let about = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let (limits, status) = (about("limits"), about("status"));
    let value = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    };
    for name in [
        "Max open files",
        "Max file size",
        "Max processes",
        "Max core file size",
    ] {
        let numbers: Vec<String> = value(&limits, name)
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        assert_eq!(numbers[..2], ["0", "0"], "{name}");
    }
    let data = value(&limits, "Max data size");
    let hard: u64 = data.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(hard <= 300 << 20, "{data}");
    let time = value(&limits, "Max cpu time");
    let seconds: u64 = time.split_whitespace().next().unwrap().parse().unwrap();
    assert!(seconds <= 20, "{time}");
    assert_eq!(value(&status, "NoNewPrivs:"), "1");
    assert_eq!(value(&status, "CapEff:").trim_matches('0'), "");
    // Descriptors inherited by the gateway itself are closed, too.
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count);
    // Only root can inspect a process that is not dumpable.
    assert!(
        descriptors.as_ref().map_or(true, |count| *count == 3),
        "{descriptors:?}"
    );
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd"));
    assert!(folder.map_or(true, |folder| folder == Path::new("/")));
}

/// Overhead of the transfer to another process and back.
#[tokio::test(flavor = "multi_thread")]
async fn ordinary_pictures_take_little_longer_than_without_workers() {
    let picture = photo(400);
    let workers = PictureWorkers::new(settings());
    made(&workers, 1, &picture, &quick()).await;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..30 {
        let begun = Instant::now();
        assert!(matches!(
            transcode(&picture, &quick()),
            Ok(Outcome::Transcoded(_))
        ));
        times[0].push(begun.elapsed());
        let begun = Instant::now();
        assert!(matches!(
            made(&workers, 1, &picture, &quick()).await,
            Made::Smaller(_)
        ));
        times[1].push(begun.elapsed());
    }
    let [here, there] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    println!(
        "a JPEG of {} kB, median of 30: {here:.2?} in this process, {there:.2?} in a worker",
        picture.len() / 1000
    );
    assert!(there < here * 3 + Duration::from_millis(50), "{there:?}");
}
