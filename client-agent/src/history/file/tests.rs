use std::{fs, time::Duration};

use super::*;

const DAY_S: u64 = 24 * 3600;
/// Noon of 15 January 2026 in UTC: no time zone changes the month.
const NOON: u64 = 1_768_478_400;

fn at(seconds: u64) -> UnixTime {
    UnixTime::new(Duration::from_secs(seconds))
}

fn addition(amount: i64, seconds: u64) -> Addition {
    Addition {
        counts: Counts([amount; COLUMNS.len()]),
        transfers: Vec::new(),
        at: at(seconds),
    }
}

fn periods(file: &HistoryFile, kind: i64) -> u32 {
    let count = "SELECT count(*) FROM periods WHERE kind = ?1";
    file.connection
        .query_row(count, [kind], |row| row.get(0))
        .unwrap()
}

#[test]
fn sums_are_added_up_by_day_and_month_and_read_back() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("savings.sqlite");
    let mut file = HistoryFile::open(&path).unwrap();
    for (amount, seconds) in [
        (1, NOON - 30 * DAY_S),
        (10, NOON - DAY_S),
        (100, NOON),
        (1000, NOON + 1),
    ] {
        file.add(&addition(amount, seconds)).unwrap();
    }
    let expected = file.summary(at(NOON)).unwrap();
    let amounts = |counts: &Counts| counts.0[0];
    assert_eq!(
        (
            amounts(&expected.today),
            amounts(&expected.month),
            amounts(&expected.all)
        ),
        (1100, 1110, 1111)
    );
    assert_eq!(expected.days.len(), 3);
    assert_eq!(expected.since.as_ref(), Some(&expected.days[0].0));
    // A process that is killed closes nothing.
    std::mem::forget(file);
    let file = HistoryFile::open(&path).unwrap();
    assert_eq!(file.summary(at(NOON)).unwrap(), expected);
    #[cfg(unix)]
    for entry in fs::read_dir(home.path()).unwrap() {
        let mode = std::os::unix::fs::PermissionsExt::mode(&entry.unwrap().metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn old_days_and_hours_are_dropped_and_stay_in_the_sum_of_everything() {
    let mut file = HistoryFile::in_memory().unwrap();
    for day in 0..500 {
        file.add(&addition(1, NOON + day * DAY_S)).unwrap();
    }
    assert_eq!(periods(&file, DAY), DAYS);
    assert!(periods(&file, HOUR) <= DAYS_OF_HOURS + 1);
    let summary = file.summary(at(NOON + 499 * DAY_S)).unwrap();
    assert_eq!(summary.all.0[0], 500);
    assert_eq!(summary.since.as_deref(), Some("2026-01-15"));
}

#[test]
fn forgetting_leaves_no_hash_in_the_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("savings.sqlite");
    let mut file = HistoryFile::open(&path).unwrap();
    let body = ContentHash::of(b"a known body");
    let mut first = addition(1, NOON);
    first.transfers = vec![(body, 700), (ContentHash::of(b"another"), 1), (body, 900)];
    file.add(&first).unwrap();
    let kept = file.transfers().unwrap();
    assert_eq!(kept.len(), 2);
    assert_eq!(kept[0], (body, 900), "the newest transfer counts");
    file.forget().unwrap();
    assert!(file.transfers().unwrap().is_empty() && periods(&file, HOUR) == 0);
    assert_eq!(file.summary(at(NOON)).unwrap().today, first.counts);
    for entry in fs::read_dir(home.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(32).any(|window| window == body.as_bytes()));
    }
}

#[test]
fn unusable_files_are_recognised() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("savings.sqlite");
    fs::write(&path, [7; 4096]).unwrap();
    assert!(HistoryFile::open(&path).unwrap_err().is_final());
    private_database::set_aside(&path);
    let file = HistoryFile::open(&path).unwrap();
    file.connection.pragma_update(None, "user_version", 9).unwrap();
    drop(file);
    assert!(matches!(HistoryFile::open(&path), Err(OpenDatabaseError::Newer)));
}
