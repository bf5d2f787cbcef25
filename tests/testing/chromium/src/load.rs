//! Page loads.
use std::{collections::BTreeSet, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use longhaul_loader::PageLoad;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::{
    Browser, bodies,
    devtools::{DevTools, DevToolsError, Incoming},
    motion::{self, Motion},
    paint::Paints,
    requests::{End, Requests},
    tab::{Tab, thrown},
};

/// Options for loading a page.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Time limit until the load event.
    pub limit: Duration,
    /// Treatment of the browser's own cache before the load.
    pub cache: Cache,
    /// True to take a screenshot of the loaded page, of the viewport's size.
    pub screenshot: bool,
    /// True to hash the bodies.
    pub hash_bodies: bool,
    /// Hosts of the page whose names do not exist, as the caller knows: failures there are counted as
    /// missing, not failed. Behind a proxy the browser cannot distinguish them.
    pub absent_hosts: BTreeSet<String>,
}

impl LoadOptions {
    /// A load of at most `limit`, with the browser's cache, that returns only figures.
    pub const fn within(limit: Duration) -> Self {
        Self {
            limit,
            cache: Cache::Keep,
            screenshot: false,
            hash_bodies: false,
            absent_hosts: BTreeSet::new(),
        }
    }
}

/// Treatment of the browser's own cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// Used unchanged.
    Keep,
    /// Emptied first, and cookies deleted. Open connections stay open.
    Clear,
    /// Neither read nor written by this load; requests carry `Cache-Control: no-cache`, as with a forced
    /// reload.
    Bypass,
}

/// A loaded page.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its figures.
    pub load: PageLoad,
    /// Time of the navigation command, for comparison with other measurements.
    pub navigated: std::time::Instant,
    /// The document's text after the load event.
    pub text: String,
    /// The screenshot as PNG, if requested.
    pub screenshot: Option<Vec<u8>>,
}

/// Errors of loading a page.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The URL is invalid.
    #[error("`{0}` is not an absolute URL")]
    Url(String),
    /// The document did not arrive.
    #[error("{} did not load: {error}", load.url)]
    Document {
        /// The network stack's error, such as `net::ERR_NAME_NOT_RESOLVED`.
        error: String,
        /// State of the requests at that time.
        load: Box<PageLoad>,
    },
    /// The limit passed before the load event.
    #[error("{} did not load within {} s", load.url, limit.as_secs())]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// State of the load at that time.
        load: Box<PageLoad>,
    },
    /// The connection to the browser failed.
    #[error(transparent)]
    DevTools(#[from] DevToolsError),
}

/// Errors of evaluating an expression.
#[derive(Debug, Error)]
pub enum EvaluateError {
    /// The page did not load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The expression threw an exception.
    #[error("the expression threw an exception: {0}")]
    Threw(String),
    /// There was no value within the limit.
    #[error("no value within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The connection to the browser failed.
    #[error(transparent)]
    DevTools(#[from] DevToolsError),
}

/// Data read from a page after its load event.
#[derive(Debug, Default)]
struct Aftermath {
    paints: Paints,
    text: String,
    screenshot: Option<Vec<u8>>,
}

impl Browser {
    /// Loads a page in a new tab until its load event.
    ///
    /// The time is from the navigation's first request, when the browser passes it to its network stack, to
    /// the load event of the main frame: both by the browser's own clock, so that the delay of the DevTools
    /// is excluded. Redirects are included, the opening of the tab is not.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub async fn load(&mut self, url: &str, options: &LoadOptions) -> Result<Loaded, LoadError> {
        let url = Url::parse(url).map_err(|_| LoadError::Url(url.to_owned()))?;
        let deadline = Instant::now() + options.limit;
        let devtools = &mut self.devtools;
        let tab = Tab::open(devtools, self.viewport).await?;
        let mut page = Page {
            tab,
            requests: Requests::default(),
            motion: self.motion,
            navigated: std::time::Instant::now(),
        };
        let arrived = page.load(devtools, &url, deadline, options).await;
        let finished = match arrived {
            Ok(end) => page.finish(devtools, &url, end, options).await,
            Err(error) => Err(error),
        };
        if matches!(finished, Err(LoadError::DevTools(DevToolsError::Lost(_)))) {
            return finished;
        }
        page.tab.close(devtools).await?;
        finished
    }

