//! Chains of certificates as origins show them: incomplete, in another order, with superfluous certificates.
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use longhaul_origin::{DenyList, FetchError, OriginClient, OriginConfig, ResolveMap, Timeouts, TlsDefect};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::rig::{
    LOCAL, Origin, config_of, get, read_head, text,
    tls::{key_hash, origin},
};

type Issuer = CertifiedIssuer<'static, KeyPair>;

const UNKNOWN: FetchError = FetchError::Tls(TlsDefect::UnknownIssuer);

/// Parameters of an authority.
fn authority(name: &str, issuer_url: Option<&str>) -> CertificateParams {
    let mut params = with_url(CertificateParams::new(Vec::new()).unwrap(), issuer_url);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn with_url(mut params: CertificateParams, issuer_url: Option<&str>) -> CertificateParams {
    if let Some(url) = issuer_url {
        // Authority information access with one address of the issuer's certificate.
        let length = u8::try_from(url.len()).unwrap();
        assert!(length < 100);
        let method = [6, 8, 0x2b, 6, 1, 5, 5, 7, 0x30, 2];
        let location = [&[0x86, length][..], url.as_bytes()].concat();
        let description = [&[0x30, 12 + length][..], &method, &location].concat();
        let content = [&[0x30, 14 + length][..], &description].concat();
        let oid = [1, 3, 6, 1, 5, 5, 7, 1, 1];
        params
            .custom_extensions
            .push(CustomExtension::from_oid_content(&oid, content));
    }
    params
}

fn root(name: &str) -> Issuer {
    CertifiedIssuer::self_signed(authority(name, None), KeyPair::generate().unwrap()).unwrap()
}

fn below(issuer: &Issuer, name: &str, issuer_url: Option<&str>) -> Issuer {
    let params = authority(name, issuer_url);
    CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), issuer).unwrap()
}

