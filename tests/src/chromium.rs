//! Headless Chromium with a profile of its own, as a user's browser behind the agent.
use std::{collections::BTreeMap, net::SocketAddr, process::Stdio, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::devtools::DevTools;

/// Debian's name first, then others'.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];
const START: Duration = Duration::from_secs(60);

/// What became of one request of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A response arrived whole.
    Loaded {
        /// Its status.
        status: u64,
        /// Bytes that the browser counted for it.
        bytes: u64,
    },
    /// The browser reported an error.
    Failed(String),
    /// It had not ended at the load event.
    Pending,
}

/// A page load.
#[derive(Clone, Debug)]
pub struct Load {
    /// Each requested URL and what became of it.
    pub requests: BTreeMap<String, Outcome>,
    /// The document's text content after load.
    pub text: String,
}

/// A running browser; it ends when dropped.
#[derive(Debug)]
pub struct Chromium {
    _child: Child,
    _profile: TempDir,
    devtools: DevTools,
}

impl Chromium {
    /// Starts a browser that sends everything through `proxy`, and resolves no name itself.
    ///
    /// # Errors
    /// Chromium is not installed or does not start.
    pub async fn start(proxy: SocketAddr, options: &[&str]) -> Result<Self> {
        let profile = tempfile::Builder::new().prefix("longhaul-chromium-").tempdir()?;
        let mut child = Self::command(proxy, &profile, options)?
            .spawn()
            .context("start Chromium")?;
        let stderr = child.stderr.take().context("stderr is piped")?;
        let mut lines = BufReader::new(stderr).lines();
        let url = timeout(START, async {
            while let Some(line) = lines.next_line().await? {
                if let Some(url) = line.strip_prefix("DevTools listening on ") {
                    return Ok(url.to_owned());
                }
            }
            bail!("Chromium ended before it was ready")
        });
        let url = url.await.context("Chromium is not ready")??;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self {
            _child: child,
            _profile: profile,
            devtools: DevTools::connect(&url).await?,
        })
    }

    fn command(proxy: SocketAddr, profile: &TempDir, options: &[&str]) -> Result<Command> {
        let name = NAMES.iter().find(|name| {
            std::env::var_os("PATH")
                .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).exists()))
        });
        let name = name.context("Chromium is not installed: `make tools` installs it")?;
        let mut command = Command::new(name);
        command
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .args([
                "--disable-default-apps",
                "--disable-domain-reliability",
                "--disable-extensions",
                "--no-pings",
            ])
            .args([
                "--disable-client-side-phishing-detection",
                "--metrics-recording-only",
            ])
            .args([
                "--disable-features=HttpsUpgrades,OptimizationHints,MediaRouter",
                "--remote-debugging-port=0",
            ])
            // Nothing is to be looked up but by the proxy.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")
            .arg(format!("--proxy-server=http://{proxy}"))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(options)
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Ok(command)
    }

    /// Loads a page in a new tab and waits for its load event.
    ///
    /// # Errors
    /// The browser is gone, or the page does not load within `limit`.
    pub async fn load(&mut self, url: &str, limit: Duration) -> Result<Load> {
        timeout(limit, self.load_page(url))
            .await
            .with_context(|| format!("{url} did not load in time"))?
    }

    /// Loads a page, then evaluates an expression in it and waits for its value; a promise is waited for.
    ///
    /// # Errors
    /// The browser is gone, the expression throws, or there is no value within `limit`.
    pub async fn evaluate(&mut self, url: &str, expression: &str, limit: Duration) -> Result<Value> {
        let evaluated = async {
            let tab = self.open(url).await?;
            let value = self.value(&tab, expression).await?;
            self.close(tab).await?;
            Ok(value)
        };
        timeout(limit, evaluated)
            .await
            .with_context(|| format!("`{expression}` has no value in time"))?
    }

    async fn load_page(&mut self, url: &str) -> Result<Load> {
        let tab = self.open(url).await?;
        let text = self.value(&tab, "document.documentElement.innerText").await?;
        let text = text.as_str().unwrap_or_default().to_owned();
        let requests = self.close(tab).await?;
        Ok(Load { requests, text })
    }

    /// Navigates a new tab and waits for the page's load event.
    async fn open(&mut self, url: &str) -> Result<Tab> {
        let target = self
            .devtools
            .call(None, "Target.createTarget", json!({ "url": "about:blank" }))
            .await?;
        let target = target["targetId"].clone();
        let attach = json!({ "targetId": target, "flatten": true });
        let session = self.devtools.call(None, "Target.attachToTarget", attach).await?;
        let session = session["sessionId"].as_str().context("a session id")?.to_owned();
        for domain in ["Page.enable", "Network.enable", "Runtime.enable"] {
            self.devtools.call(Some(&session), domain, json!({})).await?;
        }
        let navigated = self
            .devtools
            .call(Some(&session), "Page.navigate", json!({ "url": url }))
            .await?;
        if let Some(error) = navigated["errorText"].as_str() {
            bail!("{url}: {error}");
        }
        let mut requests = Requests::default();
        loop {
            let event = self.devtools.event().await?;
            if event["sessionId"].as_str() != Some(&session) {
                continue;
            }
            if event["method"] == "Page.loadEventFired" && requests.document(url) {
                return Ok(Tab {
                    target,
                    session,
                    requests,
                });
            }
            requests.note(&event);
        }
    }

    async fn value(&mut self, tab: &Tab, expression: &str) -> Result<Value> {
        let expression = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self
            .devtools
            .call(Some(&tab.session), "Runtime.evaluate", expression)
            .await?;
        if !answer["exceptionDetails"].is_null() {
            bail!("the page threw: {}", answer["exceptionDetails"]);
        }
        Ok(answer["result"]["value"].clone())
    }

    async fn close(&mut self, tab: Tab) -> Result<BTreeMap<String, Outcome>> {
        self.devtools
            .call(None, "Target.closeTarget", json!({ "targetId": tab.target }))
            .await?;
        Ok(tab.requests.by_url())
    }
}

