use proptest::prelude::*;

use super::*;
use crate::{CrossOrigin, ReferrerPolicy};

/// Texts of which two in succession have no common prefix.
fn distinct(index: usize, length: usize) -> String {
    let letter = |number: usize| char::from(b'a' + u8::try_from(number % 26).unwrap());
    format!(
        "{}{}{}",
        letter(index),
        letter(index / 26),
        "x".repeat(length - 2)
    )
}

fn full() -> Record {
    let seen = UnixTime::new(Duration::from_secs(1_760_000_000));
    let evidence = Evidence {
        first: u32::MAX,
        of_more: true,
    };
    let extras = (0..600).map(|index: usize| Extra {
        url: distinct(index, 501),
        destination: Destination::Script,
        form: RequestForm {
            cross_origin: CrossOrigin::Omitted,
            referrer_policy: Some(ReferrerPolicy::UnsafeUrl),
        },
        misses: 3,
        volatile: true,
        absent: true,
        body: Some(u64::MAX),
        seen,
        evidence,
    });
    let suppressed = (0..300).map(|index| Suppressed {
        hash: index,
        strikes: 9,
        until: seen,
        evidence,
    });
    let witnessed = (0..600).map(|index| Witnessed {
        url: index,
        device: u64::MAX,
        literal: (index % 2 == 0).then_some(LiteralRequest {
            destination: Destination::Image,
            form: RequestForm::default(),
        }),
        seen,
    });
    Record {
        extras: extras.collect(),
        suppressed: suppressed.collect(),
        witnessed: witnessed.collect(),
    }
}

#[test]
fn records_round_trip_within_their_bounds() {
    let mut record = full();
    let fitting = MAX_URLS / 501;
    assert_eq!(record.fit(), 600 - fitting);
    let bytes = record.encode();
    assert!(bytes.len() <= MAX_RECORD, "{}", bytes.len());
    let read = Record::decode(&bytes).unwrap();
    assert_eq!(read.extras, record.extras);
    assert_eq!(read.suppressed, record.suppressed[44..]);
    assert_eq!(read.witnessed, record.witnessed[88..]);
    assert_eq!(Record::decode(&read.encode()), Ok(read));
    assert_eq!(Record::decode(&Record::default().encode()), Ok(Record::default()));
}

#[test]
fn an_extra_that_does_not_fit_is_skipped_and_shorter_ones_follow() {
    let mut record = full();
    let short = Extra {
        url: "/short.js".to_owned(),
        ..record.extras[0].clone()
    };
    record.extras.truncate(MAX_URLS / 501 + 1);
    record.extras.push(short.clone());
    assert_eq!(record.fit(), 1);
    assert_eq!(record.extras.last(), Some(&short));
    // Common prefixes take no room.
    let extras = (0..MAX_EXTRAS).map(|index| Extra {
        url: format!("/{}{index:03}", "y".repeat(1000)),
        ..short.clone()
    });
    let mut similar = Record {
        extras: extras.collect(),
        ..Record::default()
    };
    assert_eq!(similar.fit(), 0);
    assert!(similar.encode().len() < 16 * 1024, "{}", similar.encode().len());
    assert_eq!(Record::decode(&similar.encode()), Ok(similar));
}

#[test]
fn records_of_full_size_stay_within_the_limit() {
    let mut record = full();
    for (index, extra) in record.extras.iter_mut().enumerate() {
        extra.url = distinct(index, 127);
    }
    assert_eq!(record.fit(), 600 - MAX_EXTRAS);
    let size = record.encode().len();
    assert!(size <= MAX_RECORD && size > MAX_RECORD * 3 / 4, "{size}");
}

#[test]
fn damaged_records_are_detected() {
    let mut record = full();
    record.extras.truncate(3);
    record.suppressed.truncate(3);
    record.witnessed.truncate(3);
    let bytes = record.encode();
    for length in 0..bytes.len() {
        assert_eq!(Record::decode(&bytes[..length]), Err(RecordError::Damaged));
    }
    for older in [1, 2, 3] {
        assert_eq!(Record::decode(&[older]), Err(RecordError::Version(older)));
    }
    assert_eq!(Record::decode(&[VERSION, 0x42, 1]), Err(RecordError::TooLarge));
    assert_eq!(
        Record::decode(&vec![1; MAX_RECORD + 1]),
        Err(RecordError::TooLarge)
    );
    let mut longer = Record::default().encode();
    longer.push(0);
    assert_eq!(Record::decode(&longer), Err(RecordError::Damaged));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut versioned = vec![VERSION];
        versioned.extend_from_slice(&bytes);
        for input in [&bytes, &versioned] {
            if let Ok(record) = Record::decode(input) {
                prop_assert_eq!(&record.encode(), input);
            }
        }
    }
}
