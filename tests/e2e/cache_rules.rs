//! Which responses are used again (RFC 9111), by an agent, which is a private cache, and by the proxy for clients without an
//! agent, which is a shared one: what origins really send, also where no standard allows it.
use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result};
use longhaul_tests::{
    client::{RawClient, get},
    raw_origin::{Kept, RawOrigin},
};
use parking_lot::Mutex;

use crate::pair::{LIMIT, Pair, Setup, folder, start_gateway};

/// What a cache does with the second of two equal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    /// Answers it itself.
    Reused,
    /// Asks the origin whether the stored response is still valid.
    Validated,
    /// Fetches the response again.
    Fetched,
}
use Second::{Fetched, Reused, Validated};

type Fields = &'static [(&'static str, &'static str)];
/// Status, fields, and what a private and a shared cache do with a second request.
type WrittenRule = (u16, Vec<(&'static str, &'static str)>, Second, Second);

/// A response, by its status, and what follows at a private and at a shared cache.
struct Rule(u16, Fields, Second, Second);

/// A date that is no HTTP date, but recognised by the origin that made it.
const ODD_DATES: [&str; 8] = [
    "Sun, 06 Nov 1994 08:49:37 +0000",
    "Mon, 06 Nov 1994 08:49:37 GMT",
    "Sun, 6 Nov 1994 08:49:37 GMT",
    "sun, 06 nov 1994 08:49:37 gmt",
    "Sun, 06 Nov 94 08:49:37 GMT",
    "1994-11-06T08:49:37Z",
    "784111777",
    "yesterday",
];
const ODD_TAGS: [&str; 7] = ["unquoted", "\"\"", "W/x", "w/\"x\"", "\"a b\"", "\"a,b\"", "'x'"];
const FUTURE: &str = "Thu, 06 Nov 2053 08:49:37 GMT";

const CONTROL: &str = "Cache-Control";
const EXPIRES: &str = "Expires";

/// Lifetimes (sections 4.2 and 5.2.2).
const LIFETIMES: &[Rule] = &[
    Rule(200, &[(CONTROL, "max-age=60")], Reused, Reused),
    Rule(200, &[(CONTROL, "MAX-AGE=60")], Reused, Reused),
    Rule(200, &[(CONTROL, "max-age=\"60\"")], Reused, Reused),
    Rule(200, &[(CONTROL, "max-age = 60")], Reused, Reused),
    Rule(200, &[(CONTROL, "max-age=060")], Reused, Reused),
    Rule(200, &[(CONTROL, "max-age=99999999999999999999")], Reused, Reused),
    Rule(200, &[(CONTROL, ",, max-age=60,")], Reused, Reused),
    Rule(200, &[(CONTROL, "x=\"max-age=0\", max-age=60")], Reused, Reused),
    Rule(200, &[(CONTROL, "max-age=60"), (EXPIRES, "0")], Reused, Reused),
    Rule(
        200,
        &[(CONTROL, "max-age=0"), (EXPIRES, FUTURE)],
        Fetched,
        Fetched,
    ),
    Rule(200, &[(CONTROL, "max-age=-1")], Fetched, Fetched),
    Rule(200, &[(CONTROL, "max-age=6x")], Fetched, Fetched),
    Rule(200, &[(CONTROL, "max-age='60'")], Fetched, Fetched),
    Rule(200, &[(CONTROL, "max-age")], Fetched, Fetched),
    Rule(200, &[(CONTROL, "max-age=0, max-age=60")], Fetched, Fetched),
    Rule(
        200,
        &[(CONTROL, "max-age=0"), (CONTROL, "max-age=60")],
        Fetched,
        Fetched,
    ),
    // The gateway is a shared cache on the way of an agent, too.
    Rule(200, &[(CONTROL, "s-maxage=60")], Reused, Reused),
    Rule(200, &[(CONTROL, "S-MaxAge=\"60\"")], Reused, Reused),
    Rule(200, &[(CONTROL, "max-age=0, s-maxage=60")], Reused, Reused),
    Rule(
        200,
        &[(CONTROL, "max-age=0, s-maxage=60"), (EXPIRES, "0")],
        Reused,
        Reused,
    ),
    Rule(200, &[(CONTROL, "s-maxage=60, must-revalidate")], Reused, Reused),
    Rule(200, &[(CONTROL, "max-age=60, s-maxage=0")], Reused, Fetched),
    Rule(200, &[(CONTROL, "max-age=60, s-maxage=-5")], Reused, Fetched),
    Rule(200, &[(EXPIRES, FUTURE)], Reused, Reused),
    Rule(
        200,
        &[(EXPIRES, "Thursday, 06-Nov-53 08:49:37 GMT")],
        Reused,
        Reused,
    ),
    Rule(200, &[(EXPIRES, "Thu Nov  6 08:49:37 2053")], Reused, Reused),
    Rule(200, &[(EXPIRES, "Sun, 06 Nov 2053 08:49:37 GMT")], Reused, Reused),
    Rule(200, &[(EXPIRES, "tHU, 06 nOV 2053 08:49:37 gmt")], Reused, Reused),
    Rule(200, &[(EXPIRES, "0")], Fetched, Fetched),
    Rule(200, &[(EXPIRES, "-1")], Fetched, Fetched),
    Rule(200, &[(EXPIRES, "")], Fetched, Fetched),
    Rule(
        200,
        &[(EXPIRES, "Thu, 06 Nov 2053 08:49:37 UTC")],
        Fetched,
        Fetched,
    ),
    Rule(
        200,
        &[(EXPIRES, "Thu, 06 Nov 2053 08:49:37 +0000")],
        Fetched,
        Fetched,
    ),
    Rule(
        200,
        &[(EXPIRES, "Thu, 06 Nov 2053 8:49:37 GMT")],
        Fetched,
        Fetched,
    ),
    Rule(200, &[(EXPIRES, FUTURE), (EXPIRES, FUTURE)], Fetched, Fetched),
    Rule(200, &[(CONTROL, "max-age=60"), ("Age", "100")], Fetched, Fetched),
    Rule(
        200,
        &[(CONTROL, "max-age=60"), ("Age", "100, 0")],
        Fetched,
        Fetched,
    ),
    Rule(200, &[(CONTROL, "max-age=60"), ("Age", "0, 100")], Reused, Reused),
    Rule(
        200,
        &[(CONTROL, "max-age=60"), ("Age", "99999999999")],
        Fetched,
        Fetched,
    ),
    // The age is invalid, so nobody knows it.
    Rule(200, &[(CONTROL, "max-age=60"), ("Age", "-100")], Fetched, Fetched),
    Rule(
        200,
        &[(CONTROL, "max-age=60"), ("Age", "100.5")],
        Fetched,
        Fetched,
    ),
    Rule(200, &[(CONTROL, "max-age=60"), ("Age", "old")], Fetched, Fetched),
];

