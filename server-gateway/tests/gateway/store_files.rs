//! The cache file of the gateway: after a restart, and if it is damaged or absent.
use std::path::PathBuf;

use longhaul_gateway_core::config::settings;

use crate::{
    agent::{Agent, BodyEnd},
    gateway::Gateway,
    store::numbered,
};

async fn get(agent: &mut Agent, url: &str) -> Vec<u8> {
    let response = agent.get(url, &[]).await;
    assert_eq!(response.end, BodyEnd::Complete);
    response.body
}

const FRESH: &[(&str, &str)] = &[("cache-control", "public, max-age=600")];

fn cache_file(gateway: &Gateway) -> PathBuf {
    gateway.state.file("cache").join("gateway.sqlite")
}

#[tokio::test]
async fn stored_responses_survive_a_restart() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let (url, log) = numbered(FRESH).await;
    assert_eq!(get(&mut agent, &url).await, b"answer 1");
    assert!(cache_file(&gateway).exists());
    let home = gateway.stop().await;
    let gateway = Gateway::start_in(home, |_| {}).await;
    let mut agent = Agent::connect(&gateway).await;
    assert_eq!(get(&mut agent, &url).await, b"answer 1");
    assert_eq!(log.count(), 1);
}

#[tokio::test]
async fn a_damaged_file_loses_only_its_contents() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let (url, _) = numbered(FRESH).await;
    assert_eq!(get(&mut agent, &url).await, b"answer 1");
    let file = cache_file(&gateway);
    let home = gateway.stop().await;
    std::fs::write(&file, b"this is no database".repeat(1000)).unwrap();
    let gateway = Gateway::start_in(home, |_| {}).await;
    let mut agent = Agent::connect(&gateway).await;
    assert_eq!(get(&mut agent, &url).await, b"answer 2");
    assert_eq!(get(&mut agent, &url).await, b"answer 2");
}

#[tokio::test]
async fn the_cache_directory_is_configurable_or_off() {
    let elsewhere = tempfile::tempdir().unwrap();
    let dir = elsewhere.path().join("c").to_str().unwrap().to_owned();
    let home = tempfile::tempdir().unwrap();
    let gateway = Gateway::start_in(home, |flags| flags.set(&settings::CACHE_DIR, &dir)).await;
    assert!(!cache_file(&gateway).exists());
    assert!(elsewhere.path().join("c").join("gateway.sqlite").exists());

    let home = gateway.stop().await;
    let gateway = Gateway::start_in(home, |flags| flags.set(&settings::CACHE_SIZE, "0")).await;
    assert!(!cache_file(&gateway).exists());
    let mut agent = Agent::connect(&gateway).await;
    let (url, _) = numbered(FRESH).await;
    assert_eq!(get(&mut agent, &url).await, b"answer 1");
    assert_eq!(get(&mut agent, &url).await, b"answer 2");
}
