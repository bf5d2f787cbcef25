//! Worlds that run at the same time.
use std::{thread, time::Duration};

use crate::traffic::{Way, machine, profile, transfer, wait, world};

/// Time of a transfer of 8 KB to a client behind the slowest profile, including the connection's setup.
fn page_sized_transfer() -> Option<Duration> {
    let world = world(profile("gprs-3+1"))?;
    let begin = world.hop().now();
    let course = wait(transfer(&world, Way::Down, 8_000));
    Some(course[course.len() - 1].0 - begin)
}

#[test]
fn four_concurrent_worlds_give_the_times_of_one() {
    let _machine = machine();
    let Some(alone) = page_sized_transfer() else {
        return;
    };
    let together: Vec<_> = thread::scope(|scope| {
        let worlds: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| page_sized_transfer().unwrap()))
            .collect();
        worlds.into_iter().map(|world| world.join().unwrap()).collect()
    });
    eprintln!("8 KB over gprs-3+1: alone {alone:?}, four side by side {together:?}");
    for time in together {
        assert!(time.abs_diff(alone) < alone / 50, "{time:?} instead of {alone:?}");
    }
}
