//! Who of those that wait may write next.
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
};

use longhaul_session::class;
use longhaul_types::Priority;

/// One turn of so many goes to who has waited for longest, so that nobody waits for ever.
const PATIENCE: u64 = 8;

/// How urgent is what a connection writes now.
#[derive(Debug)]
pub(crate) struct Urgency {
    class: AtomicU8,
    left: AtomicU64,
    /// True if the client has taken nothing of the connection for a long time.
    is_stuck: AtomicBool,
}

impl Default for Urgency {
    fn default() -> Self {
        Self {
            class: AtomicU8::new(class::OBJECT.number()),
            left: AtomicU64::new(u64::MAX),
            is_stuck: AtomicBool::new(false),
        }
    }
}

impl Urgency {
    /// Sets the class, and the bytes that are left.
    pub(crate) fn set(&self, class: Priority, left: u64) {
        self.class.store(class.number(), Relaxed);
        self.left.store(left, Relaxed);
    }

    /// Counts bytes that are no longer left.
    pub(super) fn written(&self, bytes: usize) {
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(bytes as u64), Relaxed);
    }

    /// Sets whether the client has taken nothing for a long time.
    pub(super) fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Relaxed);
    }

    /// Returns true if the client has taken nothing for a long time.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Relaxed)
    }
}

/// Position among those that wait; the least is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    class: u8,
    left: u64,
    number: u64,
}

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: BTreeSet<Rank>,
    number: u64,
    turns: u64,
}

impl Turns {
    /// Begins to wait.
    pub(super) fn enter(&mut self, urgency: &Urgency) -> Rank {
        self.number += 1;
        let rank = Rank {
            class: urgency.class.load(Relaxed),
            left: urgency.left.load(Relaxed),
            number: self.number,
        };
        self.waiting.insert(rank);
        rank
    }

    /// Ends to wait.
    pub(super) fn leave(&mut self, rank: Rank) {
        self.waiting.remove(&rank);
    }

    /// Returns true if nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns true if this one is next.
    pub(super) fn is_next(&self, rank: Rank) -> bool {
        let next = if self.turns % PATIENCE == PATIENCE - 1 {
            self.waiting.iter().min_by_key(|rank| rank.number)
        } else {
            self.waiting.first()
        };
        next == Some(&rank)
    }

    /// Counts a turn.
    pub(super) const fn taken(&mut self) {
        self.turns += 1;
    }
}
