//! One page load through gateway and agent.
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use url::Url;

use super::{Demo, DemoError, Report, scrape};
use longhaul_replay::page::{Client, Loader, Oracle, Route, client_trust};

/// Result of a page load.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The report.
    pub report: Report,
    /// Number of objects that the recording does not contain; recordings are always incomplete.
    pub missing: usize,
}

impl Demo {
    /// Loads `url` with its subresources, and reads the counters before and after.
    ///
    /// # Errors
    /// Counters cannot be read, or a program ended. The report contains failed objects.
    pub async fn load_once(&mut self, url: &Url) -> Result<Finished, DemoError> {
        let trust = client_trust(&self.trusted)?;
        let local = Client::new(Route::Direct, Arc::clone(&trust));
        let oracle: Arc<dyn Oracle> = Arc::<longhaul_replay::origin::Content>::clone(&self.content);
        let loader = Loader::new(Client::new(Route::Proxy(self.pair.proxy()), trust), Some(oracle));
        let before = scrape::counters(&self.pair, &local).await?;
        let progress = progress_bar();
        let load = loader.load(url, |done, known| {
            progress.set_length(u64::try_from(known).unwrap_or(u64::MAX));
            progress.set_position(u64::try_from(done).unwrap_or(u64::MAX));
        });
        let load = tokio::select! {
            load = load => load,
            error = self.pair.ended() => return Err(error.into()),
        };
        progress.set_message("reading the counters");
        let after = scrape::resting_counters(&self.pair, &local).await?;
        progress.finish_and_clear();
        let report = Report::new(&load, before, after)?;
        Ok(Finished {
            missing: load.missing(),
            report,
        })
    }
}

/// Visible only on a terminal; indicatif draws on stderr and hides itself elsewhere.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} objects  {elapsed}  {msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
