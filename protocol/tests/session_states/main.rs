//! States of a session (early, open, stalled, closed) and of its path (validated or not), compared with a
//! model that sees only the wire: users, links, addresses and an attacker act in random order.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a test that cannot be set up fails")]

mod world;

use std::time::Duration;

use longhaul_protocol::connection::State;
use proptest::prelude::*;

use self::world::{AGENT, GATEWAY, LARGE, SETTLED, World};

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Link(bool),
    Request(usize, usize),
    Move(bool),
    Spoof,
    Close(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1_u64..400).prop_map(Step::Wait),
        4 => (1_000_u64..60_000).prop_map(Step::Wait),
        4 => any::<bool>().prop_map(Step::Link),
        6 => (0_usize..2, prop_oneof![Just(300), Just(LARGE)]).prop_map(|(side, len)| Step::Request(side, len)),
        2 => any::<bool>().prop_map(Step::Move),
        3 => Just(Step::Spoof),
    ]
}

/// Closing is rare, so that other steps are tested.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let close = prop_oneof![5 => Just(None), 1 => (0_usize..2).prop_map(|side| Some(Step::Close(side)))];
    (prop::collection::vec(step(), 1..40), close).prop_map(|(mut steps, close)| {
        steps.extend(close);
        steps
    })
}

fn run(steps: Vec<Step>) {
    let mut world = World::new();
    for step in steps {
        match step {
            Step::Wait(millis) => world.run(Duration::from_millis(millis)),
            Step::Link(up) => world.set_link(up),
            Step::Request(side, len) => world.request(side, len),
            Step::Move(told) => world.move_agent(told),
            Step::Spoof => world.spoof(),
            Step::Close(side) => world.close(side),
        }
        world.turn();
    }
    world.set_link(true);
    world.run(SETTLED);
    if world.closed == [false, false] {
        assert_eq!(world.states, [Some(State::Open); 2]);
        assert_eq!(
            world.finished,
            [world.opened[GATEWAY], world.opened[AGENT]],
            "streams lost"
        );
    }
}

/// The RESP goes to the address of the INIT, and not to an address that early data has shown since then.
#[test]
fn an_agent_that_moves_before_the_answer_gets_no_more_than_the_limit() {
    run(vec![
        Step::Link(true),
        Step::Move(false),
        Step::Request(AGENT, 300),
        Step::Move(false),
        Step::Wait(50),
        Step::Request(GATEWAY, LARGE),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn sessions_follow_the_state_machine_of_the_transport(steps in steps()) {
        run(steps);
    }
}
