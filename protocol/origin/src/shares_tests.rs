use std::task::Poll;

use super::*;

const ANNA: u8 = 1;
const BERT: u8 = 2;
const CARL: u8 = 3;
const AGE: Duration = Duration::from_secs(30);

fn shares(total: usize, per_owner: usize, reserved: usize) -> Arc<FairShares<u8>> {
    FairShares::new(Shares {
        total,
        per_owner,
        reserved,
        waiting: 100,
    })
}

/// Starts to wait; the order of calls is the order in the queue.
fn waiting(shares: &Arc<FairShares<u8>>, owner: u8) -> tokio::task::JoinHandle<Slot<u8>> {
    let shares = Arc::clone(shares);
    tokio::spawn(async move { shares.acquire(owner).await.unwrap() })
}

/// Runs all tasks that can make progress.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn owners_take_turns() {
    let shares = shares(1, 1, 0);
    let mut held = Some(shares.try_acquire(ANNA).unwrap());
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    // Anna's ten requests were first.
    let queue = [ANNA; 10].into_iter().chain([BERT, BERT, CARL, CARL]);
    for owner in queue {
        let (shares, served) = (Arc::clone(&shares), served.clone());
        tasks.push(tokio::spawn(async move {
            let slot = shares.acquire(owner).await.unwrap();
            served.send((owner, slot)).unwrap();
        }));
        settle().await;
    }
    let mut seen = Vec::new();
    drop(held.take());
    for _ in 0..14 {
        let (owner, slot) = order.recv().await.unwrap();
        seen.push(owner);
        drop(slot);
    }
    assert_eq!(seen[..6], [ANNA, BERT, CARL, ANNA, BERT, CARL]);
    assert!(seen[6..].iter().all(|owner| *owner == ANNA));
}

#[tokio::test]
async fn each_owner_has_reserved_slots() {
    let shares = shares(4, 4, 2);
    let anna: Vec<_> = (0..4).map(|_| shares.try_acquire(ANNA).unwrap()).collect();
    assert!(shares.try_acquire(ANNA).is_none());
    for owner in [BERT, CARL] {
        let _both = [
            shares.try_acquire(owner).unwrap(),
            shares.try_acquire(owner).unwrap(),
        ];
        assert!(shares.try_acquire(owner).is_none(), "beyond what is reserved");
    }
    drop(anna);
    let all: Vec<_> = (0..4).map(|_| shares.try_acquire(BERT).unwrap()).collect();
    assert_eq!(all.len(), 4);
    drop(all);
    assert!(shares.state().owners.is_empty() && shares.state().taken.is_empty());
}

#[tokio::test]
async fn no_owner_exceeds_its_share() {
    let shares = shares(10, 3, 0);
    let _held: Vec<_> = (0..3).map(|_| shares.try_acquire(ANNA).unwrap()).collect();
    assert!(shares.is_full_for(ANNA) && !shares.is_full_for(BERT));
    let next = waiting(&shares, ANNA);
    settle().await;
    assert!(!next.is_finished());
    assert!(shares.is_wanted_from(ANNA) && !shares.is_wanted_from(BERT));
    assert!(
        shares.try_acquire(BERT).is_some(),
        "who waits for itself is in nobody's way"
    );
    next.abort();
    settle().await;
    assert!(!shares.is_wanted_from(ANNA), "who gives up leaves the queue");
}

#[tokio::test(start_paused = true)]
async fn waiting_is_bounded_in_time_and_number() {
    let shares = FairShares::new(Shares {
        total: 1,
        per_owner: 1,
        reserved: 0,
        waiting: 1,
    });
    let held = shares.acquire(ANNA).await.unwrap();
    let begun = Instant::now();
    let limit = Duration::from_secs(5);
    let (first, second) = tokio::join!(
        shares.acquire_within(ANNA, limit, None),
        shares.acquire_within(ANNA, limit, None)
    );
    assert_eq!(
        (first.unwrap_err(), second.unwrap_err()),
        (SlotUnavailable, SlotUnavailable)
    );
    assert_eq!(begun.elapsed(), limit);
    drop(held);
    let _free = shares.acquire_within(ANNA, limit, None).await.unwrap();
}

