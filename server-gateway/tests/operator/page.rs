//! The admin page and its API on a loopback port: who is admitted, and what is refused.
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::net::UnixStream,
};

use super::{
    INVITE, failure,
    home::{Home, Running},
};

/// A gateway with the page, and a device.
struct Page {
    home: Home,
    running: Running,
    address: String,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Page {
    fn start() -> Self {
        let home = Home::of(None);
        let running = Running::start_with(&home, None, &["--admin-listen", "127.0.0.1:0"]);
        home.text(&INVITE);
        let url = home.text(&["admin"]);
        let address = url.trim().strip_prefix("http://").unwrap();
        let address = address.split('/').next().unwrap().to_owned();
        Self {
            home,
            running,
            address,
        }
    }

    fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !fields.iter().any(|(name, _)| *name == "Host") {
            request += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in fields {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn get(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, fields, "")
    }

    /// Follows a one-time address; returns the cookie.
    fn log_in(&self) -> String {
        let url = self.home.text(&["admin"]);
        let path = url.trim().split_once(&self.address).unwrap().1;
        let admitted = self.get(path, &[]);
        assert_eq!(admitted.status, 303, "{}", admitted.head);
        assert_eq!(self.get(path, &[]).status, 403, "the address works once");
        let line = admitted
            .head
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "))
            .unwrap();
        assert!(
            line.contains("HttpOnly") && line.contains("SameSite=Strict"),
            "{line}"
        );
        line.split(';').next().unwrap().to_owned()
    }

    fn status_of_device(&self) -> String {
        self.home.list()["devices"][0]["status"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

#[test]
fn only_a_browser_that_followed_the_address_sees_the_page() {
    let page = Page::start();
    for (path, fields) in [
        ("/", &[][..]),
        ("/", &[("Cookie", "longhaul_admin=x")][..]),
        ("/login", &[][..]),
        ("/login?code=x", &[][..]),
        ("/missing", &[][..]),
        ("/v1/devices", &[][..]),
    ] {
        let refused = page.get(path, fields);
        assert_eq!(refused.status, 403, "{path}");
        assert!(
            refused.body.contains("longhaul-gateway admin"),
            "{}",
            refused.body
        );
        assert!(!refused.body.contains("laptop"));
    }
    let cookie = page.log_in();
    let shown = page.get("/", &[("Cookie", &cookie)]);
    assert_eq!(shown.status, 200);
    assert!(shown.body.contains("laptop"), "{}", shown.body);
    assert!(
        shown.head.contains("content-security-policy: default-src 'none'"),
        "{}",
        shown.head
    );
    assert!(shown.head.contains("cache-control: no-store"));
    page.running.end();
}

#[test]
fn pages_of_other_origins_and_names_are_refused_with_the_right_cookie() {
    let page = Page::start();
    let cookie = page.log_in();
    for field in [
        ("Host", "evil.test"),
        ("Origin", "http://evil.test"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Via", "1.1 longhaul"),
    ] {
        let refused = page.get("/", &[("Cookie", &cookie), field]);
        assert_eq!(refused.status, 403, "{field:?}");
    }
    let id = page.home.list()["devices"][0]["id"].as_str().unwrap().to_owned();
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    for form in [
        format!("order=remove&device={id}"),
        format!("order=remove&device={id}&token=x"),
    ] {
        let refused = page.ask("POST", "/order", &[("Cookie", &cookie), kind], &form);
        assert_eq!(refused.status, 403, "{form}");
    }
    assert_eq!(page.status_of_device(), "invited");
    let shown = page.get(&format!("/device?id={id}"), &[("Cookie", &cookie)]).body;
    let token = shown.split("name=\"token\" value=\"").nth(1).unwrap();
    let token = token.split('"').next().unwrap();
    let form = format!("order=remove&device={id}&token={token}");
    let done = page.ask("POST", "/order", &[("Cookie", &cookie), kind], &form);
    assert_eq!(done.status, 303, "{}", done.body);
    assert_eq!(page.status_of_device(), "revoked");
    page.running.end();
}

#[test]
fn programs_need_the_token_and_the_cookie_is_not_for_them() {
    let page = Page::start();
    let cookie = page.log_in();
    assert_eq!(page.get("/v1/devices", &[("Cookie", &cookie)]).status, 403);
    assert_eq!(
        page.get("/v1/devices", &[("Authorization", "Bearer x")]).status,
        403
    );
    let token = format!("Bearer {}", page.home.text(&["admin", "--token"]).trim());
    let token = ("Authorization", token.as_str());
    let listed = page.get("/v1/devices", &[token]);
    assert_eq!(listed.status, 200);
    let listed: serde_json::Value = serde_json::from_str(&listed.body).unwrap();
    assert_eq!(listed["devices"][0]["name"], "laptop");
    let state = page.get("/v1/status", &[token]);
    let state: serde_json::Value = serde_json::from_str(&state.body).unwrap();
    assert_eq!(
        (&state["draining"], &state["handshakes_refused"]["revoked"]),
        (&false.into(), &0.into())
    );
    let order = "{\"device\":\"laptop\",\"month\":\"5GB\"}";
    let changed = page.ask("POST", "/v1/device/quota", &[token], order);
    assert_eq!(
        (changed.status, changed.body.contains("\"month\":\"5GB\"")),
        (200, true)
    );
    let wrong = page.ask(
        "POST",
        "/v1/device/quota",
        &[token],
        "{\"device\":\"laptop\",\"month\":\"5\"}",
    );
    assert_eq!(
        (wrong.status, wrong.body.contains("`5GB`")),
        (409, true),
        "{}",
        wrong.body
    );
    assert_eq!(
        page.ask("POST", "/v1/access", &[token], "{}").status,
        404,
        "one-time addresses come only from the socket"
    );
    page.running.end();
}

#[test]
fn the_socket_shows_the_page_without_forms_and_no_access_without_a_port() {
    let home = Home::of(None);
    let running = Running::start(&home, None);
    home.text(&INVITE);
    let mut stream = UnixStream::connect(home.socket()).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("laptop") && !page.contains("<form"), "{page}");
    let refused = failure(&home.run(&["admin"]));
    assert!(refused.contains("[admin] listen"), "{refused}");
    running.end();
    let down = failure(&home.run(&["admin"]));
    assert!(down.contains("no gateway runs"), "{down}");
}
