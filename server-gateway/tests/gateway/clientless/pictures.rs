//! Images at the level of a request, by the program with its picture workers.
use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use http::Request;
use hyper::body::Incoming;
use jpeg_encoder::{ColorType, Encoder};

use longhaul_gateway_core::admission::clients::Clients;
use longhaul_session::ImageLevel;

use super::{
    LOCAL,
    access::{credentials, with_clients},
    exchange, get, parts,
};
use crate::{
    origin::{full, serve},
    store::{Log, reply},
};

/// A running program, which ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Starts the program; returns the address of its proxy.
fn start(state: &Path) -> (Program, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul-gateway"))
        .env_clear()
        .args(["run", "--config", "/dev/null", "--listen", "127.0.0.1:0"])
        .args(["--resolve", "*.test=127.0.0.1", "--log-format", "text"])
        .args(["--clientless-listen", "127.0.0.1:0", "--clientless-allow", LOCAL])
        .arg("--state-dir")
        .arg(state)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = BufReader::new(child.stderr.take().unwrap());
    let program = Program(child);
    let mut lines = log.lines();
    let address = loop {
        let line = lines.next().expect("the proxy starts").unwrap();
        if line.contains("may use the HTTP proxy") {
            let address = line.split("address=").nth(1).unwrap();
            break address.split_whitespace().next().unwrap().parse().unwrap();
        }
    };
    // The program must not end because nobody reads its log.
    std::thread::spawn(move || lines.for_each(drop));
    (program, address)
}

/// A synthetic photograph.
fn photo(side: u16) -> Vec<u8> {
    let mut pixels = Vec::new();
    for y in 0..u32::from(side) {
        for x in 0..u32::from(side) {
            let shade = |value: u32| u8::try_from(value % 200).unwrap();
            pixels.extend([shade(x * x / 97 + y), shade(y / 2 + x), shade(x / 3)]);
        }
    }
    let mut file = Vec::new();
    Encoder::new(&mut file, 95)
        .encode(&pixels, side, side, ColorType::Rgb)
        .unwrap();
    file
}

#[tokio::test]
async fn images_have_the_level_of_the_request_or_of_the_proxy() {
    let home = tempfile::tempdir().unwrap();
    let (_program, proxy) = start(&home.path().join("state"));
    let (photo, log) = (photo(200), Log::default());
    let (served, noted) = (photo.clone(), log.clone());
    let port = serve(move |request: Request<Incoming>| {
        let _number = noted.add(request.headers());
        let served = served.clone();
        async move {
            let fields = [
                ("content-type", "image/jpeg"),
                ("cache-control", "public, max-age=600"),
            ];
            reply(200, &fields, full(served))
        }
    })
    .await;
    let url = format!("http://a.test:{port}/photo.jpg");
    let accepts = "Accept: image/avif,image/webp,image/*,*/*;q=0.8\r\n";
    let mut lengths = Vec::new();
    for level in ["original", "medium", "low", ""] {
        let field = match level {
            "" => String::new(),
            level => format!("X-Longhaul-Level: {level}\r\n"),
        };
        let answer = exchange(proxy, get(&url, &format!("{accepts}{field}")).as_bytes()).await;
        let (head, body) = parts(&answer);
        if level == "original" {
            assert!(
                body == photo && head.contains("content-type: image/jpeg"),
                "{head}"
            );
        } else {
            let named = if level.is_empty() { "medium" } else { level };
            assert!(head.contains(&format!("x-longhaul: image={named}")), "{head}");
            assert!(head.contains("content-type: image/webp"), "{head}");
            assert!(body.starts_with(b"RIFF"), "{head}");
        }
        lengths.push(body.len());
    }
    assert!(lengths[0] > lengths[1] && lengths[1] > lengths[2], "{lengths:?}");
    assert_eq!(lengths[3], lengths[1], "medium is the default");
    assert_eq!(log.count(), 1);
    assert!(!log.last().contains_key("x-longhaul-level"));
}

#[tokio::test]
async fn a_client_may_have_a_level_of_its_own() {
    let (_home, state, [ann, bob]) = with_clients(["ann", "bob"]);
    Clients::set_level(&state, "ann", Some(ImageLevel::Low)).unwrap();
    let (_program, proxy) = start(state.path());
    let photo = photo(200);
    let port = serve(move |_| {
        let served = photo.clone();
        async move { reply(200, &[("content-type", "image/jpeg")], full(served)) }
    })
    .await;
    let url = format!("http://a.test:{port}/photo.jpg");
    let accepts = "Accept: image/avif,image/webp,image/*,*/*;q=0.8\r\n";
    let ann = credentials("ann", &ann);
    for (fields, level) in [
        (ann.clone(), "low"),
        (credentials("bob", &bob), "medium"),
        (format!("{ann}X-Longhaul-Level: high\r\n"), "high"),
    ] {
        let answer = exchange(proxy, get(&url, &format!("{accepts}{fields}")).as_bytes()).await;
        let (head, _) = parts(&answer);
        assert!(
            head.contains(&format!("x-longhaul: image={level}")),
            "{level}: {head}"
        );
    }
}

#[tokio::test]
async fn a_script_that_reads_an_image_gets_the_original() {
    let home = tempfile::tempdir().unwrap();
    let (_program, proxy) = start(&home.path().join("state"));
    let photo = photo(100);
    let served = photo.clone();
    let port = serve(move |_| {
        let served = served.clone();
        async move { reply(200, &[("content-type", "image/jpeg")], full(served)) }
    })
    .await;
    let url = format!("http://a.test:{port}/photo.jpg");
    let answer = exchange(proxy, get(&url, "Accept: */*\r\n").as_bytes()).await;
    assert!(parts(&answer).1 == photo);
}
