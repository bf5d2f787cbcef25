//! Bodies encoded against dictionaries.
use http::{Request, Response};
use longhaul_codec::dictionary;
use longhaul_session::{BodyCoding, Delivery, Dictionaries, Fetch, Message, Method};

use crate::{
    agent::{Agent, BodyEnd, fetch_of},
    gateway::Gateway,
    origin::{full, serve},
};

/// Maximum number of attempts until the gateway has processed the agent's `Dictionaries`.
const ATTEMPTS: u32 = 50;

/// A library in a release that no dictionary contains.
fn library() -> Vec<u8> {
    let shipped = dictionary::all().map(|hash| dictionary::find(hash.as_bytes()).unwrap());
    let jquery = shipped
        .into_iter()
        .find(|contents| contents.windows(14).any(|window| window == b"jQuery v3.7.1 "))
        .unwrap();
    let mut library = b"/*! jQuery v3.9.9 | (c) OpenJS Foundation */".to_vec();
    library.extend_from_slice(&jquery[jquery.len() - 60_000..jquery.len() - 1000]);
    library
}

async fn origin() -> u16 {
    serve(|_: Request<hyper::body::Incoming>| async {
        Response::builder()
            .header("content-type", "text/javascript")
            .body(full(library()))
            .unwrap()
    })
    .await
}

async fn agent(gateway: &Gateway) -> Agent {
    let device = gateway.admit("test device");
    Agent::connect_over(gateway, &device, 0, "umts-384").await
}

#[tokio::test]
async fn a_library_takes_only_its_difference_from_the_dictionary() {
    let gateway = Gateway::start().await;
    let mut agent = agent(&gateway).await;
    let url = format!("http://a.test:{}/jquery.js", origin().await);
    agent
        .say(Message::Dictionaries(Dictionaries {
            set: dictionary::NEWEST_SET,
        }))
        .await;
    for _ in 0..ATTEMPTS {
        let response = agent.get(&url, &[]).await;
        assert_eq!(response.end, BodyEnd::Complete);
        assert!(response.body == library());
        let announced = response.announced.unwrap();
        if let Some(base) = announced.base {
            assert!(dictionary::knows(base.as_bytes()));
            assert_eq!(announced.coding, BodyCoding::Zstd);
            assert!(response.total.unwrap() < 1_500, "{:?}", response.total);
            // With plain delivery the agent gets the body without base.
            let again = Fetch {
                delivery: Delivery::Plain,
                ..fetch_of(agent.id(), Method::Get, &url, &[])
            };
            agent.send(Message::Fetch(again)).await;
            let plain = agent.answer().await.response(&agent.session).await;
            assert_eq!(plain.announced.unwrap().base, None);
            assert!(plain.body == library());
            return;
        }
    }
    panic!("no dictionary was used");
}

#[tokio::test]
async fn an_agent_that_names_no_set_gets_no_dictionary() {
    let gateway = Gateway::start().await;
    let mut agent = agent(&gateway).await;
    let url = format!("http://a.test:{}/jquery.js", origin().await);
    for _ in 0..3 {
        let response = agent.get(&url, &[]).await;
        assert!(response.body == library());
        let announced = response.announced.unwrap();
        assert_eq!((announced.coding, announced.base), (BodyCoding::Brotli, None));
    }
    agent.say(Message::Dictionaries(Dictionaries { set: 0 })).await;
    assert_eq!(agent.get(&url, &[]).await.announced.unwrap().base, None);
}
