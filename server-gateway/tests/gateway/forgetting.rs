//! Deletion on `Forget`: the gateway's files contain nothing of the data afterwards.
use std::path::{Path, PathBuf};

use longhaul_session::{Fetch, Forget, ForgetId, Message, Method};
use longhaul_types::ClientId;

use crate::{
    agent::{Agent, Answer, fetch_of},
    bundles::{Site, resource, setup},
    gateway::Gateway,
};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

/// Returns true if a file of the gateway contains this text.
fn is_in_a_file(folder: &Path, text: &str) -> bool {
    files(folder).iter().any(|path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

/// Sends `Forget` and waits for `Forgotten` on `control`, the gateway's control stream after `Welcome`.
async fn forget(agent: &mut Agent, control: &mut Answer, id: u64, client: Option<u64>, site: Option<&str>) {
    let site = site.map(str::to_owned);
    let id = ForgetId::new(id);
    let client = client.map(ClientId);
    agent.say(Message::Forget(Forget { id, client, site })).await;
    let forgotten = loop {
        match control.next_message().await.unwrap() {
            Message::Forgotten(forgotten) => break forgotten,
            Message::OriginReport(_) | Message::Announcement(_) => {}
            other => panic!("no `Forgotten` in response to `Forget`: {other:?}"),
        }
    };
    assert_eq!(forgotten.id, id);
}

async fn get_for(agent: &mut Agent, client: u64, url: &str) {
    let fetch = Fetch {
        client: ClientId(client),
        ..fetch_of(agent.id(), Method::Get, url, &[])
    };
    agent.send(Message::Fetch(fetch)).await;
    agent.answer().await.response(&agent.session).await;
}

#[tokio::test]
async fn deleted_data_is_in_no_file() {
    let (gateway, _) = setup().await;
    let device = gateway.admit("forgetful");
    let (mut agent, mut control) = Agent::connect_listening(&gateway, &device, 77).await;
    let private = "private, max-age=600";
    let body = |word: &str| resource("text/plain", format!("{word} ").repeat(2000));
    let site = Site::start([
        ("/mine", body("tulip-of-a").with("cache-control", private)),
        ("/other", body("orchid-of-b").with("cache-control", private)),
        ("/guest", body("crocus-of-guest").with("cache-control", private)),
        (
            "/public",
            body("daisy-for-all").with("cache-control", "public, max-age=600"),
        ),
        ("/rest", body("violet-of-a").with("cache-control", private)),
    ])
    .await;
    for (client, host, path) in [
        (0, "a", "/mine"),
        (0, "a", "/public"),
        (0, "b", "/other"),
        (5, "a", "/guest"),
    ] {
        get_for(&mut agent, client, &site.url(host, path)).await;
    }
    let folder = gateway.folder();
    let kept = |word: &str| is_in_a_file(&folder, word);
    for word in ["tulip-of-a", "daisy-for-all", "orchid-of-b", "crocus-of-guest"] {
        assert!(kept(word), "the search does not find {word}");
    }
    forget(&mut agent, &mut control, 1, Some(0), Some("a.test")).await;
    assert!(!kept("tulip-of-a") && !kept("daisy-for-all"));
    assert!(kept("orchid-of-b") && kept("crocus-of-guest"));
    get_for(&mut agent, 0, &site.url("a", "/rest")).await;
    forget(&mut agent, &mut control, 2, Some(5), None).await;
    assert!(!kept("crocus-of-guest") && kept("orchid-of-b") && kept("violet-of-a"));
    forget(&mut agent, &mut control, 3, None, None).await;
    assert!(!kept("orchid-of-b") && !kept("violet-of-a"));
    assert!(
        !kept("a.test") && !kept("b.test"),
        "the deleted text remains in a file"
    );
    get_for(&mut agent, 0, &site.url("a", "/mine")).await;
    assert_eq!(site.requests("/mine").len(), 2);
    let _home = Gateway::stop(gateway).await;
}