#[tokio::test]
async fn a_slot_granted_to_a_cancelled_waiter_is_free_again() {
    let shares = shares(1, 1, 0);
    let held = shares.try_acquire(ANNA).unwrap();
    let mut gone = Box::pin(shares.acquire(ANNA));
    let polled = std::future::poll_fn(|cx| Poll::Ready(gone.as_mut().poll(cx).is_pending())).await;
    assert!(polled);
    // Granted, and dropped before it was received.
    drop(held);
    drop(gone);
    assert!(shares.try_acquire(BERT).is_some());
}

#[tokio::test(start_paused = true)]
async fn long_lived_slots_move_to_their_own_limit() {
    let shares = shares(2, 2, 0);
    let long_lived = LongLivedSlots {
        age: AGE,
        slots: FairShares::new(Shares {
            total: usize::MAX,
            per_owner: 1,
            reserved: 0,
            waiting: 0,
        }),
    };
    let limit = 10 * AGE;
    let begun = Instant::now();
    let first = shares.acquire(ANNA).await.unwrap();
    let _second = shares.acquire(ANNA).await.unwrap();
    let third = shares
        .acquire_within(BERT, limit, Some(&long_lived))
        .await
        .unwrap();
    assert_eq!(begun.elapsed(), AGE, "the first of them is old enough now");
    // One of Anna's slots has moved, and no more may move: the next request waits in vain until a slot is
    // free.
    let fourth = shares.acquire_within(BERT, AGE / 2, Some(&long_lived)).await;
    assert_eq!(fourth.unwrap_err(), SlotUnavailable);
    drop(third);
    let events = shares.try_acquire(CARL).unwrap();
    events.mark_long_lived(&long_lived);
    assert!(
        shares.try_acquire(CARL).is_some(),
        "an event stream moves at once"
    );
    drop((first, events));
    assert_eq!(long_lived.slots.state().used, 0);
}

#[tokio::test]
async fn a_place_can_change_its_owner() {
    let shares = shares(2, 1, 0);
    let slot = shares.try_acquire(ANNA).unwrap();
    let next = waiting(&shares, ANNA);
    settle().await;
    slot.transfer(BERT);
    assert!(shares.is_full_for(BERT));
    let _anna = next.await.unwrap();
    drop(slot);
    assert!(shares.try_acquire(BERT).is_some());
}

#[tokio::test(start_paused = true)]
async fn only_the_slots_that_are_old_enough_move() {
    let shares = shares(2, 2, 0);
    let long_lived = LongLivedSlots {
        age: AGE,
        slots: FairShares::new(Shares {
            total: usize::MAX,
            per_owner: 9,
            reserved: 0,
            waiting: 0,
        }),
    };
    let _old = shares.try_acquire(ANNA).unwrap();
    tokio::time::advance(AGE / 2).await;
    let _young = shares.try_acquire(ANNA).unwrap();
    let next = shares.acquire_within(BERT, AGE, Some(&long_lived)).await;
    assert!(next.is_ok());
    assert_eq!(long_lived.slots.state().used, 1);
}

#[tokio::test]
async fn a_slot_is_wanted_from_its_owner_or_if_all_are_in_use() {
    let shares = shares(2, 1, 0);
    let _anna = shares.try_acquire(ANNA).unwrap();
    assert!(!shares.is_wanted_from(ANNA), "nobody waits");
    let own = waiting(&shares, ANNA);
    settle().await;
    assert!(shares.is_wanted_from(ANNA));
    assert!(!shares.is_wanted_from(BERT), "a slot is free");
    let _bert = shares.try_acquire(BERT).unwrap();
    assert!(
        shares.is_wanted_from(BERT),
        "all are in use, and one request waits"
    );
    own.abort();
    settle().await;
    assert!(!shares.is_wanted_from(ANNA) && !shares.is_wanted_from(BERT));
}

#[tokio::test]
async fn a_request_that_gives_up_does_not_change_the_number_of_its_owner() {
    let shares = shares(9, 1, 0);
    let held = shares.try_acquire(ANNA).unwrap();
    let next = waiting(&shares, ANNA);
    settle().await;
    next.abort();
    settle().await;
    assert!(shares.is_full_for(ANNA) && shares.try_acquire(ANNA).is_none());
    drop(held);
    assert!(shares.state().owners.is_empty());
}