/// Permissions (sections 3 and 5.2.2), and statuses.
const PERMISSIONS: &[Rule] = &[
    Rule(200, &[(CONTROL, "private, max-age=60")], Reused, Fetched),
    Rule(200, &[(CONTROL, "private=\"x\", max-age=60")], Reused, Fetched),
    Rule(200, &[(CONTROL, "private, s-maxage=60")], Fetched, Fetched),
    Rule(200, &[(CONTROL, "No-Store, max-age=60")], Fetched, Fetched),
    Rule(
        200,
        &[(CONTROL, "max-age=60"), (CONTROL, "no-store")],
        Fetched,
        Fetched,
    ),
    Rule(200, &[(CONTROL, "no-cache, max-age=60")], Fetched, Fetched),
    Rule(
        200,
        &[("Pragma", "no-cache"), (EXPIRES, FUTURE)],
        Fetched,
        Fetched,
    ),
    Rule(
        200,
        &[(CONTROL, "max-age=60"), ("Set-Cookie", "a=1")],
        Reused,
        Fetched,
    ),
    Rule(
        200,
        &[(CONTROL, "s-maxage=60"), ("Set-Cookie", "a=1")],
        Fetched,
        Fetched,
    ),
    Rule(200, &[(CONTROL, "max-age=60"), ("Vary", "*")], Fetched, Fetched),
    Rule(
        200,
        &[(CONTROL, "max-age=60"), ("Vary", "X, *")],
        Fetched,
        Fetched,
    ),
    Rule(200, &[(CONTROL, "max-age=60"), ("Vary", "X")], Reused, Reused),
    Rule(301, &[(CONTROL, "max-age=60"), ("Location", "/")], Reused, Reused),
    Rule(
        302,
        &[(CONTROL, "max-age=60"), ("Location", "/")],
        Reused,
        Fetched,
    ),
    Rule(
        302,
        &[(CONTROL, "s-maxage=60"), ("Location", "/")],
        Fetched,
        Fetched,
    ),
    Rule(302, &[("Location", "/")], Fetched, Fetched),
    Rule(404, &[(CONTROL, "max-age=60")], Reused, Fetched),
    Rule(404, &[(CONTROL, "s-maxage=60")], Fetched, Fetched),
    Rule(400, &[(CONTROL, "max-age=60")], Reused, Fetched),
    Rule(500, &[(CONTROL, "max-age=60")], Reused, Fetched),
    Rule(599, &[(CONTROL, "max-age=60")], Reused, Fetched),
    Rule(500, &[], Fetched, Fetched),
    Rule(400, &[(CONTROL, "max-age=0")], Fetched, Fetched),
    Rule(429, &[(CONTROL, "max-age=60")], Fetched, Fetched),
];

/// Validators (sections 4.2.2 and 4.3.1). Nothing is stored for all that states no lifetime.
const VALIDATORS: &[Rule] = &[
    Rule(200, &[("ETag", "\"a\"")], Validated, Fetched),
    Rule(
        200,
        &[(CONTROL, "no-cache"), ("ETag", "\"a\"")],
        Validated,
        Fetched,
    ),
    Rule(
        200,
        &[("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")],
        Reused,
        Fetched,
    ),
    Rule(
        200,
        &[
            (CONTROL, "max-age=0"),
            ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ],
        Validated,
        Fetched,
    ),
    Rule(200, &[("ETag", "*")], Fetched, Fetched),
    Rule(200, &[("ETag", "")], Fetched, Fetched),
];