    /// Opens a page in a new tab, which stays open until the browser ends, and does not wait for the page.
    ///
    /// # Errors
    /// The browser does not open the tab.
    pub async fn open(&mut self, url: &str) -> Result<(), DevToolsError> {
        let target = json!({ "url": url });
        self.devtools.call(None, "Target.createTarget", target).await?;
        Ok(())
    }

    /// Loads a page, evaluates an expression in it and returns its value; a promise is awaited.
    ///
    /// # Errors
    /// The page does not load, the expression throws, or there is no value within `limit`.
    pub async fn evaluate(
        &mut self,
        url: &str,
        expression: &str,
        limit: Duration,
    ) -> Result<Value, EvaluateError> {
        let url = Url::parse(url).map_err(|_| LoadError::Url(url.to_owned()))?;
        let deadline = Instant::now() + limit;
        let devtools = &mut self.devtools;
        let tab = Tab::open(devtools, self.viewport).await?;
        let mut page = Page {
            tab,
            requests: Requests::default(),
            motion: self.motion,
            navigated: std::time::Instant::now(),
        };
        let value = page
            .evaluate(devtools, &url, expression, deadline, &LoadOptions::within(limit))
            .await;
        if let Err(
            EvaluateError::DevTools(DevToolsError::Lost(_))
            | EvaluateError::Load(LoadError::DevTools(DevToolsError::Lost(_))),
        ) = value
        {
            return value;
        }
        page.tab.close(devtools).await?;
        value
    }
}

/// A page that is being loaded.
#[derive(Debug)]
struct Page {
    tab: Tab,
    requests: Requests,
    motion: Motion,
    navigated: std::time::Instant,
}

impl Page {
    /// Navigates the tab and waits for the load event; returns its time.
    async fn load(
        &mut self,
        devtools: &mut DevTools,
        url: &Url,
        deadline: Instant,
        options: &LoadOptions,
    ) -> Result<f64, LoadError> {
        self.prepare_cache(devtools, options.cache).await?;
        if self.motion == Motion::Still {
            motion::prepare(devtools, &self.tab).await?;
        }
        let navigate = json!({ "url": url.as_str() });
        self.navigated = std::time::Instant::now();
        let navigation = devtools
            .submit(Some(&self.tab.session), "Page.navigate", navigate)
            .await?;
        match timeout_at(deadline, self.until_load(devtools, navigation)).await {
            Ok(Ok(Ok(loaded))) => Ok(loaded),
            Ok(Ok(Err(error))) => Err(LoadError::Document {
                error,
                load: Box::new(self.so_far(url, options)),
            }),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(LoadError::TimedOut {
                limit: options.limit,
                load: Box::new(self.so_far(url, options)),
            }),
        }
    }

    async fn evaluate(
        &mut self,
        devtools: &mut DevTools,
        url: &Url,
        expression: &str,
        deadline: Instant,
        options: &LoadOptions,
    ) -> Result<Value, EvaluateError> {
        self.load(devtools, url, deadline, options).await?;
        let expression = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let session = Some(self.tab.session.as_str());
        let answer = devtools
            .call_until(deadline, session, "Runtime.evaluate", expression)
            .await;
        let mut answer = match answer {
            Err(DevToolsError::Silent(_)) => return Err(EvaluateError::TimedOut(options.limit)),
            other => other?,
        };
        if answer["exceptionDetails"].is_null() {
            Ok(answer["result"]["value"].take())
        } else {
            Err(EvaluateError::Threw(thrown(&answer["exceptionDetails"])))
        }
    }

