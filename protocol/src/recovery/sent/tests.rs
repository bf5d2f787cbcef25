use super::*;

fn content(number: u64) -> SentContent {
    SentContent::Data {
        stream: StreamId(0),
        range: number * 1000..number * 1000 + 1000,
        fin: false,
    }
}

fn book(packets: u64) -> SentPackets {
    let mut book = SentPackets::default();
    for number in 0..packets {
        let at = Timestamp::ZERO + Duration::from_millis(number * 10);
        book.on_sent(at, 1000, vec![content(number)]);
    }
    book
}

fn gaps(largest: u64, ranges: &[(GapKind, Range<u64>)]) -> Gaps {
    Gaps::from_ranges(largest, ranges.iter().cloned(), 256)
}

#[test]
fn packets_outside_gaps_are_acknowledged_and_declared_gaps_are_lost_once() {
    let mut book = book(10);
    let told = gaps(7, &[(GapKind::Declared, 2..4), (GapKind::Pending, 5..6)]);
    let report = book.on_feedback(7, &told).expect("valid");
    assert_eq!((report.acked_packets, report.lost_packets), (5, 2));
    assert_eq!(report.lost, [content(2), content(3)]);
    assert_eq!(book.outstanding(), 2000);
    assert_eq!(book.oldest(), Some(5));
    assert!(book.forward_due());
    let again = book.on_feedback(7, &told).expect("valid");
    assert!(!again.progress && again.lost.is_empty());
    let report = book.on_feedback(8, &Gaps::default()).expect("valid");
    assert_eq!(report.acked, [content(5), content(8)]);
    assert!(!book.forward_due());
    assert!(book.on_feedback(10, &Gaps::default()).is_none(), "never sent");
}

#[test]
fn gaps_beyond_the_limit_are_reported_as_one_pending_gap() {
    let mut book = book(200);
    let all = (0..60).map(|i| (GapKind::Declared, i * 2..i * 2 + 1));
    let told = Gaps::from_ranges(150, all, 32);
    let report = book.on_feedback(150, &told).expect("valid");
    assert_eq!(report.lost_packets, 31);
    assert_eq!(
        report.acked_packets,
        31 + 32,
        "odd ones below the range that stands for the others, and what is behind it"
    );
    let report = book.on_feedback(150, &Gaps::default()).expect("valid");
    assert_eq!(report.acked_packets, 57);
    assert_eq!(book.oldest(), Some(151));
}

#[test]
fn uncounted_packets_at_the_front_take_no_memory() {
    let mut book = SentPackets::default();
    for _ in 0..1000 {
        book.on_sent(Timestamp::ZERO, 0, Vec::new());
    }
    assert_eq!((book.len(), book.next_number()), (0, 1000));
    book.on_sent(Timestamp::ZERO, 500, vec![content(0)]);
    assert_eq!(book.outstanding(), 500);
    let report = book.on_feedback(999, &Gaps::default()).expect("valid");
    assert!(report.progress && report.acked.is_empty());
    assert_eq!(book.outstanding(), 500);
    book.on_feedback(1000, &Gaps::default()).expect("valid");
    assert_eq!((book.outstanding(), book.len()), (0, 0));
}

#[test]
fn the_tail_rule_frees_credit() {
    let mut book = book(5);
    book.on_feedback(1, &Gaps::default()).expect("valid");
    let sent = Timestamp::ZERO + Duration::from_millis(10);
    let margin = Duration::from_millis(20);
    let report = book.lose_tail(
        Duration::from_millis(45),
        margin,
        sent,
        ByteRate::new(1e6),
        MAX_TAIL,
    );
    assert_eq!(report.lost, [content(2), content(3)]);
    assert_eq!(book.outstanding(), 1000);
    book.on_feedback(4, &gaps(4, &[(GapKind::Pending, 2..4)]))
        .expect("valid");
    assert_eq!(book.outstanding(), 0);
}

#[test]
fn all_packets_may_be_lost() {
    let mut book = book(3);
    assert_eq!(book.lose_all().lost.len(), 3);
    assert_eq!(
        (book.outstanding(), book.len(), book.is_awaiting()),
        (0, 0, false)
    );
    assert_eq!(book.next_number(), 3);
}
