//! Opening, windows, buffers and ends of streams.
use longhaul_types::ByteCount;

use super::{super::*, *};

const LIMITS: StreamLimits = StreamLimits {
    stream_window: ByteCount::new(1000),
    largest_stream_window: ByteCount::new(1000),
    receive_buffer: ByteCount::new(8000),
    max_streams: 4,
    send_buffer: ByteCount::new(2000),
    send_buffer_total: ByteCount::new(3000),
};

#[test]
fn the_peers_streams_are_bounded_and_replaced() {
    let mut s = Streams::new(Role::Gateway, LIMITS);
    s.on_data(StreamId(4), 0, None, true, b"x", false).expect("third");
    assert_eq!(
        (s.accept(), s.accept(), s.accept(), s.accept()),
        (Some(StreamId(0)), Some(StreamId(2)), Some(StreamId(4)), None)
    );
    let beyond = s.on_data(StreamId(8), 0, None, true, b"x", false);
    assert_eq!(beyond, Err(StreamViolation::Limit));
    assert_eq!(
        s.on_data(StreamId(1), 0, None, true, b"x", false),
        Err(StreamViolation::Direction)
    );
    assert!(matches!(s.read(StreamId(4)), Ok(ReadOutcome::Data(_))));
    assert_eq!(s.read(StreamId(4)), Ok(ReadOutcome::Finished));
    assert_eq!(s.next_request(), Some(StreamRequest::Count { count: 5 }));
    let sent = s.on_request_sent(&StreamRequest::Count { count: 5 });
    assert!(!s.has_request());
    s.on_control_lost(sent);
    assert_eq!(s.next_request(), Some(StreamRequest::Count { count: 5 }));
    s.on_data(StreamId(4), 0, None, true, b"x", false)
        .expect("late copy of a closed stream");
    assert_eq!(s.read(StreamId(4)), Err(ReadError::NotOpen));
}

#[test]
fn reading_moves_the_window() {
    let mut s = Streams::new(Role::Agent, LIMITS);
    s.on_data(StreamId(1), 0, None, false, &[1; 1000], false)
        .expect("full window");
    assert!(s.on_data(StreamId(1), 1000, None, false, &[1; 1], false).is_err());
    assert!(!s.has_request());
    s.read(StreamId(1)).expect("data");
    let request = s.next_request().expect("limit");
    assert_eq!(
        request,
        StreamRequest::Limit {
            stream: StreamId(1),
            limit: 2000
        }
    );
    assert_eq!(s.recv_buffered(), 0);
}

#[test]
fn stop_is_answered_by_cancel_and_both_sides_forget() {
    let mut agent = Streams::new(Role::Agent, LIMITS);
    let mut gateway = Streams::new(Role::Gateway, LIMITS);
    gateway.set_peer(1000, 4);
    let id = gateway.open(Priority::NORMAL).expect("open");
    gateway.write(id, Bytes::from_static(b"hello")).expect("room");
    let mut out = Vec::new();
    let segment = gateway.take_segment(id, 3).expect("data");
    gateway.copy_segment(id, &segment.range, &mut out);
    agent.on_data(id, 0, None, false, &out, false).expect("data");
    agent.stop(id, 9);
    let request = agent.next_request().expect("stop");
    assert_eq!(request, StreamRequest::Stop { stream: id, error: 9 });
    agent.on_request_sent(&request);
    gateway.on_stop(id, 9).expect("stop");
    assert_eq!(gateway.poll_event(), Some(StreamEvent::Stopped(id, 9)));
    assert_eq!(
        gateway.write(id, Bytes::from_static(b"x")),
        Err(WriteError::Stopped(9))
    );
    let request = gateway.next_request().expect("cancel");
    let StreamRequest::Cancel { final_offset, .. } = request else {
        panic!("{request:?}")
    };
    assert_eq!(final_offset, segment.range.end);
    let sent = gateway.on_request_sent(&request);
    agent.on_cancel(id, 9, final_offset).expect("cancel");
    gateway.on_control_acked(sent);
    assert_eq!((agent.open_count(), gateway.open_count()), ((0, 0), (0, 0)));
    assert_eq!(agent.next_request(), Some(StreamRequest::Count { count: 5 }));
    assert_eq!(gateway.send_buffered(), 0);
}

