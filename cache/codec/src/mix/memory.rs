//! Memory of models, which is far more than other coders take.
use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicUsize, Ordering},
};

use longhaul_types::ByteCount;

/// Memory that the models of one session, or of one process, may take together. Copies share it.
#[derive(Clone, Debug)]
pub struct MixMemory(Arc<Account>);

#[derive(Debug)]
struct Account {
    used: AtomicUsize,
    most: usize,
}

/// Models of the largest size that a sender has at work in one session: what the peer must be able to hold.
const SESSION_MODELS: u64 = 4;

/// All bodies that this process decodes: twice what one peer may send, since a sender is done with a body before its
/// last windows are read.
static DECODERS: LazyLock<MixMemory> = LazyLock::new(|| MixMemory::new(ByteCount::mib(64)));
/// All bodies that this process codes: more of them at a time would wait for a core for longer than they save.
static ENCODERS: LazyLock<MixMemory> = LazyLock::new(|| MixMemory::new(ByteCount::mib(256)));

impl MixMemory {
    fn new(most: ByteCount) -> Self {
        let used = AtomicUsize::new(0);
        let most = most.as_usize();
        Self(Arc::new(Account { used, most }))
    }

    /// What the bodies may take that are coded for one session, as `docs/protocol/mix.md` bounds it.
    #[must_use]
    pub fn of_session() -> Self {
        Self::new(ByteCount::mib(8 * SESSION_MODELS))
    }

    /// Memory for a decoder, if there is so much left.
    pub(super) fn for_decoder(bytes: usize) -> Option<Permit> {
        DECODERS.take(bytes)
    }

    /// Memory for an encoder of this session, if there is so much left here and in the process.
    pub(super) fn for_encoder(&self, bytes: usize) -> Option<[Permit; 2]> {
        Some([self.take(bytes)?, ENCODERS.take(bytes)?])
    }

    fn take(&self, bytes: usize) -> Option<Permit> {
        let most = self.0.most;
        let more = |used: usize| used.checked_add(bytes).filter(|&used| used <= most);
        let taken = self
            .0
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Permit {
            memory: self.clone(),
            bytes,
        })
    }
}

/// Memory that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    memory: MixMemory,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.memory.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_free_again() {
        let memory = MixMemory::new(ByteCount::new(100));
        let first = memory.take(60);
        assert!(first.is_some() && memory.take(41).is_none());
        let second = memory.take(40);
        assert!(second.is_some() && memory.take(1).is_none());
        drop(first);
        assert!(memory.take(60).is_some());
        assert!(memory.take(usize::MAX).is_none());
    }
}