fn rules() -> Vec<WrittenRule> {
    let written = [LIFETIMES, PERMISSIONS, VALIDATORS].into_iter().flatten();
    let written =
        written.map(|Rule(status, fields, private, shared)| (*status, fields.to_vec(), *private, *shared));
    let dates = ODD_DATES.map(|date| {
        (
            200,
            vec![(CONTROL, "max-age=0"), ("Last-Modified", date)],
            Validated,
            Fetched,
        )
    });
    let tags = ODD_TAGS.map(|tag| {
        (
            200,
            vec![(CONTROL, "no-cache"), ("ETag", tag)],
            Validated,
            Fetched,
        )
    });
    written.chain(dates).chain(tags).collect()
}

/// The answer to a request for the rule of this number; 304 if the request names the version.
fn answer(request: Kept<'_>) -> Vec<u8> {
    let number: usize = request
        .path()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .parse()
        .unwrap_or_default();
    let (status, fields, ..) = rules().swap_remove(number);
    let has = |name: &str, condition: &str| {
        let known = fields
            .iter()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| *value);
        known.is_some() && request.field(condition) == known
    };
    let (status, body) = if has("ETag", "If-None-Match") || has("Last-Modified", "If-Modified-Since") {
        (304, "")
    } else {
        (status, "body")
    };
    let mut head = format!("HTTP/1.1 {status} Status\r\n");
    for (name, value) in &fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if status != 304 {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    format!("{head}\r\n{body}").into_bytes()
}

/// An origin, and what it answered to the requests for each rule.
struct Judge {
    origin: RawOrigin,
    statuses: Arc<Mutex<BTreeMap<String, Vec<u16>>>>,
}

impl Judge {
    async fn start() -> Result<Self> {
        let statuses = Arc::<Mutex<BTreeMap<String, Vec<u16>>>>::default();
        let log = Arc::clone(&statuses);
        let origin = RawOrigin::start_kept(move |request| {
            let answer = answer(request);
            let status = String::from_utf8_lossy(&answer[9..12])
                .parse()
                .unwrap_or_default();
            log.lock()
                .entry(request.path().to_owned())
                .or_default()
                .push(status);
            answer
        })
        .await?;
        Ok(Self { origin, statuses })
    }

    fn resolving(&self) -> Setup {
        Setup::resolving(&[("site.test", self.origin.address())])
    }

    /// Requests each rule's response twice; `expected` selects what the second request should have caused.
    async fn compare(
        &self,
        client: &mut RawClient,
        end: &str,
        expected: impl Fn(Second, Second) -> Second,
    ) -> Result<()> {
        let mut wrong = Vec::new();
        for (number, (status, fields, private, shared)) in rules().into_iter().enumerate() {
            let path = format!("/{end}/{number}");
            for _ in 0..2 {
                let referer = [("Referer", "http://site.test/")];
                client
                    .send(get(&format!("http://site.test{path}"), &referer))
                    .await?;
                let answer = client.response().await?;
                anyhow::ensure!(
                    (answer.status, answer.text().as_str()) == (status, "body"),
                    "{fields:?}: {answer:?}"
                );
            }
            let seen = self.statuses.lock().remove(&path).unwrap_or_default();
            let second = match seen.as_slice() {
                [_] => Reused,
                [_, 304] => Validated,
                [_, ..] | [] => Fetched,
            };
            if second != expected(private, shared) {
                wrong.push(format!("{status} {fields:?}: {second:?}"));
            }
        }
        anyhow::ensure!(wrong.is_empty(), "{end}:\n{}", wrong.join("\n"));
        Ok(())
    }
}

#[tokio::test]
async fn agents_follow_the_rules_of_private_caches() -> Result<()> {
    let judge = Judge::start().await?;
    let pair = Pair::start(judge.resolving()).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    judge.compare(&mut client, "agent", |private, _| private).await
}

#[tokio::test]
async fn clients_without_an_agent_share_a_cache() -> Result<()> {
    let judge = Judge::start().await?;
    let folder = folder()?;
    let config = format!(
        "[clientless]\nlisten = \"127.0.0.1:0\"\nallow = [\"127.0.0.0/8\"]\n{}",
        judge.resolving().gateway_config
    );
    std::fs::write(folder.path().join("gateway.toml"), config)?;
    let gateway = start_gateway(folder.path(), "127.0.0.1:0").await?;
    let log = gateway.log().contains("may use the HTTP proxy", LIMIT).await?;
    let line = log.lines().find(|line| line.contains("may use the HTTP proxy"));
    let address = line.and_then(|line| line.split("address=").nth(1));
    let mut client = RawClient::connect(address.context("an address")?.trim().parse()?).await?;
    judge.compare(&mut client, "clientless", |_, shared| shared).await
}
