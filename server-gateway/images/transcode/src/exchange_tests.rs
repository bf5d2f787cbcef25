use proptest::prelude::*;

use super::*;

fn any_job() -> impl Strategy<Value = Job> {
    let request = (0..5_usize, 0..4_usize, any::<[u32; 3]>());
    let limits = (any::<u32>(), any::<[u64; 3]>(), any::<u32>());
    (request, limits, any::<(u32, u64)>()).prop_map(
        |((level, effort, [width, height, ratio_percent]), limits, (milliseconds, memory))| {
            let (input_bytes, [pixels, animation_pixels, decode_bytes], frames) = limits;
            Job {
                request: Request {
                    level: ImageLevel::ALL[level],
                    viewport: Viewport {
                        width,
                        height,
                        ratio_percent,
                    },
                    effort: EFFORTS[effort],
                    limits: Limits {
                        input_bytes: usize::try_from(input_bytes).expect("32 bits"),
                        pixels,
                        frames,
                        animation_pixels,
                        decode_bytes,
                    },
                },
                milliseconds,
                memory,
            }
        },
    )
}

fn any_reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Ready),
        Just(Reply::Kept),
        proptest::collection::vec(any::<u8>(), 1..300).prop_map(Reply::Transcoded),
        (0..REFUSALS.len()).prop_map(|refusal| Reply::Refused(REFUSALS[refusal])),
    ]
}

/// Returns the contents of the frame in `wire`; an error if `wire` is not exactly one frame.
fn frame(wire: &[u8], most: usize) -> Result<&[u8], ExchangeError> {
    let (prefix, rest) = wire.split_first_chunk().ok_or(ExchangeError::Length)?;
    let length = frame_length(*prefix, most)?;
    (rest.len() == length)
        .then_some(rest)
        .ok_or(ExchangeError::Length)
}

fn read_job(wire: &[u8]) -> Result<(Job, &[u8]), ExchangeError> {
    Job::decode(frame(wire, MAX_JOB)?)
}

fn read_reply(wire: &[u8]) -> Result<Reply, ExchangeError> {
    Reply::decode(frame(wire, Reply::longest(1_000))?)
}

fn job_wire(job: &Job, picture: &[u8]) -> Vec<u8> {
    [
        job.encode(picture.len()).expect("a small picture"),
        picture.to_vec(),
    ]
    .concat()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn jobs_round_trip_and_truncated_jobs_are_rejected(
        job in any_job(),
        picture in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let wire = job_wire(&job, &picture);
        prop_assert_eq!(read_job(&wire), Ok((job, picture.as_slice())));
        for length in 0..wire.len() {
            prop_assert!(read_job(&wire[..length]).is_err(), "{} bytes", length);
        }
    }

    #[test]
    fn replies_round_trip_and_truncated_replies_are_rejected(reply in any_reply()) {
        let wire = reply.encode().expect("a small picture");
        prop_assert_eq!(read_reply(&wire), Ok(reply));
        for length in 0..wire.len() {
            prop_assert!(read_reply(&wire[..length]).is_err(), "{} bytes", length);
        }
    }

    #[test]
    fn changed_messages_are_rejected_or_canonical(
        job in any_job(),
        reply in any_reply(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        more in proptest::collection::vec(any::<u8>(), 0..3),
    ) {
        let changed = |mut wire: Vec<u8>| {
            for (place, value) in &changes {
                let place = place.index(wire.len());
                wire[place] = *value;
            }
            wire.extend(&more);
            wire
        };
        let wire = changed(job_wire(&job, b"picture"));
        if let Ok((job, picture)) = read_job(&wire) {
            prop_assert_eq!(job_wire(&job, picture), wire);
        }
        let wire = changed(reply.encode().expect("a small picture"));
        if let Ok(reply) = read_reply(&wire) {
            prop_assert_eq!(reply.encode(), Ok(wire));
        }
    }
}

#[test]
fn a_changed_byte_of_an_enumerated_value_is_detected() {
    let job = Job {
        request: Request::default(),
        milliseconds: 1,
        memory: 1,
    };
    let wire = job_wire(&job, b"");
    for (place, most) in [(0, 4), (1, 3)] {
        for value in 0..=u8::MAX {
            let mut changed = wire.clone();
            changed[PREFIX + place] = value;
            assert_eq!(read_job(&changed).is_ok(), value <= most, "{place}: {value}");
        }
    }
    for kind in 4..=u8::MAX {
        assert_eq!(Reply::decode(&[kind]), Err(ExchangeError::Number));
    }
    assert_eq!(Reply::decode(&[REFUSED, 5]), Err(ExchangeError::Number));
    assert_eq!(Reply::decode(&[KEPT, 0]), Err(ExchangeError::Length));
    assert_eq!(Reply::decode(&[TRANSCODED]), Err(ExchangeError::Length));
}

#[test]
fn allocations_stay_within_the_allowed_length() {
    assert_eq!(frame_length([5, 0, 0, 0], 5), Ok(5));
    assert_eq!(frame_length([6, 0, 0, 0], 5), Err(ExchangeError::TooLong(6)));
    assert_eq!(
        frame_length([255; 4], MAX_JOB),
        Err(ExchangeError::TooLong(u32::MAX.into()))
    );
    let job = Job {
        request: Request::default(),
        milliseconds: 1,
        memory: 1,
    };
    assert!(job.encode(MAX_PICTURE).is_ok());
    assert!(job.encode(MAX_PICTURE + 1).is_err());
}
