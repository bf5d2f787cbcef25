//! Settings that change while the agent runs.
use std::time::Duration;

use crate::support::{TestAgent, TestGateway, config, device, gateway_secret, origin::origin, pair};
use longhaul_agent::{
    config::{Config, Fallback},
    gateway::GatewayState,
    https::{Accelerate, HttpsSettings},
    listener::{Access, Passwords},
};
use longhaul_session::ImageLevel;
use tokio::net::UdpSocket;

#[tokio::test]
async fn the_image_level_of_the_settings_replaces_the_users_choice_only_if_it_changed() {
    let (gateway, agent) = pair().await;
    let level = || agent.agent.control().handles.acceleration.images.level();
    agent.reload(&gateway.address(), |config| config.images = ImageLevel::Low);
    assert_eq!(level(), ImageLevel::Low);
    agent
        .agent
        .control()
        .handles
        .acceleration
        .images
        .set_level(ImageLevel::Text);
    agent.reload(&gateway.address(), |config| config.images = ImageLevel::Low);
    assert_eq!(level(), ImageLevel::Text, "chosen on the dashboard");
    agent.reload(&gateway.address(), |config| config.images = ImageLevel::High);
    assert_eq!(level(), ImageLevel::High);
}

#[tokio::test]
async fn a_password_is_required_from_the_next_request_of_an_open_connection_on() {
    const GET: &str = "GET http://site.test/page HTTP/1.1\r\nhost: site.test\r\n";
    let (gateway, agent) = pair().await;
    let mut client = agent.connect().await;
    client.send(format!("{GET}\r\n")).await.unwrap();
    assert_eq!(client.response().await.unwrap().status, 200);
    agent.reload(&gateway.address(), |config| {
        config.access = Access::new([], [], Passwords::parse("me:a long password\n").unwrap());
    });
    client.send(format!("{GET}\r\n")).await.unwrap();
    assert_eq!(client.response().await.unwrap().status, 407);
    // `me:a long password` in base64.
    client
        .send(format!(
            "{GET}Proxy-Authorization: Basic bWU6YSBsb25nIHBhc3N3b3Jk\r\n\r\n"
        ))
        .await
        .unwrap();
    assert_eq!(client.response().await.unwrap().status, 200);
}

#[tokio::test]
async fn the_direct_fallback_and_its_addresses_apply_to_the_next_request() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let origin = origin().await;
    let agent = TestAgent::start(&address, Fallback::Never).await;
    let soon = Fallback::After(Duration::from_millis(1));
    agent.reload(&address, |config| config.fallback = soon);
    let reply = agent.get(&format!("http://{origin}/page")).await;
    assert_eq!((reply.status, agent.status().direct_requests), (200, 1));
    agent.reload(&address, |config| {
        config.fallback = soon;
        config.direct_allow.clear();
    });
    let reply = agent.get(&format!("http://{origin}/page")).await;
    assert_ne!(
        reply.status,
        200,
        "although a connection is pooled: {}",
        reply.text()
    );
}

#[tokio::test]
async fn page_bundles_and_early_cookies_can_be_switched_off() {
    let (gateway, agent) = pair().await;
    assert!(agent.status().push_enabled);
    agent.reload(&gateway.address(), |config| {
        config.push.enabled = false;
        config.early_credentials = longhaul_agent::config::EarlyCredentials::Withheld;
    });
    assert!(!agent.status().push_enabled);
    let rules = **agent.agent.control().handles.upstream.rules.load();
    assert!(!rules.allows_early_cookies);
    assert_eq!(agent.get("http://site.test/page").await.text(), "this is page");
}

#[tokio::test]
async fn acceleration_can_be_switched_on_and_an_unusable_authority_changes_nothing() {
    let (gateway, agent) = pair().await;
    let https = &agent.agent.control().handles.acceleration.https;
    assert_eq!(https.fingerprint(), None);
    let all = HttpsSettings {
        accelerate: Accelerate::All,
        except: Vec::new(),
    };
    let key = agent.dir.path().join("state/ca.key");
    std::fs::create_dir(&key).unwrap();
    let address = gateway.address();
    let wrong = Config {
        https: all.clone(),
        images: ImageLevel::Text,
        ..config(
            &agent.dir,
            &address,
            gateway_secret().public(),
            device(),
            Fallback::Never,
        )
    };
    let error = agent.agent.reload(wrong).unwrap_err();
    assert!(
        error.to_string().starts_with("HTTPS cannot be accelerated"),
        "{error}"
    );
    assert_eq!(https.settings().accelerate, Accelerate::Off);
    assert_ne!(
        agent.agent.control().handles.acceleration.images.level(),
        ImageLevel::Text
    );
    std::fs::remove_dir(&key).unwrap();
    agent.reload(&address, |config| config.https = all.clone());
    assert!(https.fingerprint().is_some());
    agent.reload(&address, |_| {});
    assert_eq!(
        (https.fingerprint(), &https.settings().accelerate),
        (None, &Accelerate::Off)
    );
}

#[tokio::test]
async fn a_running_agent_answers_the_watchdog_with_and_without_a_session() {
    let (_gateway, agent) = pair().await;
    agent.agent.answered().await;
    let agent = TestAgent::start("127.0.0.1:9", Fallback::Never).await;
    agent.agent.answered().await;
    let gateway = TestGateway::start();
    let agent = TestAgent::start(&gateway.address(), Fallback::Never).await;
    agent.agent.answered().await;
    agent.reach(GatewayState::Open).await;
}
