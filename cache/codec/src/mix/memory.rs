//! Memory limits of models, which need far more memory than other coders.
use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicUsize, Ordering},
};

use longhaul_types::ByteCount;

/// Memory budget shared by the models of one session or of one process. Clones share the budget.
#[derive(Clone, Debug)]
pub struct MixMemory(Arc<Account>);

#[derive(Debug)]
struct Account {
    used: AtomicUsize,
    most: usize,
}

/// Models of the largest size that a sender uses at a time in one session; the peer must have memory for
/// them.
const SESSION_MODELS: u64 = 4;

/// Budget of all decoders of this process: twice the limit of one peer, because a sender finishes a body
/// before its last windows are decoded.
static DECODERS: LazyLock<MixMemory> = LazyLock::new(|| MixMemory::new(ByteCount::mib(64)));
/// Budget of all encoders of this process: more bodies at a time would wait longer for a core than they save.
static ENCODERS: LazyLock<MixMemory> = LazyLock::new(|| MixMemory::new(ByteCount::mib(256)));

impl MixMemory {
    fn new(most: ByteCount) -> Self {
        let used = AtomicUsize::new(0);
        let most = most.as_usize();
        Self(Arc::new(Account { used, most }))
    }

    /// Budget of the bodies encoded for one session (`docs/protocol/mix.md` section 1).
    #[must_use]
    pub fn of_session() -> Self {
        Self::new(ByteCount::mib(8 * SESSION_MODELS))
    }

    /// Reserves memory for a decoder, if enough is left.
    pub(super) fn for_decoder(bytes: usize) -> Option<Permit> {
        DECODERS.take(bytes)
    }

    /// Reserves memory for an encoder of this session, if the session and the process have enough left.
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

/// Reserved memory; dropping returns it.
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
    fn dropped_models_return_their_memory() {
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
