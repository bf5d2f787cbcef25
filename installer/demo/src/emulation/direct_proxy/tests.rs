use std::time::Duration;

use longhaul_netem::Profile;
use longhaul_replay::{
    origin::{Content, Origin},
    page::{Client, Loader, Oracle, Request, Route, client_trust},
    tls::TestAuthority,
};
use longhaul_types::ByteCount;
use tokio::time::Instant;

use super::*;
use crate::{emulation::hop, overrides::Override, site::Site};

struct Web {
    content: Arc<Content>,
    authority: TestAuthority,
    _origin: Origin,
    proxy: DirectProxy,
}

async fn web(config: HopConfig) -> Web {
    let content = Arc::new(Content::new(None).with_host(Site::built_in()));
    let authority = TestAuthority::new().unwrap();
    let origin = Origin::start(Arc::clone(&content), &authority).await.unwrap();
    let entry = |name: &str, address: SocketAddr| Override {
        name: name.to_owned(),
        address: address.to_string(),
    };
    let names = Names::new(vec![entry("*:80", origin.http()), entry("*:443", origin.https())]);
    let proxy = DirectProxy::start(config, names).await.unwrap();
    Web {
        content,
        authority,
        _origin: origin,
        proxy,
    }
}

impl Web {
    fn client(&self) -> Client {
        let trust = client_trust(std::slice::from_ref(self.authority.certificate())).unwrap();
        Client::new(Route::Proxy(self.proxy.address()), trust)
    }
}

#[tokio::test]
async fn a_page_takes_at_least_its_bytes_at_the_rate_and_its_round_trips() {
    let mut config = hop(Profile::named("lte").unwrap());
    config.down.jitter = Duration::ZERO;
    let web = web(config).await;
    for page in [Site::URL, "https://demo.test/"] {
        web.proxy.restart();
        let before = web.proxy.received();
        let oracle: Arc<dyn Oracle> = Arc::<Content>::clone(&web.content);
        let loaded = Loader::new(web.client(), Some(oracle))
            .load(&page.parse().unwrap(), |_, _| {})
            .await;
        assert_eq!(
            loaded.failures().count(),
            0,
            "{:?}",
            loaded.failures().collect::<Vec<_>>()
        );
        let bodies: u64 = Site::built_in().sizes().sum();
        let carried = web.proxy.received() - before;
        assert!(
            carried > bodies,
            "{carried} bytes carry {bodies} bytes of bodies and their heads"
        );
        // Name, TCP, page, style sheet, its picture; TLS has one more.
        let rounds = if page.starts_with("https") { 6 } else { 5 };
        let least = ByteCount::new(bodies) / Profile::named("lte").unwrap().rate_down()
            + Duration::from_millis(60) * 2;
        assert!(
            loaded.time >= least,
            "{page}: {:?} is below {least:?}",
            loaded.time
        );
        let round_trips = Duration::from_millis(60) * rounds;
        assert!(loaded.time >= round_trips, "{page}: {:?}", loaded.time);
    }
}

#[tokio::test]
async fn connections_are_reused_and_names_are_looked_up_once() {
    let web = web(hop(Profile::named("cdma-1x").unwrap())).await;
    let client = web.client();
    let request = Request {
        url: "http://demo.test/css/base.css".parse().unwrap(),
        headers: HeaderMap::new(),
    };
    let mut times = Vec::new();
    for _ in 0..2 {
        let start = Instant::now();
        let response = client.get(&request).await.unwrap();
        assert_eq!(response.status, StatusCode::OK);
        times.push(start.elapsed());
    }
    // A round trip takes at least 400 ms.
    assert!(
        times[0] >= Duration::from_millis(1200),
        "name, TCP, response: {times:?}"
    );
    assert!(times[1] >= Duration::from_millis(400), "{times:?}");
    assert!(times[1] < times[0], "{times:?}");
}

#[tokio::test]
async fn failures_name_the_host() {
    let proxy = DirectProxy::start(hop(Profile::named("lan-fast").unwrap()), Names::default())
        .await
        .unwrap();
    let client = Client::new(Route::Proxy(proxy.address()), client_trust(&[]).unwrap());
    let get = async |url: &str| {
        let request = Request {
            url: url.parse().unwrap(),
            headers: HeaderMap::new(),
        };
        client.get(&request).await
    };
    // Port 9 (discard) of the loopback interface is closed.
    let response = get("http://127.0.0.1:9/").await.unwrap();
    assert_eq!(response.status, StatusCode::BAD_GATEWAY);
    assert!(String::from_utf8_lossy(&response.body).starts_with("127.0.0.1 cannot be reached directly"));
    assert!(get("https://127.0.0.1:9/").await.is_err());
}
