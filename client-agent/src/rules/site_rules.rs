//! The rules of the running agent, kept over restarts.
use std::{
    fs::File,
    io::{self, Read as _},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use longhaul_session::ImageLevel;
use longhaul_types::UnixTime;
use tokio::sync::{Mutex, watch};
use tracing::warn;

use super::{
    file::{MAX_RULES_FILE, RulesFileError},
    rule_set::{RuleChange, RuleSet, TooManyRules},
};
use crate::{
    state_dir::{StateDir, StateError},
    wall_clock::now,
};

/// File in the state directory.
const FILE: &str = "rules";
/// Maximum wait for the end of a rule: the clock of the system may change, and does not run while it is suspended.
const LOOK: Duration = Duration::from_secs(30);

/// Errors of reading the rules. A rule may keep the gateway from reading a site, so nothing runs without them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// The file is damaged.
    #[error(
        "the rules for sites in {path} cannot be used: {source}. Mend the line, or remove the file to start without rules"
    )]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        source: RulesFileError,
    },
    /// The file cannot be read.
    #[error("the rules for sites in {path} cannot be read: {source}. Check the owner of the file")]
    Unreadable {
        /// The file.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
}

/// Errors of changing the rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// There are too many.
    #[error(transparent)]
    TooMany(#[from] TooManyRules),
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] RulesError),
    /// The file cannot be written; nothing has changed.
    #[error("the rules stay as they were: {0}")]
    Write(#[from] StateError),
    /// The agent stops.
    #[error("the agent stops")]
    Stopping,
}

/// Handle of the rules. Clones share the same rules.
#[derive(Clone, Debug)]
pub struct SiteRules(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    current: ArcSwap<RuleSet>,
    state: StateDir,
    /// Held during a change.
    changing: Mutex<()>,
    changes: watch::Sender<()>,
}

impl SiteRules {
    /// Opens the rules of a state directory.
    ///
    /// # Errors
    /// See [`RulesError`].
    pub fn open(state: &StateDir) -> Result<Self, RulesError> {
        Ok(Self(Arc::new(Inner {
            current: ArcSwap::from_pointee(stored(state)?),
            state: state.clone(),
            changing: Mutex::default(),
            changes: watch::Sender::new(()),
        })))
    }

    /// The rules at present. Some of them may have ended.
    pub fn current(&self) -> Arc<RuleSet> {
        self.0.current.load_full()
    }

    /// Returns a receiver of changes, also of those by the passing of time.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// True if a host is paused.
    pub(crate) fn is_paused(&self, host: &str) -> bool {
        self.0.current.load().pause(host, now()).is_some()
    }

    /// Image level of the pages of a host; `None`: the agent's level.
    pub(crate) fn images(&self, host: &str) -> Option<ImageLevel> {
        self.0.current.load().images(host, now())
    }

    /// Image levels by name, for the gateway.
    pub(crate) fn image_levels(&self) -> Vec<(String, ImageLevel)> {
        self.0.current.load().image_levels(now())
    }

    /// Applies changes and stores them; they apply to the next request.
    ///
    /// # Errors
    /// See [`ChangeError`]; then nothing has changed.
    pub async fn change(&self, changes: &[RuleChange]) -> Result<(), ChangeError> {
        let _turn = self.0.changing.lock().await;
        let mut rules = RuleSet::clone(&self.current());
        let now = now();
        rules.expire(now);
        for change in changes {
            rules.apply(change, now)?;
        }
        self.replace(rules).await
    }

    async fn replace(&self, rules: RuleSet) -> Result<(), ChangeError> {
        let (state, text) = (self.0.state.clone(), rules.encode());
        // File operations block.
        let written = tokio::task::spawn_blocking(move || state.replace(FILE, text.as_bytes())).await;
        written.map_err(|_| ChangeError::Stopping)??;
        self.0.current.store(Arc::new(rules));
        self.0.changes.send_replace(());
        Ok(())
    }

    /// Ends rules when their time is over, until the agent ends.
    pub(crate) async fn run(self) {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            let left = self.time_left(now());
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
                () = after(left) => self.expire().await,
            }
        }
    }

    /// Time until the next look at the clock; `None` if nothing ends.
    fn time_left(&self, now: UnixTime) -> Option<Duration> {
        let end = self.0.current.load().next_end()?;
        let left = end.since_epoch().saturating_sub(now.since_epoch());
        Some(left.min(LOOK))
    }

    async fn expire(&self) {
        let _turn = self.0.changing.lock().await;
        let mut rules = RuleSet::clone(&self.current());
        if !rules.expire(now()) {
            return;
        }
        if let Err(error) = self.replace(rules.clone()).await {
            warn!(%error, "the end of a rule for a site cannot be stored");
            self.0.current.store(Arc::new(rules));
            self.0.changes.send_replace(());
        }
    }
}

async fn after(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

/// Reads the rules of a state directory without what has ended.
///
/// # Errors
/// See [`RulesError`].
pub fn stored(state: &StateDir) -> Result<RuleSet, RulesError> {
    let file = state.path().join(FILE);
    let path = file.display().to_string();
    let mut text = String::new();
    // One byte more than the limit, so that a longer file ends in a malformed line instead of a missing one.
    let read = File::open(&file).and_then(|file| file.take(MAX_RULES_FILE + 1).read_to_string(&mut text));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RuleSet::default()),
        Err(source) => return Err(RulesError::Unreadable { path, source }),
    }
    if text.len() as u64 > MAX_RULES_FILE {
        let source = RulesFileError::TooLarge;
        return Err(RulesError::Damaged { path, source });
    }
    let mut rules = RuleSet::decode(&text).map_err(|source| RulesError::Damaged { path, source })?;
    rules.expire(now());
    Ok(rules)
}

/// Changes the rules of a state directory while no agent runs.
///
/// # Errors
/// See [`ChangeError`]; then nothing has changed.
pub fn change_stored(state: &StateDir, changes: &[RuleChange]) -> Result<(), ChangeError> {
    let mut rules = stored(state)?;
    for change in changes {
        rules.apply(change, now())?;
    }
    state.create()?;
    state.replace(FILE, rules.encode().as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::HttpsRule;

    #[tokio::test]
    async fn rules_survive_a_restart_and_a_damaged_file_stops_the_start() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::new(home.path().to_owned());
        let rules = SiteRules::open(&state).unwrap();
        let mut changes = rules.changes();
        let host = || "a.test".parse().unwrap();
        let wanted = [
            RuleChange::Https(host(), Some(HttpsRule::Tunnel)),
            RuleChange::Images(host(), Some(ImageLevel::Original)),
            RuleChange::Pause(None),
        ];
        rules.change(&wanted).await.unwrap();
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(rules.is_paused("b.test"));
        let again = SiteRules::open(&state).unwrap();
        assert_eq!(again.current(), rules.current());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(home.path().join(FILE)).unwrap().permissions();
            assert_eq!(mode.mode() & 0o777, 0o600);
        }
        std::fs::write(home.path().join(FILE), "longhaul rules 1\nnonsense\n").unwrap();
        let error = SiteRules::open(&state).unwrap_err().to_string();
        assert!(error.contains("line 2 is malformed"), "{error}");
        assert!(change_stored(&state, &wanted).is_err(), "nothing overwrites it");
    }

    #[tokio::test]
    async fn a_change_that_cannot_be_stored_does_not_apply() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::new(home.path().join("absent"));
        let rules = SiteRules::open(&state).unwrap();
        assert!(rules.change(&[RuleChange::Pause(None)]).await.is_err());
        assert!(!rules.is_paused("a.test"));
    }
}