/// A server for `site.test` with a certificate of this issuer, which shows `more` certificates.
fn server(issuer: &Issuer, issuer_url: Option<&str>, more: &[&CertificateDer<'static>]) -> ServerConfig {
    let params = CertificateParams::new(vec!["site.test".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = with_url(params, issuer_url).signed_by(&key, issuer).unwrap();
    let chain = std::iter::once(leaf.der()).chain(more.iter().copied()).cloned();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key)
        .unwrap()
}

async fn site(config: ServerConfig) -> Origin {
    origin(config, |_| Response::new(Full::<Bytes>::from("loaded"))).await
}

/// A server of certificates by path: the whole answers.
async fn certificates(files: Vec<(&'static str, Vec<u8>)>) -> (Origin, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let (count, files) = (Arc::clone(&requests), Arc::new(files));
    let origin = Origin::start(move |_, mut stream| {
        let (count, files) = (Arc::clone(&count), Arc::clone(&files));
        async move {
            let Some(head) = read_head(&mut stream).await else {
                return;
            };
            count.fetch_add(1, SeqCst);
            let found = files
                .iter()
                .find(|(path, _)| head.starts_with(&format!("GET {path} HTTP/1.1\r\n")));
            let (_, answer) = found.unwrap_or_else(|| panic!("{head}"));
            let _left = stream.write_all(answer).await;
            if answer.is_empty() {
                // The client ends the connection.
                let _end = stream.read_to_end(&mut Vec::new()).await;
            }
        }
    })
    .await;
    (origin, requests)
}

fn file(contents: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", contents.len());
    [head.as_bytes(), contents].concat()
}

fn config(root: &Issuer, site: SocketAddr, certificates: SocketAddr) -> OriginConfig {
    let names = [
        ("site.test", site.to_string()),
        ("ca.test", certificates.to_string()),
    ];
    OriginConfig {
        extra_ca: vec![root.pem().into_bytes()],
        resolve: ResolveMap::parse(names).unwrap(),
        ..config_of(site)
    }
}

async fn load(client: &OriginClient) -> Result<String, FetchError> {
    let response = client.fetch(get("https://site.test/"), LOCAL).await?;
    Ok(text(response).await.unwrap())
}

#[tokio::test]
async fn missing_certificates_are_fetched_once() {
    let root = root("Root");
    let upper = below(&root, "Upper", None);
    let lower = below(&upper, "Lower", Some("http://ca.test/upper"));
    let files = vec![
        ("/lower", file(lower.der())),
        ("/upper", file(upper.pem().as_bytes())),
        (
            "/moved",
            b"HTTP/1.1 302 Found\r\nLocation: http://ca.test/lower\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ),
    ];
    let (store, requests) = certificates(files).await;
    for (issuer, url, expected) in [
        (&lower, "http://ca.test/lower", 2),
        (&lower, "http://ca.test/moved", 3),
        (&upper, "HTTP://ca.test/upper", 1),
    ] {
        let site = site(server(issuer, Some(url), &[])).await;
        let client = OriginClient::new(config(&root, site.address, store.address)).unwrap();
        requests.store(0, SeqCst);
        assert_eq!(load(&client).await.unwrap(), "loaded", "{url}");
        assert_eq!(requests.load(SeqCst), expected, "{url}");
        // The certificates are known now, also for other connections.
        let tunnel = client.connect_tls("site.test", 443, LOCAL).await;
        assert!(tunnel.is_ok(), "{url}");
        assert_eq!(requests.load(SeqCst), expected, "{url}");
        // A tunnel's connection alone fetches them as well.
        let client = OriginClient::new(config(&root, site.address, store.address)).unwrap();
        assert!(client.connect_tls("site.test", 443, LOCAL).await.is_ok(), "{url}");
    }
}

#[tokio::test]
async fn a_certificate_is_known_from_another_origin() {
    let root = root("Root");
    let middle = below(&root, "Middle", None);
    let whole = site(server(&middle, None, &[middle.der()])).await;
    let partial = site(server(&middle, None, &[])).await;
    let start = config(&root, partial.address, partial.address);
    let client = OriginClient::new(start.clone()).unwrap();
    assert_eq!(load(&client).await.unwrap_err(), UNKNOWN);
    let at = |address: SocketAddr| OriginConfig {
        resolve: ResolveMap::parse([("site.test", address.to_string())]).unwrap(),
        ..start.clone()
    };
    client.reconfigure(at(whole.address)).unwrap();
    assert_eq!(load(&client).await.unwrap(), "loaded");
    client.reconfigure(at(partial.address)).unwrap();
    assert_eq!(load(&client).await.unwrap(), "loaded");
    assert_eq!(partial.connections(), 2);
    // What is known belongs to the authorities of its time.
    let other = OriginConfig {
        extra_ca: vec![crate::rig::tls::Authority::new().pem()],
        ..at(partial.address)
    };
    client.reconfigure(other).unwrap();
    assert_eq!(load(&client).await.unwrap_err(), UNKNOWN);
}

#[tokio::test]
async fn superfluous_and_disordered_certificates_do_no_harm() {
    let root = root("Root");
    let upper = below(&root, "Upper", None);
    let lower = below(&upper, "Lower", None);
    // The same authority, signed by another one that has expired, and by one that nobody trusts.
    let old = {
        let mut params = authority("Old root", None);
        params.not_after = date_time_ymd(2002, 1, 1);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let crossed = authority("Upper", None).signed_by(upper.key(), &old).unwrap();
    let unknown = authority("Upper", None)
        .signed_by(upper.key(), &self::root("Nobody's"))
        .unwrap();
    let expired = {
        let mut params = authority("Upper", None);
        params.not_after = date_time_ymd(2002, 1, 1);
        params.signed_by(upper.key(), &root).unwrap()
    };
    let many: Vec<Issuer> = (0..60)
        .map(|number| below(&root, &format!("Other {number}"), None))
        .collect();
    let many: Vec<_> = many.iter().map(|other| other.der()).collect();
    for (index, more) in [
        vec![upper.der(), lower.der()],
        vec![lower.der(), upper.der(), root.der()],
        vec![root.der(), lower.der(), old.der(), upper.der()],
        vec![lower.der(), crossed.der(), old.der(), upper.der()],
        vec![lower.der(), unknown.der(), upper.der()],
        vec![lower.der(), expired.der(), upper.der(), upper.der()],
        [&many[..], &[lower.der(), upper.der()]].concat(),
    ]
    .into_iter()
    .enumerate()
    {
        let site = site(server(&lower, None, &more)).await;
        let client = OriginClient::new(config(&root, site.address, site.address)).unwrap();
        assert_eq!(load(&client).await.as_deref(), Ok("loaded"), "{index}");
    }
}

#[tokio::test]
async fn a_certificate_that_was_replaced_is_fetched() {
    let root = root("Root");
    let upper = below(&root, "Upper", None);
    let expired = {
        let mut params = authority("Upper", None);
        params.not_after = date_time_ymd(2002, 1, 1);
        params.signed_by(upper.key(), &root).unwrap()
    };
    // The authority of the same name before it had its present key.
    let namesake = below(&root, "Upper", None);
    let (store, _requests) = certificates(vec![("/upper", file(upper.der()))]).await;
    for shown in [expired.der(), namesake.der()] {
        let site = site(server(&upper, Some("http://ca.test/upper"), &[shown])).await;
        let client = OriginClient::new(config(&root, site.address, store.address)).unwrap();
        assert_eq!(load(&client).await.unwrap(), "loaded");
    }
}

#[tokio::test]
async fn a_denied_key_is_refused_also_in_a_completed_chain() {
    let root = root("Root");
    let middle = below(&root, "Middle", None);
    let (store, _requests) = certificates(vec![("/middle", file(middle.der()))]).await;
    let site = site(server(&middle, Some("http://ca.test/middle"), &[])).await;
    for (denied, expected) in [
        (key_hash(middle.key()), Err(FetchError::Tls(TlsDefect::DeniedKey))),
        (key_hash(root.key()), Err(FetchError::Tls(TlsDefect::DeniedKey))),
        (key_hash(&KeyPair::generate().unwrap()), Ok("loaded".to_owned())),
    ] {
        let client = OriginClient::new(OriginConfig {
            deny_keys: DenyList::from_iter([denied]),
            ..config(&root, site.address, store.address)
        })
        .unwrap();
        // The second attempt knows what the first one found.
        for _ in 0..2 {
            assert_eq!(load(&client).await, expected);
        }
    }
}

#[tokio::test]
async fn addresses_that_lead_to_no_useful_certificate_are_not_asked_again() {
    let root = root("Root");
    let middle = below(&root, "Middle", None);
    let foreign = below(&self::root("Root"), "Middle", None);
    let other = below(&root, "Other", None);
    let found = |location: &str| format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\n\r\n").into_bytes();
    let files = vec![
        (
            "/none",
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ),
        ("/garbage", file(b"garbage")),
        ("/empty", file(b"")),
        ("/large", file(&vec![0x30; 100_000])),
        ("/foreign", file(foreign.der())),
        ("/other", file(other.der())),
        ("/loop", found("http://ca.test/loop")),
        ("/secure", found("https://ca.test/none")),
        (
            "/broken",
            b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nshort".to_vec(),
        ),
    ];
    let paths: Vec<_> = files.iter().map(|(path, _)| *path).collect();
    let (store, requests) = certificates(files).await;
    for path in paths {
        let site = site(server(&middle, Some(&format!("http://ca.test{path}")), &[])).await;
        let client = OriginClient::new(config(&root, site.address, store.address)).unwrap();
        assert_eq!(load(&client).await.unwrap_err(), UNKNOWN, "{path}");
        let before = requests.load(SeqCst);
        assert_eq!(load(&client).await.unwrap_err(), UNKNOWN, "{path}");
        assert_eq!(requests.load(SeqCst), before, "{path}");
    }
    // The address guard applies: this address leads to this computer.
    for host in ["127.0.0.1", "localhost", "[::1]", "0x7f000001"] {
        let url = format!("http://{host}:{}/none", store.address.port());
        let site = site(server(&middle, Some(&url), &[])).await;
        let client = OriginClient::new(config(&root, site.address, store.address)).unwrap();
        let before = store.connections();
        assert_eq!(load(&client).await.unwrap_err(), UNKNOWN, "{url}");
        assert_eq!(store.connections(), before, "{url}");
    }
}

#[tokio::test]
async fn a_silent_address_costs_a_bounded_time() {
    let root = root("Root");
    let middle = below(&root, "Middle", None);
    let (store, _requests) = certificates(vec![("/silent", Vec::new())]).await;
    let site = site(server(&middle, Some("http://ca.test/silent"), &[])).await;
    let client = OriginClient::new(OriginConfig {
        timeouts: Timeouts {
            tls: Duration::from_secs(2),
            ..Timeouts::default()
        },
        ..config(&root, site.address, store.address)
    })
    .unwrap();
    assert_eq!(load(&client).await.unwrap_err(), UNKNOWN);
    assert_eq!(load(&client).await.unwrap_err(), UNKNOWN);
    assert_eq!(store.connections(), 1);
}

#[tokio::test]
async fn a_completed_chain_makes_no_useless_address_worth_another_question() {
    let root = root("Root");
    let [middle, other] = ["Middle", "Other"].map(|name| below(&root, name, None));
    let files = vec![("/none", file(b"")), ("/other", file(other.der()))];
    let (store, requests) = certificates(files).await;
    let broken = site(server(&middle, Some("http://ca.test/none"), &[])).await;
    let partial = site(server(&other, Some("http://ca.test/other"), &[])).await;
    let client = OriginClient::new(config(&root, broken.address, store.address)).unwrap();
    for (site, expected) in [(&broken, 1), (&partial, 2), (&broken, 2), (&partial, 2)] {
        client
            .reconfigure(config(&root, site.address, store.address))
            .unwrap();
        let loaded = load(&client).await;
        assert_eq!(loaded.is_ok(), site.address == partial.address);
        assert_eq!(requests.load(SeqCst), expected);
    }
}
