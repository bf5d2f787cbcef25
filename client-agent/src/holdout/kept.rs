//! The comparisons on disk: what the agent knows about links after a restart.
use std::{io, time::Duration};

use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use super::{
    HoldOut, Inner, State,
    file::{MAX_FILE, decode, encode},
    record::Records,
};
use crate::{state_dir::StateDir, wall_clock::now};

/// Interval of writing: what a killed agent loses.
const INTERVAL: Duration = Duration::from_secs(1);

/// The file in the state directory.
const FILE: &str = "hold-out";

/// The file, and whether it is used.
#[derive(Debug)]
pub(super) struct Kept {
    state_dir: StateDir,
    is_on: bool,
    /// Held while the file changes: older contents must not overtake a deletion. True if the last writing failed.
    is_failing: Mutex<bool>,
}

impl Kept {
    /// With `is_on` false, the file is neither read nor written, but deleted if the user wants that.
    pub(super) const fn new(state_dir: StateDir, is_on: bool) -> Self {
        Self {
            state_dir,
            is_on,
            is_failing: Mutex::new(false),
        }
    }

    /// Reads the records of earlier runs. An unreadable file counts as empty.
    pub(super) fn read(&self) -> Records {
        let read = || match self.state_dir.read(FILE, MAX_FILE) {
            Ok(text) => decode(&text).map_err(|error| format!("is damaged: {error}")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Records::new()),
            Err(error) => Err(format!("cannot be read: {error}")),
        };
        if !self.is_on {
            return Records::new();
        }
        read().unwrap_or_else(|error| {
            warn!("comparisons with direct connections begin anew: the file `hold-out` {error}");
            Records::new()
        })
    }
}

impl HoldOut {
    /// Writes new comparisons to the file, until the agent ends.
    pub(crate) async fn run(self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.write().await;
        }
    }

    /// Writes the comparisons to the file, if there are new ones.
    pub(crate) async fn write(&self) {
        let has_changed = self.0.state.lock().has_changed;
        if self.0.kept.is_on && has_changed {
            let hold_out = self.clone();
            // File operations block. This fails only when the process ends.
            let _written = tokio::task::spawn_blocking(move || hold_out.0.write_now()).await;
        }
    }

    /// Forgets the times of hosts; what is known about links has no hosts.
    pub(crate) fn forget_hosts(&self) {
        self.0.state.lock().forget_hosts();
    }

    /// Forgets everything, on disk as well.
    pub(crate) async fn forget(&self) {
        let hold_out = self.clone();
        // File operations block. This fails only when the process ends.
        let _forgotten = tokio::task::spawn_blocking(move || hold_out.0.forget_now()).await;
    }
}

impl Inner {
    fn write_now(&self) {
        let mut is_failing = self.kept.is_failing.lock();
        let mut state = self.state.lock();
        state.has_changed = false;
        let records = state.comparisons.records(now().since_epoch().as_secs());
        drop(state);
        match self.kept.state_dir.replace(FILE, encode(&records).as_bytes()) {
            Ok(()) => *is_failing = false,
            Err(error) => {
                // The next comparison writes again.
                if !std::mem::replace(&mut *is_failing, true) {
                    warn!("comparisons with direct connections are lost when the agent stops: {error}");
                }
            }
        }
    }

    fn forget_now(&self) {
        let _writing = self.kept.is_failing.lock();
        *self.state.lock() = State::default();
        if let Err(error) = self.kept.state_dir.remove(FILE) {
            warn!("{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::holdout::{
        comparison::Kind,
        link_class::LinkClass,
        record::{Link, LinkRecord},
    };

    #[test]
    fn a_file_is_read_if_it_is_used_and_not_damaged() {
        let home = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(home.path().to_owned());
        let kept = Kept::new(state_dir.clone(), true);
        assert_eq!(kept.read(), Records::new(), "there is none");
        let link = Link {
            network: None,
            class: LinkClass::of_numbers(4, 4).unwrap(),
        };
        let record = LinkRecord {
            ratios: VecDeque::from([0.5]),
            is_bypassed: true,
            ..LinkRecord::default()
        };
        let records = Records::from([((link, Kind::Page), record)]);
        state_dir.replace(FILE, encode(&records).as_bytes()).unwrap();
        assert_eq!(kept.read(), records);
        assert_eq!(Kept::new(state_dir.clone(), false).read(), Records::new());
        std::fs::write(home.path().join("hold-out"), [0xff; 100]).unwrap();
        assert_eq!(kept.read(), Records::new());
        state_dir.remove(FILE).unwrap();
        state_dir.remove(FILE).unwrap();
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
