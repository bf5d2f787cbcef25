//! What is fetched ahead, for whom, and with which fields.
use bytes::Bytes;
use longhaul_gateway_core::{admission::clients::ClientIdentity, config::settings};
use longhaul_page::CredentialsPermission;
use longhaul_session::ImageLevel;
use longhaul_types::{ContentHash, PublicKey};
use longhaul_webcache::{Audience, BodyReader, OriginSize, ResponseContext};

use super::*;
use crate::{
    access::Admitted,
    client::Browsers,
    tests::{LOCAL, Proxy},
};

const PAGE: &str = "http://site.test/page";
const COOKIE: &str = "id=1; Path=/";

fn reference(url: &str, destination: Destination) -> Reference {
    Reference::new(Url::parse(url).unwrap(), destination)
}

/// A page that this client asked for, and that set this cookie.
fn page_fetch(
    proxy: &Proxy,
    admitted: &Admitted,
    in_partition: bool,
    cookie: Option<&'static str>,
) -> PageFetch {
    let url = Url::parse(PAGE).unwrap();
    let state = proxy.connection(LOCAL);
    let client = state.client(admitted, &mut HeaderMap::new());
    let browser = HeaderMap::new();
    let cookie = cookie.map(|cookie| (header::SET_COOKIE, HeaderValue::from_static(cookie)));
    let jar = {
        let observed = client.browser.observed.lock();
        let mut jar = Jar::new(&url, &browser, &observed.cookie_paths);
        jar.store(&url, &HeaderMap::from_iter(cookie), None, now());
        jar
    };
    PageFetch {
        predictor: Predictor::new(&browser),
        document: Initiator::page(&url, &HeaderMap::new()),
        parsers: proxy.shared.gateway.parser_pool.page(client.share),
        jar: Mutex::new(jar),
        page: Page {
            shared: Arc::clone(&proxy.shared),
            client,
            url,
            browser,
            via: None,
            in_partition,
        },
    }
}

fn ann() -> Admitted {
    Admitted::Named(ClientIdentity::from_bytes([1; 32]), None)
}

#[tokio::test]
async fn requests_with_credentials_are_only_for_clients_whose_private_responses_are_stored() {
    let proxy = Proxy::new(|flags| flags);
    for (admitted, in_partition, cookie, is_sent, has_partition) in [
        (Admitted::Unnamed, false, None, true, false),
        (Admitted::Unnamed, false, Some(COOKIE), false, false),
        (Admitted::Unnamed, true, Some(COOKIE), false, false),
        (ann(), false, None, true, false),
        (ann(), false, Some(COOKIE), false, false),
        (ann(), true, Some(COOKIE), true, true),
    ] {
        let fetch = page_fetch(&proxy, &admitted, in_partition, cookie);
        let chain = RequestChain::document(fetch.document.clone());
        let request = fetch.predict(
            &reference("http://site.test/image.png", Destination::Image),
            &chain,
        );
        assert_eq!(
            request.is_some(),
            is_sent,
            "{admitted:?} {in_partition} {cookie:?}"
        );
        if let Some(request) = request {
            assert_eq!(
                request.parts.headers.contains_key(header::COOKIE),
                cookie.is_some()
            );
            assert_eq!(
                request.identity.partition().is_some(),
                has_partition,
                "{admitted:?}"
            );
        }
    }
}

#[tokio::test]
async fn objects_that_need_cookies_are_not_fetched_without_them() {
    let proxy = Proxy::new(|flags| flags);
    let fetch = page_fetch(&proxy, &ann(), true, Some(COOKIE));
    let chain = RequestChain::document(fetch.document.clone());
    for (destination, credentials, is_sent) in [
        (Destination::Image, CredentialsPermission::Never, true),
        (Destination::Other, CredentialsPermission::Never, false),
        (Destination::Other, CredentialsPermission::ByCookieRules, true),
    ] {
        let object = Reference {
            credentials,
            ..reference("http://site.test/object", destination)
        };
        let request = fetch.predict(&object, &chain);
        assert_eq!(request.is_some(), is_sent, "{destination:?} {credentials:?}");
    }
}

#[tokio::test]
async fn only_objects_that_the_page_needs_and_that_are_not_encrypted_are_fetched() {
    let proxy = Proxy::new(|flags| flags);
    let fetch = page_fetch(&proxy, &Admitted::Unnamed, false, None);
    let chain = RequestChain::document(fetch.document.clone());
    let image = |url| reference(url, Destination::Image);
    let of = |certainty| Reference {
        certainty,
        ..image("http://site.test/1.png")
    };
    for (object, is_fetched) in [
        (image("http://site.test/1.png"), true),
        (image("http://other.test/1.png"), true),
        (image("https://site.test/1.png"), false),
        (reference("http://site.test/other", Destination::Document), false),
        (reference("http://site.test/frame", Destination::Frame), false),
        (of(Certainty::Likely), true),
        (of(Certainty::Unlikely), false),
    ] {
        let text = format!("{object:?}");
        assert_eq!(fetch.admit(object, &chain).is_some(), is_fetched, "{text}");
    }
}

