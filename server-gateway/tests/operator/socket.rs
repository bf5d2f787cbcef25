//! The admin socket: its place, its protocol and its limits.
use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
};

use super::{
    INVITE, failure,
    home::{Home, Running},
};

#[test]
fn the_socket_is_found_wherever_it_is_and_can_be_off() {
    let home = Home::of(None);
    let elsewhere = home.folder.path().join("run.sock");
    let running = Running::start_with(&home, None, &["--admin-socket", elsewhere.to_str().unwrap()]);
    assert!(elsewhere.exists() && !home.socket().exists());
    assert_eq!(home.list()["running"], true);
    running.end();
    let running = Running::start_with(&home, None, &["--admin-socket", "off"]);
    assert_eq!(home.list()["running"], false);
    home.text(&INVITE);
    running.end();
    let taken = home.folder.path().join("file");
    fs::write(&taken, "").unwrap();
    let refused = failure(&home.run(&[
        "run",
        "--listen",
        "127.0.0.1:0",
        "--admin-socket",
        taken.to_str().unwrap(),
    ]));
    assert!(refused.contains("is no socket"), "{refused}");
    let long = home.folder.path().join("x".repeat(120));
    let running = Running::start_with(&home, None, &["--admin-socket", long.to_str().unwrap()]);
    home.text(&["device", "list"]);
    let log = running.end();
    assert!(log.contains("longer than the system permits"), "{log}");
}

#[test]
fn the_socket_answers_plain_http_and_has_limits() {
    let home = Home::of(None);
    let running = Running::start_with(&home, None, &["--public-address", "gw.test:4433"]);
    let ask = |request: &str| {
        let mut stream = UnixStream::connect(home.socket()).unwrap();
        // The gateway may answer and close before it has read everything.
        let _broken = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _broken = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let post = |path: &str, body: &str| {
        let length = body.len();
        ask(&format!(
            "POST {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };
    let made = post("/v1/invite", "{\"name\": \"a\"}");
    assert!(
        made.starts_with("HTTP/1.1 200 ") && made.contains("\"address\":\"gw.test:4433\""),
        "{made}"
    );
    let taken = post("/v1/invite", "{\"name\": \"a\"}");
    assert!(
        taken.starts_with("HTTP/1.1 409 ") && taken.contains("admitted already"),
        "{taken}"
    );
    for malformed in [
        "",
        "{}",
        "{\"name\": 1}",
        "{\"name\": \"b\", \"adress\": \"x\"}",
        "\u{0}",
    ] {
        let answer = post("/v1/invite", malformed);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{malformed}: {answer}");
    }
    let large = post("/v1/device/remove", &"x".repeat(64 * 1024));
    assert!(!large.starts_with("HTTP/1.1 200 "), "{large}");
    let head = ask(&format!(
        "GET /v1/devices HTTP/1.1\r\nHost: gateway\r\nX: {}\r\n\r\n",
        "x".repeat(64 * 1024)
    ));
    assert!(!head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        ask("GET /v2/devices HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 404 ")
    );
    assert_eq!(home.list()["devices"].as_array().unwrap().len(), 1);
    drop(running);
}
