//! Where cases are loaded: the odd origin, the pair, and two browsers.
use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use longhaul_chromium::{Browser, BrowserOptions, Names};
use longhaul_tests::authority::TestAuthority;
use serde_json::{Value, json};

use crate::{
    case::{Case, Protocol},
    judge::{Difference, judge},
    names::{self, NameServer},
    origin::{HTTP2_HOSTS, OddOrigin, Scripts},
    pair::{Extra, Pair},
    tls::TlsOrigin,
};

/// Maximum duration of a batch, which has its own bounds; the machine may be busy.
const BATCH_LIMIT: Duration = Duration::from_secs(300);

/// Numbers of cases for a batch.
const BATCH_NUMBERS: u64 = 1_000_000;

/// Number of cases on one host over https.
const CASES_OF_A_HOST: usize = 8;

/// How the origin is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Over plain HTTP.
    Http,
    /// Over TLS, accelerated.
    Https,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Http, Self::Https];

    /// Its name in URLs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// What was seen of a case.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Without Longhaul.
    pub direct: Value,
    /// With Longhaul.
    pub through: Value,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// An origin, a pair and two browsers.
#[derive(Debug)]
pub struct Arena {
    direct: Browser,
    through: Browser,
    scripts: Scripts,
    batches: u64,
    pair: Pair,
    origin: OddOrigin,
    tls: Option<TlsOrigin>,
    _name_server: NameServer,
}

impl Arena {
    /// Starts everything.
    ///
    /// # Errors
    /// A program is missing or does not start.
    pub async fn start() -> Result<Self> {
        let authority = TestAuthority::new()?;
        let scripts = Scripts::default();
        let origin = OddOrigin::start(&authority, scripts.clone()).await?;
        let tls = TlsOrigin::start(origin.plain).await?;
        let name_server = NameServer::start().await?;
        let mut extra = Extra {
            name_server: Some(name_server.address),
            ..Extra::default()
        };
        let mut pins = vec![authority.pin().to_owned()];
        if let Some(tls) = &tls {
            scripts.serve_certificate(tls.between()?);
            extra.authority = Some(tls.authority());
            extra.hosts = tls.hosts().collect();
            pins.extend(tls.pins().iter().cloned());
        }
        let pair = Pair::start_with(origin.plain, origin.secure, authority.pem(), &extra).await?;
        let mut places: Vec<_> = extra
            .hosts
            .into_iter()
            .map(|(host, address)| (host, address.to_string()))
            .collect();
        places.push(("*.test:80".to_owned(), origin.plain.to_string()));
        places.push(("*.test:443".to_owned(), origin.secure.to_string()));
        places.extend(names::places());
        let mut options = BrowserOptions::direct(Names {
            fixed: places,
            ..Names::default()
        });
        options.trust_spki = pins.clone();
        let direct = Browser::start(&options).await?;
        let mut options = BrowserOptions::behind(pair.proxy());
        // A host that does not get along with acceleration becomes a tunnel.
        pins.push(pair.pin()?);
        options.trust_spki = pins;
        let through = Browser::start(&options).await?;
        Ok(Self {
            direct,
            through,
            scripts,
            batches: 0,
            pair,
            origin,
            tls,
            _name_server: name_server,
        })
    }

    /// True if the ways of TLS can be tried; they need Python and OpenSSL.
    pub const fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The logs of the pair.
    pub fn logs(&self) -> String {
        format!("{}\n{}", self.pair.folder().display(), self.pair.logs())
    }

    /// Loads each case on a host of its own.
    ///
    /// # Errors
    /// A browser fails, or a page of the driver.
    pub async fn load_alone(&mut self, scheme: Scheme, cases: &[Case]) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        for case in cases {
            verdicts.extend(self.load_together(scheme, std::slice::from_ref(case)).await?);
        }
        Ok(verdicts)
    }

    /// Loads cases in both browsers and compares.
    ///
    /// # Errors
    /// A browser fails, or a page of the driver.
    pub async fn load(&mut self, scheme: Scheme, cases: &[Case]) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        // Cases that a browser remembers for the host are alone on theirs.
        for together in cases.chunk_by(|one, other| !one.is_remembered() && !other.is_remembered()) {
            // After some failures a host is no longer accelerated, and its later cases are those of a tunnel.
            let most = match scheme {
                Scheme::Http => together.len(),
                Scheme::Https => CASES_OF_A_HOST,
            };
            for together in together.chunks(most.max(1)) {
                verdicts.extend(self.load_together(scheme, together).await?);
            }
        }
        Ok(verdicts)
    }

    /// What the driver has to know of a case.
    fn described(&self, scheme: Scheme, number: u64, case: &Case) -> Value {
        let port = match scheme {
            Scheme::Http => self.origin.plain.port(),
            Scheme::Https => self.origin.secure.port(),
        };
        let url = case.url(scheme).replace("{n}", &number.to_string());
        let url = url.replace("{port}", &port.to_string());
        let open = Case::plain_socket().url(scheme);
        let open = open.replace("{n}", &(self.batches * BATCH_NUMBERS - 1).to_string());
        let page = case.script().conversation.map(|conversation| conversation.page);
        let page =
            page.map(|page| json!({ "asked": page.asked, "sends": page.sends, "closes": page.closes }));
        json!([
            number,
            case.seed,
            case.mode.name(),
            case.sets_cookies(),
            url,
            page.map(|page| (page, open))
        ])
    }

    /// Loads cases, all on one host of their own.
    async fn load_together(&mut self, scheme: Scheme, cases: &[Case]) -> Result<Vec<Verdict>> {
        self.batches += 1;
        let first = self.batches * BATCH_NUMBERS;
        let numbered: Vec<(u64, &Case)> = (first..).zip(cases).collect();
        let scripts = numbered.iter().map(|(number, case)| (*number, case.script()));
        // A WebSocket that opens: browsers wait longer and longer before they open others if most of them fail.
        self.scripts
            .replace(scripts.chain([(first - 1, Case::plain_socket().script())]));
        let list: Vec<_> = numbered
            .iter()
            .map(|(number, case)| self.described(scheme, *number, case))
            .collect();
        // An error of one stream may end a connection of HTTP/2 with all its streams: one case after the other.
        let (letter, workers) = match cases.first().map(|case| case.protocol) {
            Some(Protocol::Http2) => (HTTP2_HOSTS, 1),
            Some(Protocol::Http1 | Protocol::Socket | Protocol::Tls | Protocol::Names) | None => ('b', 6),
        };
        let url = format!("{}://{letter}{}.test/drive", scheme.name(), self.batches);
        let expression = format!("drive({}, {workers})", Value::Array(list));
        let (direct, through) = tokio::join!(
            self.direct.evaluate(&url, &expression, BATCH_LIMIT),
            self.through.evaluate(&url, &expression, BATCH_LIMIT),
        );
        let (direct, through) = (
            seen(direct.context("directly")?),
            seen(through.context("through Longhaul")?),
        );
        let verdict = |(number, case): (u64, &Case)| {
            let take =
                |from: &BTreeMap<String, Value>| from.get(&number.to_string()).cloned().unwrap_or_default();
            let (direct, through) = (take(&direct), take(&through));
            let differences = judge(case, scheme, &direct, &through);
            Verdict {
                direct,
                through,
                differences,
            }
        };
        Ok(numbered.into_iter().map(verdict).collect())
    }
}

fn seen(value: Value) -> BTreeMap<String, Value> {
    match value {
        Value::Object(map) => map.into_iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            BTreeMap::new()
        }
    }
}
