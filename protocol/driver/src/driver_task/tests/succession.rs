//! Silent links whose successors are opened beside them.
use longhaul_protocol::path::{LinkId, Path};

use super::{
    links::{is_open, path},
    *,
};
use crate::{
    carrier_choice::LinkCarriers,
    session::{Expectation, NetworkChange},
    udp_return::ReturnTimes,
};

/// A session over its first link, which is silent now as the other muted ones are; its user waits for data, and the network
/// has changed.
async fn on_silent_link(
    plan: impl FnOnce(LinkCarriers, ReturnTimes) -> CarrierPlan,
    muted: u32,
) -> (Pair, watch::Sender<u32>, LinkId, Expectation) {
    let (mut pair, mute) = Pair::with_links(plan);
    pair.run_until(is_open).await;
    let Some(Path::Link(link)) = path(&pair.agent) else {
        panic!("the session uses its link");
    };
    let expectation = pair.session.expect_data();
    mute.send_replace(muted);
    pair.command(ConnectionCommand::NetworkChanged(NetworkChange::Other(None)));
    (pair, mute, link, expectation)
}

fn successor(task: &DriverTask) -> Option<LinkId> {
    let choice = task.choice.as_ref()?;
    choice.link.filter(|_| choice.predecessor.is_some())
}

#[tokio::test]
async fn a_session_stays_on_its_silent_link_until_the_successor_answers() {
    let (mut pair, _mute, old, _expectation) = on_silent_link(CarrierPlan::Links, 0b1).await;
    pair.run_until(|task| successor(task).is_some()).await;
    let successor = successor(&pair.agent).unwrap();
    assert_eq!(path(&pair.agent), Some(old.into()));
    assert!(pair.agent.links.is_connected(old));
    pair.run_until(|task| path(task) == Some(successor.into())).await;
    assert!(!pair.agent.links.is_connected(old), "it has ended");
    assert!(pair.agent.choice.as_ref().unwrap().predecessor.is_none());
    // The gateway follows.
    let sent = pair.agent.clock.now();
    let handle = pair.handle();
    let heard = |task: &DriverTask| task.endpoint.peek(handle).unwrap().last_received_at();
    pair.run_until(|task| heard(task) > sent).await;
}

#[tokio::test]
async fn a_link_that_delivers_before_its_successor_answers_is_kept() {
    let (mut pair, mute, old, _expectation) = on_silent_link(CarrierPlan::Links, 0b11).await;
    pair.run_until(|task| successor(task).is_some_and(|link| task.links.is_connected(link)))
        .await;
    let successor = successor(&pair.agent).unwrap();
    mute.send_replace(0b10);
    let is_kept = |task: &DriverTask| task.choice.as_ref().unwrap().predecessor.is_none();
    pair.run_until(is_kept).await;
    assert_eq!(path(&pair.agent), Some(old.into()));
    let agent = &pair.agent;
    assert_eq!(agent.choice.as_ref().unwrap().link, Some(old));
    assert!(agent.links.is_connected(old) && !agent.links.is_connected(successor));
}

#[tokio::test]
async fn a_session_whose_link_and_its_successor_are_silent_goes_on_over_udp_that_answers() {
    let (mut pair, _mute, old, _expectation) = on_silent_link(CarrierPlan::LinksThenUdp, 0b11).await;
    let udp = pair.gateway.sockets.local_addr();
    pair.run_until(|task| path(task).and_then(Path::udp).is_some())
        .await;
    assert_eq!(path(&pair.agent).and_then(Path::udp), Some(udp));
    let choice = pair.agent.choice.as_ref().unwrap();
    assert!(choice.link.is_none() && choice.predecessor.is_none());
    assert!(!pair.agent.links.is_connected(old));
}

/// Its TCP connection is reset while the successor is being opened.
#[tokio::test]
async fn a_silent_link_that_ends_leaves_the_session_to_its_successor() {
    let (mut pair, _mute, old, _expectation) = on_silent_link(CarrierPlan::Links, 0b11).await;
    pair.run_until(|task| successor(task).is_some_and(|link| task.links.is_connected(link)))
        .await;
    let successor = successor(&pair.agent).unwrap();
    pair.agent.end_link(old);
    assert_eq!(path(&pair.agent), Some(successor.into()));
}
