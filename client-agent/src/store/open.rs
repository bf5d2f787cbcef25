//! Opening of the cache. Browsing never fails because the cache is missing.
use std::path::PathBuf;

use longhaul_cache::{Cache, CacheConfig, OpenError, Opened, ResetReason, Storage};
use longhaul_types::ByteCount;
use tracing::{info, warn};

use super::Store;

/// The file in the cache's directory.
pub(super) const FILE: &str = "cache.sqlite";

impl Store {
    /// Opens the cache of at most `quota` in the directory `dir`; returns a disabled store if that fails or
    /// the quota is 0.
    pub(crate) async fn open(dir: PathBuf, quota: ByteCount) -> Self {
        if quota.bytes() == 0 {
            return Self::off();
        }
        let config = CacheConfig {
            dir,
            file: FILE,
            quota,
        };
        let mut entropy = [0; 8];
        if let Err(error) = getrandom::fill(&mut entropy) {
            warn!("the cache is off: the system provides no random numbers: {error}");
            return Self::off();
        }
        let opened =
            tokio::task::spawn_blocking(move || Cache::open(config, u64::from_ne_bytes(entropy))).await;
        match opened {
            Ok(Ok(opened)) => Self::opened(opened),
            Ok(Err(error @ (OpenError::InUse { .. } | OpenError::Thread(_) | OpenError::Memory(_)))) => {
                warn!("the cache is off: {error}");
                Self::off()
            }
            Err(_) => Self::off(),
        }
    }

    fn opened(opened: Opened) -> Self {
        let Opened {
            cache,
            reset,
            storage,
        } = opened;
        match reset {
            None => {}
            Some(ResetReason::Damaged) => {
                warn!("the cache's file is damaged; it is set aside and an empty file is created")
            }
            Some(ResetReason::Newer { version }) => {
                info!(
                    version,
                    "the cache's file has a newer version; it is set aside and an empty file is created"
                );
            }
            Some(ResetReason::Full) => warn!("the disk is full; the cache is emptied"),
        }
        if let Storage::Memory { cause } = &storage {
            warn!("the cache is in memory only and is lost when the agent stops: {cause}");
        }
        Self::of(cache, u64::from(reset.is_some()))
    }
}
