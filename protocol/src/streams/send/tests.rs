use super::*;

fn stream() -> SendStream {
    SendStream::new(Priority::NORMAL, 1 << 20)
}

fn bytes_of(stream: &mut SendStream, segment: &Segment) -> Vec<u8> {
    let mut out = Vec::new();
    stream.copy_range(&segment.range, &mut out);
    out
}

#[test]
fn small_writes_are_merged_and_read_back() {
    let mut s = stream();
    for i in 0..2000u32 {
        s.write(Bytes::copy_from_slice(&i.to_be_bytes()));
    }
    s.write(Bytes::from(vec![7; 10_000]));
    s.write(Bytes::from_static(b"end"));
    let mut expected: Vec<u8> = (0..2000u32).flat_map(u32::to_be_bytes).collect();
    expected.extend_from_slice(&[7; 10_000]);
    expected.extend_from_slice(b"end");
    s.finish();
    let mut seen = Vec::new();
    let mut fin = false;
    while let Some(segment) = s.next_segment(1000) {
        seen.extend(bytes_of(&mut s, &segment));
        fin |= segment.fin;
    }
    assert_eq!(seen, expected);
    assert!(fin);
    assert!(s.chunks.len() < 8);
}

#[test]
fn lost_bytes_go_first_and_once() {
    let mut s = stream();
    s.write(Bytes::from(vec![1; 3000]));
    s.finish();
    let all: Vec<_> = std::iter::from_fn(|| s.next_segment(1000)).collect();
    assert_eq!(all.len(), 3);
    s.on_lost(1000..2000, false);
    s.on_acked(0..1000, false);
    s.on_lost(0..1000, false);
    let again = s.next_segment(5000).expect("lost bytes");
    assert_eq!((again.range, again.origin), (1000..2000, Origin::Retransmission));
    assert_eq!(s.next_segment(5000), None);
    s.on_acked(1000..2000, false);
    assert!(!s.is_done());
    s.on_lost(2000..3000, true);
    let last = s.next_segment(5000).expect("lost tail");
    assert!(last.fin);
    s.on_acked(2000..3000, true);
    assert!(s.is_done());
    assert_eq!(s.buffered(), 0);
}

#[test]
fn an_empty_stream_sends_a_fin() {
    let mut s = stream();
    assert_eq!(s.next_segment(100), None);
    s.finish();
    let segment = s.next_segment(100).expect("FIN");
    assert_eq!((segment.range.clone(), segment.fin), (0..0, true));
    assert_eq!(s.next_segment(100), None);
    s.on_lost(0..0, true);
    assert!(s.next_segment(100).expect("FIN again").fin);
    s.on_acked(0..0, true);
    assert!(s.is_done());
}

#[test]
fn the_flow_control_window_blocks_new_bytes() {
    let mut s = SendStream::new(Priority::NORMAL, 10);
    s.write(Bytes::from(vec![1; 30]));
    assert_eq!(s.next_segment(100).map(|s| s.range), Some(0..10));
    assert!(s.is_window_blocked() && !s.has_new());
    s.limit = 40;
    assert_eq!(s.next_segment(100).map(|s| s.range), Some(10..30));
}

#[test]
fn the_beginning_of_a_stream_keeps_its_more_urgent_class() {
    let mut s = SendStream::new(Priority::new(1), 1 << 20);
    s.write(Bytes::from(vec![1; 100]));
    s.set_priority(Priority::new(3));
    s.write(Bytes::from(vec![2; 900]));
    s.finish();
    assert_eq!((s.priority(), s.remaining()), (Priority::new(1), Some(100)));
    let head = s.next_segment(1000).expect("the beginning");
    assert_eq!((head.range, head.fin, head.total), (0..100, false, Some(1000)));
    assert_eq!((s.priority(), s.remaining()), (Priority::new(3), Some(900)));
    // A lost beginning is as urgent as before.
    s.on_lost(0..100, false);
    assert_eq!(s.priority(), Priority::new(1));
    assert_eq!(s.next_segment(1000).expect("lost bytes").range, 0..100);
    // What was sent is no beginning, and a more urgent class holds for all bytes.
    s.set_priority(Priority::new(5));
    assert_eq!(s.priority(), Priority::new(5));
    s.set_priority(Priority::CONTROL);
    s.on_lost(0..100, false);
    assert_eq!(s.priority(), Priority::CONTROL);
}
