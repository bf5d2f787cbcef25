use super::*;

const HOST: (&str, &str) = ("host", "127.0.0.1:3129");
const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:3129");
const PICTURE: &str = "/pictures?level=low";

fn owner() -> Caller {
    Caller {
        user: Some(UserId::own()),
        is_served: true,
    }
}

fn other(is_served: bool) -> Caller {
    Caller {
        user: Some(UserId::new(4_000_001)),
        is_served,
    }
}

fn judge_with(
    token: &ControlToken,
    caller: Caller,
    (method, uri): (&str, &str),
    fields: &[(&str, &str)],
) -> Result<Rights, Refusal> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let own = "127.0.0.1:3129".parse().unwrap();
    AccessCheck { own, token }.admit(caller, &request.body(()).unwrap())
}

/// Checks the owner's request with the token.
fn check_peer(method: &str, uri: &str, fields: &[(&str, &str)]) -> Result<Rights, Refusal> {
    let token = ControlToken::make().unwrap();
    let bearer = format!("Bearer {}", token.to_hex());
    let fields = [fields, &[("authorization", &*bearer)]].concat();
    judge_with(&token, owner(), (method, uri), &fields)
}

#[test]
fn requests_for_other_host_names_are_refused() {
    assert_eq!(check_peer("GET", "/", &[HOST]), Ok(Rights::Change));
    assert_eq!(
        check_peer("HEAD", "/", &[("host", "LocalHost:3129")]),
        Ok(Rights::Change)
    );
    for host in [
        "evil.test:3129",
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost",
        "127.0.0.1:3129.evil.test",
        "",
    ] {
        assert_eq!(
            check_peer("GET", "/", &[("host", host)]),
            Err(Refusal::Host),
            "{host}"
        );
    }
    assert_eq!(check_peer("GET", "/", &[]), Err(Refusal::Host));
    let twice = [HOST, ("host", "evil.test")];
    assert_eq!(check_peer("GET", "/", &twice), Err(Refusal::Host));
    assert_eq!(
        check_peer("GET", "http://evil.test/", &[HOST]),
        Err(Refusal::Host)
    );
}

#[test]
fn pages_of_other_origins_cannot_post() {
    assert_eq!(check_peer("POST", "/", &[HOST]), Err(Refusal::Origin));
    for origin in ["http://evil.test", "null", "http://127.0.0.1:3128"] {
        for (method, uri) in [("POST", "/"), ("POST", PICTURE), ("DELETE", "/")] {
            let checked = check_peer(method, uri, &[HOST, ("origin", origin)]);
            assert_eq!(checked, Err(Refusal::Origin), "{method} {uri} {origin}");
        }
    }
    assert_eq!(check_peer("POST", PICTURE, &[HOST]), Err(Refusal::Origin));
    assert_eq!(check_peer("POST", "/", &[HOST, ORIGIN]), Err(Refusal::Method));
    assert_eq!(
        check_peer("DELETE", PICTURE, &[HOST, ORIGIN]),
        Err(Refusal::Method)
    );
    assert_eq!(check_peer("POST", PICTURE, &[HOST, ORIGIN]), Ok(Rights::Change));
}

#[test]
fn rights_follow_user_and_token() {
    let token = ControlToken::make().unwrap();
    let status = ("GET", "/status.json");
    let see = |caller, request| judge_with(&token, caller, request, &[HOST]);
    assert_eq!(see(owner(), status), Ok(Rights::ReadAll));
    assert_eq!(see(other(true), status), Err(Refusal::OtherUser));
    assert_eq!(see(other(false), status), Err(Refusal::OtherUser));
    assert_eq!(see(other(true), ("GET", "/proxy.pac")), Ok(Rights::ReadScript));
    assert_eq!(see(other(false), ("GET", "/proxy.pac")), Err(Refusal::OtherUser));
    let untold = Caller {
        user: None,
        is_served: true,
    };
    assert_eq!(see(untold, status), Err(Refusal::OtherUser), "who cannot be told");

    let post = |caller, fields: &[(&str, &str)]| {
        let fields = [&[HOST, ORIGIN], fields].concat();
        judge_with(&token, caller, ("POST", PICTURE), &fields)
    };
    assert_eq!(post(owner(), &[]), Err(Refusal::Token), "without the token");
    let bearer = format!("Bearer {}", token.to_hex());
    let shown = [("authorization", &*bearer)];
    assert_eq!(post(owner(), &shown), Ok(Rights::Change));
    assert_eq!(post(other(false), &shown), Ok(Rights::Change), "who has it may");
    let query = format!("/?token={}", token.to_hex());
    assert_eq!(see(other(false), ("GET", &query)), Ok(Rights::Change));
    assert_eq!(see(other(false), ("GET", "/?token=00")), Err(Refusal::OtherUser));
}