/// A response with a body.
fn response(fetch: &PageFetch, status: StatusCode, media: &'static str, body: Bytes) -> GatewayResponse {
    let chain = RequestChain::document(fetch.document.clone());
    let request = fetch.predict(&reference("http://site.test/a.css", Destination::Style), &chain);
    let chk = ContentHash::of(&body);
    GatewayResponse {
        status,
        headers: HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media))]),
        content: Content::Body(BodyReader::of_bytes(body, chk)),
        response_context: ResponseContext {
            request: HeaderMap::new(),
            identity: request.unwrap().identity,
            cache_status: CacheStatus::Miss,
            audience: Audience::Everybody,
            origin_size: OriginSize::default(),
        },
    }
}

/// The objects to which a response refers.
async fn refers_to(
    fetch: &PageFetch,
    destination: Destination,
    object: Option<PrefetchedObject>,
    response: GatewayResponse,
) -> Vec<String> {
    let chain = RequestChain::document(fetch.document.clone());
    let sheet = reference("http://site.test/a.css", destination);
    let found = fetch.read((sheet, object), chain, response).await;
    found
        .into_iter()
        .map(|(reference, _)| reference.url.to_string())
        .collect()
}

#[tokio::test]
async fn style_sheets_refer_to_objects_and_nothing_else_does() {
    const SHEET: Bytes = Bytes::from_static(b"@import url(\"b.css\");");
    let proxy = Proxy::new(|flags| flags);
    let fetch = page_fetch(&proxy, &Admitted::Unnamed, false, None);
    for (destination, status, media, count) in [
        (Destination::Style, StatusCode::OK, "text/css", 1),
        (Destination::Style, StatusCode::NOT_FOUND, "text/css", 0),
        (Destination::Style, StatusCode::OK, "text/plain", 0),
        (Destination::Image, StatusCode::OK, "text/css", 0),
    ] {
        let response = response(&fetch, status, media, SHEET);
        let found = refers_to(&fetch, destination, None, response).await;
        assert_eq!(found.len(), count, "{destination:?} {status} {media}");
        assert!(
            found.iter().all(|url| url == "http://site.test/b.css"),
            "{found:?}"
        );
    }
}

#[tokio::test]
async fn objects_that_are_too_large_or_too_much_for_the_client_are_not_read_to_their_end() {
    let proxy = Proxy::new(|flags| flags.with(&settings::CLIENTLESS_DAY_SIZE, "4MiB"));
    let fetch = page_fetch(&proxy, &Admitted::Unnamed, false, None);
    let sheet = |length: usize| {
        let mut text = b"@import url(\"b.css\");".to_vec();
        text.resize(length, b' ');
        response(&fetch, StatusCode::OK, "text/css", text.into())
    };
    let read = async |length, object| {
        refers_to(&fetch, Destination::Style, object, sheet(length))
            .await
            .len()
    };
    assert_eq!(read(MAX_OBJECT, None).await, 1);
    assert_eq!(read(MAX_OBJECT + 1, None).await, 0);
    let object = || {
        let object = PrefetchedObject::new(&proxy.shared, &fetch.page.client, "http://site.test/a.css");
        object.begin();
        Some(object)
    };
    // Half of the day, the other half, and what is more than that.
    assert_eq!(read(MAX_OBJECT, object()).await, 1);
    assert_eq!(read(MAX_OBJECT, object()).await, 1);
    assert_eq!(read(1000, object()).await, 0);
}

#[test]
fn who_calls_itself_a_new_browser_gets_no_more_pages() {
    let browsers = Browsers::default();
    let client = |network: u8, agent: u32| {
        let share = PublicKey::from_bytes([network; 32]);
        let agent = (header::USER_AGENT, HeaderValue::from(agent));
        ClientlessClient {
            owner: share,
            limits: share,
            share,
            is_unnamed: true,
            level: ImageLevel::Medium,
            link: None,
            browser: browsers.of(&share, &HeaderMap::from_iter([agent])),
            pages: browsers.pages(share),
        }
    };
    let take = |network, agent| PagePlace::take(&client(network, agent));
    // The connection of a browser keeps what is known of it.
    let _connection = client(1, 0);
    let of_one_browser: Vec<_> = (0..100).filter_map(|_| take(1, 0)).collect();
    assert_eq!(of_one_browser.len(), MAX_PAGES);
    let of_others: Vec<_> = (1..100).filter_map(|agent| take(1, agent)).collect();
    assert_eq!(of_one_browser.len() + of_others.len(), MAX_PAGES_OF_CLIENT);
    assert!(take(2, 0).is_some());
    drop(of_others);
    assert!(take(1, 1).is_some());
    drop(of_one_browser);
    let again: Vec<_> = (0..100).filter_map(|_| take(1, 0)).collect();
    assert_eq!(again.len(), MAX_PAGES);
}