#[test]
fn a_stream_that_is_broken_off_delivers_its_bytes_before_the_error() {
    let mut agent = Streams::new(Role::Agent, LIMITS);
    let mut gateway = Streams::new(Role::Gateway, LIMITS);
    gateway.set_peer(1000, 4);
    let id = gateway.open(Priority::NORMAL).expect("open");
    gateway.write(id, Bytes::from_static(b"hello")).expect("room");
    gateway.break_off(id, 3);
    assert_eq!(
        gateway.write(id, Bytes::from_static(b"x")),
        Err(WriteError::NotOpen)
    );
    // The second part is lost, and sent again.
    let first = gateway.take_segment(id, 3).expect("data");
    let second = gateway.take_segment(id, 3).expect("data");
    let mut out = Vec::new();
    gateway.copy_segment(id, &first.range, &mut out);
    gateway.on_data_acked(id, first.range.clone(), first.fin);
    gateway.on_data_lost(id, second.range, second.fin);
    assert!(
        !gateway.has_request(),
        "no CANCEL before all bytes are acknowledged"
    );
    let again = gateway.take_segment(id, 3).expect("data");
    out.clear();
    gateway.copy_segment(id, &again.range, &mut out);
    agent.on_data(id, 3, None, again.fin, &out, false).expect("data");
    agent
        .on_data(id, 0, None, first.fin, b"hel", false)
        .expect("data");
    gateway.on_data_acked(id, again.range, again.fin);
    let request = gateway.next_request().expect("cancel");
    let cancel = StreamRequest::Cancel {
        stream: id,
        error: 3,
        final_offset: 5,
    };
    assert_eq!(request, cancel);
    let sent = gateway.on_request_sent(&request);
    agent.on_cancel(id, 3, 5).expect("cancel");
    gateway.on_control_acked(sent);
    let mut all = Vec::new();
    while let Ok(ReadOutcome::Data(bytes)) = agent.read(id) {
        all.extend_from_slice(&bytes);
    }
    assert_eq!(all, b"hello");
    assert_eq!(agent.read(id), Err(ReadError::NotOpen), "the error came once");
    assert_eq!((agent.open_count(), gateway.open_count()), ((0, 0), (0, 0)));
    assert_eq!((agent.recv_buffered(), gateway.send_buffered()), (0, 0));
    // Without bytes that wait, at once.
    let id = gateway.open(Priority::NORMAL).expect("open");
    gateway.break_off(id, 3);
    assert!(matches!(
        gateway.next_request(),
        Some(StreamRequest::Cancel { error: 3, .. })
    ));
}

#[test]
fn buffers_are_bounded_and_report_free_space() {
    let mut s = Streams::new(Role::Agent, LIMITS);
    s.set_peer(1 << 20, 4);
    let id = s.open(Priority::NORMAL).expect("open");
    assert_eq!(s.write(id, Bytes::from(vec![0; 5000])), Ok(2000));
    assert_eq!(s.write(id, Bytes::from(vec![0; 10])), Err(WriteError::Blocked));
    s.take_segment(id, 1200).expect("data");
    s.on_data_acked(id, 0..1200, false);
    assert_eq!(s.poll_event(), Some(StreamEvent::Writable(id)));
    assert_eq!(s.write(id, Bytes::from(vec![0; 5000])), Ok(1200));
}

#[test]
fn the_beginning_of_a_long_stream_precedes_a_short_stream() {
    let mut s = Streams::new(Role::Gateway, LIMITS);
    s.set_peer(10_000, 4);
    let short = s.open(Priority::NORMAL).expect("a stream");
    s.write(short, Bytes::from(vec![0; 200])).expect("space");
    s.finish(short).expect("an open stream");
    let long = s.open(Priority::new(1)).expect("a stream");
    s.write(long, Bytes::from(vec![1; 50])).expect("space");
    s.set_priority(long, Priority::NORMAL);
    s.write(long, Bytes::from(vec![1; 950])).expect("space");
    s.finish(long).expect("an open stream");
    let sent = std::iter::from_fn(|| {
        let id = s.next_sender()?;
        s.take_segment(id, 10_000).map(|segment| (id, segment.range))
    });
    let sent: Vec<_> = sent.collect();
    assert_eq!(sent, [(long, 0..50), (short, 0..200), (long, 50..1000)]);
    for (id, range) in sent {
        let fin = range.end != 50;
        s.on_data_acked(id, range, fin);
    }
    assert!(!s.has_output());
    assert_eq!(s.open_count(), (0, 0));
}