#[test]
fn what_was_loaded_is_shown_only_with_the_token() {
    let token = ControlToken::make().unwrap();
    let bearer = format!("Bearer {}", token.to_hex());
    for path in ["/live", "/page?number=1", "/journal.json"] {
        let see = |caller, fields: &[(&str, &str)]| {
            judge_with(&token, caller, ("GET", path), &[&[HOST], fields].concat())
        };
        assert_eq!(see(owner(), &[]), Err(Refusal::Token), "{path}");
        assert_eq!(see(other(true), &[]), Err(Refusal::OtherUser), "{path}");
        assert_eq!(
            see(owner(), &[("authorization", &bearer)]),
            Ok(Rights::Change),
            "{path}"
        );
    }
}

#[test]
fn pages_of_other_origins_cannot_read() {
    for path in ["/", "/live", "/status.json", "/savings.json", "/dashboard.js"] {
        for site in ["cross-site", "same-site", "something"] {
            let fields = [HOST, ("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")];
            assert_eq!(
                check_peer("GET", path, &fields),
                Err(Refusal::Site),
                "{path} {site}"
            );
            let frame = [
                HOST,
                ("sec-fetch-site", site),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "iframe"),
            ];
            assert_eq!(
                check_peer("GET", path, &frame),
                Err(Refusal::Site),
                "{path} {site}"
            );
        }
        for site in ["same-origin", "none"] {
            let fields = [HOST, ("sec-fetch-site", site)];
            assert_eq!(
                check_peer("GET", path, &fields),
                Ok(Rights::Change),
                "{path} {site}"
            );
        }
        for origin in ["http://evil.test", "null", "http://127.0.0.1:3128"] {
            let asked = check_peer("GET", path, &[HOST, ("origin", origin)]);
            assert_eq!(asked, Err(Refusal::Site), "{path} {origin}");
        }
        assert_eq!(check_peer("GET", path, &[HOST, ORIGIN]), Ok(Rights::Change));
    }
    let link = [
        HOST,
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    assert_eq!(
        check_peer("GET", "/", &link),
        Ok(Rights::Change),
        "a link in another page"
    );
    let posted = [&link[..], &[ORIGIN]].concat();
    assert_eq!(check_peer("POST", PICTURE, &posted), Err(Refusal::Site));
}

#[test]
fn a_token_cookie_is_valid_only_for_its_user() {
    let token = ControlToken::make().unwrap();
    let access_check = AccessCheck {
        own: "127.0.0.1:3129".parse().unwrap(),
        token: &token,
    };
    let set = access_check.set_cookie(owner().user);
    assert!(
        set.contains("HttpOnly") && set.contains("SameSite=Strict"),
        "{set}"
    );
    let pair = set.split(';').next().unwrap();
    assert!(!pair.contains(&token.to_hex()), "it is not the token");
    let cookies = format!("other=1; {pair}");
    let shown = [HOST, ORIGIN, ("cookie", &*cookies)];
    let post = |caller| judge_with(&token, caller, ("POST", PICTURE), &shown);
    assert_eq!(post(owner()), Ok(Rights::Change));
    // Another user's server on this machine got the cookie from the browser.
    assert_eq!(post(other(true)), Err(Refusal::Token));
}
