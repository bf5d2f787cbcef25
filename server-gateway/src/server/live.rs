//! Control of a running server: changed settings, and proof that it runs.
use std::sync::Arc;

use longhaul_driver::Admission;
use longhaul_gateway_core::{
    config::Config,
    extra_ca::{self, OriginSettingsError},
    gateway::{Gateway, Rules},
    start::origin_config,
};
use longhaul_service::LivenessProbe;

use super::start::max_streams;

/// A handle for a running server.
#[derive(Clone)]
pub struct ServerControl {
    gateway: Arc<Gateway>,
    admission: Admission,
    main_loop: LivenessProbe,
}

/// A new configuration cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// A file that the configuration names cannot be used, or the origin client does not accept the settings.
    #[error(transparent)]
    Origin(#[from] OriginSettingsError),
}

impl ServerControl {
    pub(super) const fn new(gateway: Arc<Gateway>, admission: Admission, main_loop: LivenessProbe) -> Self {
        Self {
            gateway,
            admission,
            main_loop,
        }
    }

    /// Applies the settings that may change while the gateway runs to new requests, tunnels and sessions.
    /// Those in progress keep the settings with which they began.
    ///
    /// # Errors
    /// See [`ReloadError`]; then nothing changes.
    pub async fn reload(&self, config: &Config) -> Result<(), ReloadError> {
        // Only these steps can fail.
        let origin = origin_config(config)?;
        let applied = self.gateway.origin.reconfigure(origin);
        applied.map_err(|error| extra_ca::with_path(error, &config.fetch.extra_ca))?;
        self.gateway.set_rules(Rules::of(config));
        let (sessions, streams) = (config.limits.sessions, max_streams(config));
        self.admission.set_limits(sessions, streams).await;
        Ok(())
    }

    /// Completes when the tasks on which every session depends have answered: the main loop, which accepts
    /// sessions and applies revocations, and the task that owns the UDP socket and runs all sessions.
    pub async fn answered(&self) {
        self.main_loop.answered().await;
        self.admission.probe_liveness().await;
    }

    /// Completes when a gateway that drains has nothing more to do.
    pub async fn drained(&self) {
        self.gateway.drain.over().await;
    }

    /// Completes when the main loop has ended, which it does without a request only if the task of the UDP
    /// socket has ended.
    pub async fn ended(&self) {
        self.main_loop.ended().await;
    }
}
