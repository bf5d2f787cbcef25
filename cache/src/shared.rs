//! State shared by handles and thread.
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;

use longhaul_types::ContentHash;
use tokio::sync::{mpsc, watch};

use crate::usage::Counters;

/// State shared by handles and thread.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: watch::Sender<u64>,
    pub(crate) counters: Counters,
    pub(crate) evictions_taken: AtomicBool,
    /// True if evictions were dropped without a report.
    pub(crate) evictions_lost: AtomicBool,
    pub(crate) evictions: Mutex<Option<mpsc::Receiver<Vec<ContentHash>>>>,
    pub(crate) next_writer: AtomicU64,
    /// Maximum length of a stored body in bytes.
    pub(crate) body_limit: u64,
}

impl Shared {
    pub(crate) fn new(state: u64, body_limit: u64, evictions: mpsc::Receiver<Vec<ContentHash>>) -> Self {
        Self {
            state: watch::Sender::new(state),
            counters: Counters::default(),
            evictions_taken: AtomicBool::new(false),
            evictions_lost: AtomicBool::new(false),
            evictions: Mutex::new(Some(evictions)),
            next_writer: AtomicU64::new(0),
            body_limit,
        }
    }
}
