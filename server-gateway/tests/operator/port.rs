//! The admin port on a loopback address: who is admitted, and what is refused.
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::process::CommandExt as _,
    process::Command,
};

use super::{
    INVITE, failure,
    home::{Home, Running},
};

/// A gateway with the port, and a device.
struct Port {
    home: Home,
    running: Running,
    address: String,
}

struct Answer {
    status: u16,
    body: String,
}

impl Port {
    fn start() -> Self {
        let home = Home::of(None);
        let running = Running::start_with(&home, None, &["--admin-listen", "127.0.0.1:0"]);
        home.text(&INVITE);
        let url = home.text(&["admin"]);
        let address = url.trim().strip_prefix("http://").unwrap().to_owned();
        Self {
            home,
            running,
            address,
        }
    }

    fn token(&self) -> String {
        format!("Bearer {}", self.home.text(&["admin", "--token"]).trim())
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
            body: body.to_owned(),
        }
    }

    fn get(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, fields, "")
    }
}

#[test]
fn programs_need_the_token() {
    let port = Port::start();
    let token = port.token();
    for (path, fields) in [
        ("/", &[][..]),
        ("/missing", &[][..]),
        ("/v1/devices", &[][..]),
        ("/v1/devices", &[("Authorization", "Bearer x")][..]),
        ("/v1/devices", &[("Cookie", "longhaul_admin=x")][..]),
    ] {
        let refused = port.get(path, fields);
        assert_eq!(refused.status, 403, "{path}");
        assert!(
            refused.body.contains("longhaul-gateway admin --token"),
            "{}",
            refused.body
        );
        assert!(!refused.body.contains("laptop"));
    }
    for field in [
        ("Host", "evil.test"),
        ("Origin", "http://evil.test"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "none"),
        ("Via", "1.1 longhaul"),
    ] {
        let refused = port.get("/v1/devices", &[("Authorization", &token), field]);
        assert_eq!(refused.status, 403, "{field:?}");
    }
    assert_eq!(
        port.get("/", &[("Authorization", &token)]).status,
        404,
        "no page for browsers"
    );
    port.running.end();
}

#[test]
fn programs_with_the_token_give_orders() {
    let port = Port::start();
    let token = port.token();
    let token = ("Authorization", token.as_str());
    let listed = port.get("/v1/devices", &[token]);
    assert_eq!(listed.status, 200);
    let listed: serde_json::Value = serde_json::from_str(&listed.body).unwrap();
    assert_eq!(listed["devices"][0]["name"], "laptop");
    let state = port.get("/v1/status", &[token]);
    let state: serde_json::Value = serde_json::from_str(&state.body).unwrap();
    assert_eq!(
        (&state["draining"], &state["handshakes_refused"]["revoked"]),
        (&false.into(), &0.into())
    );
    let order = "{\"device\":\"laptop\",\"month\":\"5GB\"}";
    let changed = port.ask("POST", "/v1/device/quota", &[token], order);
    assert_eq!(
        (changed.status, changed.body.contains("\"month\":\"5GB\"")),
        (200, true)
    );
    let wrong = port.ask(
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
        port.ask("POST", "/v1/access", &[token], "{}").status,
        404,
        "the token comes only from the socket"
    );
    port.running.end();
}

/// Another user has the right token: the connection ends without an answer. Its idle connections take no place from others.
#[test]
fn programs_of_other_users_are_refused() {
    const NOBODY: u32 = 65_534;
    let port = Port::start();
    let token = port.token();
    let by = |user: Option<u32>, script: &str| {
        let mut shell = Command::new("bash");
        shell.args(["-c", script, "bash", &port.address, &token]);
        if let Some(user) = user {
            shell.uid(user).gid(user);
        }
        shell.output().ok()
    };
    let ask = "exec 3<>/dev/tcp/${1%:*}/${1#*:}; \
               printf 'GET /v1/status HTTP/1.1\\r\\nHost: %s\\r\\nAuthorization: %s\\r\\nConnection: close\\r\\n\\r\\n' \"$1\" \"$2\" >&3; \
               head -c 12 <&3";
    let own = by(None, ask).unwrap();
    assert_eq!(String::from_utf8_lossy(&own.stdout), "HTTP/1.1 200");
    let Some(other) = by(Some(NOBODY), ask) else {
        println!("SKIPPED: only root can be another user");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&other.stdout), "");
    let idle = "for number in $(seq 60); do eval \"exec $((number + 10))<>/dev/tcp/${1%:*}/${1#*:}\"; done; echo open; \
                read -r -t 30 _ <&11; echo ended";
    let held = by(Some(NOBODY), idle).unwrap();
    assert_eq!(String::from_utf8_lossy(&held.stdout), "open\nended\n");
    let fields = [("Authorization", token.as_str())];
    assert_eq!(port.get("/v1/status", &fields).status, 200);
    port.running.end();
}

#[test]
fn there_is_no_access_without_a_port_or_a_gateway() {
    let home = Home::of(None);
    let running = Running::start(&home, None);
    home.text(&INVITE);
    let refused = failure(&home.run(&["admin"]));
    assert!(refused.contains("[admin] listen"), "{refused}");
    running.end();
    let down = failure(&home.run(&["admin"]));
    assert!(down.contains("no gateway runs"), "{down}");
}