/// An open page.
#[derive(Debug)]
struct Tab {
    target: Value,
    session: String,
    requests: Requests,
}

/// Requests by the browser's own ids.
#[derive(Debug, Default)]
struct Requests {
    urls: BTreeMap<String, String>,
    status: BTreeMap<String, u64>,
    outcomes: BTreeMap<String, Outcome>,
}

impl Requests {
    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let Some(id) = params["requestId"].as_str().map(str::to_owned) else {
            return;
        };
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                if url.starts_with("http") {
                    self.urls.insert(id, url.to_owned());
                }
            }
            "Network.responseReceived" => {
                self.status
                    .insert(id, params["response"]["status"].as_u64().unwrap_or_default());
            }
            "Network.loadingFinished" => {
                let status = self.status.get(&id).copied().unwrap_or_default();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a count that JSON keeps as a float"
                )]
                let bytes = params["encodedDataLength"].as_f64().unwrap_or_default() as u64;
                self.outcomes.insert(id, Outcome::Loaded { status, bytes });
            }
            "Network.loadingFailed" => {
                let error = params["errorText"].as_str().unwrap_or("unknown").to_owned();
                self.outcomes.insert(id, Outcome::Failed(error));
            }
            _ => {}
        }
    }

    /// Whether the document itself is among the requests: the load event of `about:blank` is not the page's.
    fn document(&self, url: &str) -> bool {
        self.urls.values().any(|known| known == url)
    }

    fn by_url(self) -> BTreeMap<String, Outcome> {
        let outcomes = self.outcomes;
        let all = self.urls.into_iter();
        all.map(|(id, url)| (url, outcomes.get(&id).cloned().unwrap_or(Outcome::Pending)))
            .collect()
    }
}