    fn so_far(&self, url: &Url, options: &LoadOptions) -> PageLoad {
        let end = End::Limit(options.limit);
        self.requests.page(url, end, &options.absent_hosts)
    }

    async fn prepare_cache(&self, devtools: &mut DevTools, cache: Cache) -> Result<(), DevToolsError> {
        match cache {
            Cache::Keep => {}
            Cache::Clear => {
                for method in ["Network.clearBrowserCache", "Network.clearBrowserCookies"] {
                    self.tab.call(devtools, method, json!({})).await?;
                }
            }
            Cache::Bypass => {
                let disabled = json!({ "cacheDisabled": true });
                self.tab
                    .call(devtools, "Network.setCacheDisabled", disabled)
                    .await?;
            }
        }
        Ok(())
    }

    /// Returns the time of the load event, or the reason for its absence.
    async fn until_load(
        &mut self,
        devtools: &mut DevTools,
        navigation: u64,
    ) -> Result<Result<f64, String>, DevToolsError> {
        loop {
            let event = match devtools.next().await? {
                Incoming::Answer(id, answer) if id == navigation => {
                    let error = match &answer {
                        Ok(answer) => answer["errorText"].as_str(),
                        Err(refused) => Some(refused.as_str()),
                    };
                    if let Some(error) = error {
                        return Ok(Err(error.to_owned()));
                    }
                    continue;
                }
                Incoming::Event(event) if event.session.as_deref() == Some(&self.tab.session) => event,
                Incoming::Answer(..) | Incoming::Event(_) => continue,
            };
            if event.method == "Page.loadEventFired" {
                let at = event.params["timestamp"].as_f64().unwrap_or_default();
                // The load event of the empty page comes before the first request.
                if self.requests.origin().is_some_and(|origin| origin < at) {
                    return Ok(Ok(at));
                }
            }
            self.requests.note(&event.method, &event.params);
        }
    }

    async fn finish(
        &mut self,
        devtools: &mut DevTools,
        url: &Url,
        end: f64,
        options: &LoadOptions,
    ) -> Result<Loaded, LoadError> {
        let after = self.look(devtools, options).await?;
        // Events of requests that the browser's other processes sent meanwhile.
        while let Some(event) = devtools.queued() {
            if event.session.as_deref() == Some(&self.tab.session) {
                self.requests.note(&event.method, &event.params);
            }
        }
        if options.hash_bodies {
            bodies::hash(devtools, &self.tab, &mut self.requests).await?;
        }
        let mut load = self.requests.page(url, End::Load(end), &options.absent_hosts);
        load.first_paint = after.paints.first;
        load.largest_paint = after.paints.largest;
        Ok(Loaded {
            load,
            navigated: self.navigated,
            text: after.text,
            screenshot: after.screenshot,
        })
    }

    async fn look(
        &mut self,
        devtools: &mut DevTools,
        options: &LoadOptions,
    ) -> Result<Aftermath, DevToolsError> {
        let paints = Paints::read(devtools, &self.tab).await?;
        if options.screenshot && self.motion == Motion::Still {
            motion::until_quiet(devtools, &self.tab, &mut self.requests).await?;
            motion::stop(devtools, &self.tab).await?;
        }
        let text = "document.documentElement ? document.documentElement.innerText : ''";
        let text = self.tab.evaluate_apart(devtools, text).await?;
        let screenshot = if options.screenshot {
            let picture = json!({ "format": "png" });
            let answer = self.tab.call(devtools, "Page.captureScreenshot", picture).await?;
            let data = answer["data"].as_str().unwrap_or_default();
            let data = STANDARD
                .decode(data)
                .map_err(|error| DevToolsError::Malformed(error.to_string()))?;
            Some(data)
        } else {
            None
        };
        Ok(Aftermath {
            paints,
            text: text.as_str().unwrap_or_default().to_owned(),
            screenshot,
        })
    }
}
