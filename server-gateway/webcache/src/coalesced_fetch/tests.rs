//! Tests of coalesced fetches.
use futures_util::FutureExt as _;
use longhaul_cache::Partition;

use super::*;
use crate::device_hops::DeviceHops;

fn device(number: u8) -> PublicKey {
    PublicKey::from_bytes([number; 32])
}

/// A coalesced fetch that device 1 started.
fn started() -> (Arc<CoalescedFetch>, CoalescedReader) {
    CoalescedFetch::new(device(1), Arc::default())
}

fn response(body: FetchedBody) -> Arc<FetchedResponse> {
    Arc::new(FetchedResponse {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body,
        cache_status: CacheStatus::Miss,
        storage_decision: StorageDecision::In(Partition::Shared),
        requested_at: UnixTime::default(),
        received_at: UnixTime::default(),
        origin_size: OriginSize::none(),
    })
}

fn push(coalesced: &CoalescedFetch, length: usize) {
    coalesced.push(Chunk::Memory(Bytes::from(vec![7; length])), length);
}

/// Pushes chunks until the spool is full.
fn fill(coalesced: &CoalescedFetch) {
    while !coalesced.is_full() {
        push(coalesced, 64 * 1024);
        assert!(coalesced.decoded() < 1 << 30, "no bound");
    }
}

fn watch() -> HopWatch {
    Arc::new(DeviceHops::default()).watch(device(1))
}

#[test]
fn a_long_body_is_not_shared_with_another_device() {
    let (coalesced, _reader) = started();
    coalesced.set_head(response(FetchedBody::Spooled), Some(KEEP / 2 + 1));
    assert!(coalesced.admits(&device(1)), "the device itself");
    assert!(!coalesced.admits(&device(2)));
    coalesced.set_head(response(FetchedBody::Spooled), Some(KEEP / 2));
    assert!(coalesced.admits(&device(2)), "the spool holds it");
}

#[test]
fn a_response_without_a_body_in_progress_is_shared() {
    let (coalesced, _reader) = started();
    assert!(coalesced.admits(&device(2)), "no head");
    for body in [FetchedBody::None, FetchedBody::Stored(ContentHash::of(b"x"))] {
        coalesced.set_head(response(body), Some(KEEP));
        assert!(coalesced.admits(&device(2)), "{body:?}");
    }
    coalesced.set_head(response(FetchedBody::Spooled), Some(KEEP));
    assert!(!coalesced.admits(&device(2)));
    coalesced.end(Ok(ContentHash::of(b"x")));
    assert!(coalesced.admits(&device(2)), "complete");
}

#[test]
fn a_shared_body_of_unknown_length_may_take_more_memory() {
    let (coalesced, _reader) = started();
    coalesced.set_head(response(FetchedBody::Spooled), None);
    fill(&coalesced);
    assert!(coalesced.admits(&device(1)));
    assert!(coalesced.is_full(), "alone it takes no more");
    assert!(coalesced.admits(&device(2)));
    assert!(!coalesced.is_full());
}

#[test]
fn a_body_longer_than_the_limit_is_not_awaited() {
    let most = ByteCount::new(1000);
    let (coalesced, _reader) = started();
    coalesced.set_head(response(FetchedBody::Spooled), Some(1001));
    assert_eq!(
        coalesced.complete(most).now_or_never(),
        Some(None),
        "it is announced"
    );

    let (coalesced, _reader) = started();
    coalesced.set_head(response(FetchedBody::Spooled), Some(1000));
    push(&coalesced, 1000);
    let mut complete = Box::pin(coalesced.complete(most));
    assert_eq!((&mut complete).now_or_never(), None, "exactly the limit");
    let chk = ContentHash::of(&[7; 1000]);
    coalesced.end(Ok(chk));
    assert_eq!(complete.now_or_never(), Some(Some(chk)));

    let (coalesced, _reader) = started();
    coalesced.set_head(response(FetchedBody::Spooled), None);
    push(&coalesced, 1000);
    assert_eq!(coalesced.complete(most).now_or_never(), None);
    push(&coalesced, 1);
    assert_eq!(coalesced.complete(most).now_or_never(), Some(None), "it arrived");
    coalesced.end(Err(BodyFault::Interrupted));
    assert_eq!(coalesced.complete(most).now_or_never(), Some(None), "truncated");
}

#[test]
fn the_wait_for_a_body_makes_room_for_it() {
    let (coalesced, _reader) = started();
    let mut hop = watch();
    fill(&coalesced);
    let mut room = Box::pin(coalesced.room(&mut hop));
    assert_eq!((&mut room).now_or_never(), None);
    let mut complete = Box::pin(coalesced.complete(ByteCount::mib(2)));
    assert_eq!((&mut complete).now_or_never(), None);
    assert_eq!(room.now_or_never(), Some(Room::Free), "the feeding task goes on");
}

#[test]
fn a_body_that_the_spool_cannot_hold_is_not_awaited() {
    let (coalesced, _reader) = started();
    let mut hop = watch();
    let most = ByteCount::mib(1024);
    let mut complete = Box::pin(coalesced.complete(most));
    assert_eq!((&mut complete).now_or_never(), None);
    fill(&coalesced);
    assert!(coalesced.decoded() < most.bytes());
    assert_eq!(coalesced.room(&mut hop).now_or_never(), None);
    assert_eq!(complete.now_or_never(), Some(None));
}

#[test]
fn the_decoded_length_is_known_at_the_end() {
    let (coalesced, _reader) = started();
    coalesced.set_head(response(FetchedBody::Spooled), Some(7));
    push(&coalesced, 2);
    push(&coalesced, 3);
    assert_eq!((coalesced.decoded(), coalesced.length()), (5, Some(7)));
    coalesced.end(Ok(ContentHash::of(&[7; 5])));
    assert_eq!(coalesced.length(), Some(5));
}

#[test]
fn what_has_not_ended_is_interrupted() {
    let (coalesced, reader) = started();
    coalesced.interrupt();
    let head = coalesced.head().now_or_never().unwrap();
    assert_eq!(head.unwrap_err(), FetchFailure::Interrupted);
    let next = coalesced.next(reader.reader).now_or_never();
    assert_eq!(next, Some(Some(Err(BodyFault::Interrupted))));

    let (coalesced, reader) = started();
    let chk = ContentHash::of(&[]);
    coalesced.set_head(response(FetchedBody::Spooled), None);
    coalesced.end(Ok(chk));
    coalesced.interrupt();
    assert!(coalesced.head().now_or_never().unwrap().is_ok());
    assert_eq!(coalesced.next(reader.reader).now_or_never(), Some(None));
    assert_eq!(coalesced.chk(), Some(chk));
}

#[test]
fn a_fetch_with_a_reader_is_not_abandoned() {
    let (coalesced, first) = started();
    assert!(!coalesced.abandon());
    let second = coalesced.join().unwrap();
    drop(first);
    assert!(!coalesced.abandon());
    drop(second);
    assert!(coalesced.abandon());
    assert!(coalesced.join().is_none());
}

#[tokio::test]
async fn the_feeding_task_hears_of_a_chunk_that_was_taken() {
    let (coalesced, reader) = started();
    push(&coalesced, 1);
    assert!(coalesced.demanded().now_or_never().is_none());
    assert!(coalesced.next(reader.reader).await.is_some());
    assert!(coalesced.demanded().now_or_never().is_some());
    drop(reader);
    assert!(coalesced.demanded().now_or_never().is_some());
}
