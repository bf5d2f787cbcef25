//! Sending and receiving halves of streams, compared with a model of the users' actions: with any loss,
//! duplication, delay and reordering in the network, and any order of the users' actions.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test that cannot be set up fails")]

mod pair;

use longhaul_protocol::streams::Priority;
use proptest::{prelude::*, sample::Index};

use self::pair::{Model, Pair, take};

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Write(usize, Index, u64),
    Finish(usize, Index),
    Cancel(usize, Index, u64),
    Stop(usize, Index, u64),
    Read(usize, Index),
    Send(usize, u64),
    Arrive(usize, Index),
    Acknowledge(usize, Index),
    Lose(usize, Index),
    /// A packet is declared lost and arrives afterwards.
    TakeForLost(usize, Index),
}

fn step() -> impl Strategy<Value = Step> {
    let side = 0_usize..2;
    let any = any::<Index>;
    prop_oneof![
        3 => side.clone().prop_map(Step::Open),
        6 => (side.clone(), any(), 0_u64..400).prop_map(|(side, which, len)| Step::Write(side, which, len)),
        2 => (side.clone(), any()).prop_map(|(side, which)| Step::Finish(side, which)),
        1 => (side.clone(), any(), 0_u64..50).prop_map(|(side, which, error)| Step::Cancel(side, which, error)),
        1 => (side.clone(), any(), 50_u64..99).prop_map(|(side, which, error)| Step::Stop(side, which, error)),
        6 => (side.clone(), any()).prop_map(|(side, which)| Step::Read(side, which)),
        10 => (side.clone(), 1_u64..150).prop_map(|(side, max)| Step::Send(side, max)),
        9 => (side.clone(), any()).prop_map(|(side, which)| Step::Arrive(side, which)),
        7 => (side.clone(), any()).prop_map(|(side, which)| Step::Acknowledge(side, which)),
        2 => (side.clone(), any()).prop_map(|(side, which)| Step::Lose(side, which)),
        1 => (side, any()).prop_map(|(side, which)| Step::TakeForLost(side, which)),
    ]
}

fn run(steps: Vec<Step>) {
    let mut pair = Pair::new();
    for step in steps {
        match step {
            Step::Open(side) => {
                if let Ok(id) = pair.sides[side].open(Priority::NORMAL) {
                    assert!(pair.models.insert(id, Model::default()).is_none());
                }
            }
            Step::Write(side, which, len) => {
                if let Some(id) = pair.pick(side, true, which) {
                    pair.write(side, id, len);
                }
            }
            Step::Finish(side, which) => {
                if let Some(id) = pair.pick(side, true, which) {
                    pair.finish(side, id);
                }
            }
            Step::Cancel(side, which, error) => {
                if let Some(id) = pair.pick(side, true, which) {
                    pair.cancel(side, id, error);
                }
            }
            Step::Stop(side, which, error) => {
                if let Some(id) = pair.pick(side, false, which) {
                    pair.stop(side, id, error);
                }
            }
            Step::Read(side, which) => {
                if let Some(id) = pair.pick(side, false, which) {
                    pair.read(side, id);
                }
            }
            Step::Send(side, max) => pair.send(side, max),
            Step::Arrive(side, which) => {
                if let Some(packet) = take(&mut pair.flying[side], which) {
                    pair.arrive(side, &packet);
                    pair.unacknowledged[side].push(packet);
                }
            }
            Step::Acknowledge(side, which) => {
                if let Some(packet) = take(&mut pair.unacknowledged[side], which) {
                    pair.report(1 - side, packet, true);
                }
            }
            Step::Lose(side, which) => {
                if let Some(packet) = take(&mut pair.flying[side], which) {
                    pair.report(1 - side, packet, false);
                }
            }
            Step::TakeForLost(side, which) => {
                if let Some(packet) = take(&mut pair.flying[side], which) {
                    pair.report(1 - side, packet.clone(), false);
                    pair.arrive(side, &packet);
                }
            }
        }
        pair.check_bounds();
    }
    pair.come_to_an_end();
    pair.check_ends();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn streams_deliver_the_operations_of_their_users(steps in prop::collection::vec(step(), 1..250)) {
        run(steps);
    }
}
