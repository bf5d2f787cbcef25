//! Access of the operator's commands to the device list: through the running gateway, else through its files.
use longhaul_gateway_core::{
    admin::device_usage,
    admission::{devices::Devices, state::StateDir},
    config::Config,
    quota_limits::QuotaDefaults,
};

use std::time::SystemTime;

use super::CommandError;
use crate::operator::{
    changes::{Change, ChangeContext, ChangeError},
    client::RunningGateway,
    messages::DeviceList,
    report::{Known, device_list},
};

/// The device list of a gateway.
pub(super) enum DeviceAccess<'a> {
    /// A gateway runs, and applies changes at once.
    Running(RunningGateway),
    /// No gateway runs, or it has no admin socket and finds the change of the file within a second.
    Files {
        state: StateDir,
        public_address: Option<&'a str>,
        defaults: QuotaDefaults,
    },
}

impl<'a> DeviceAccess<'a> {
    /// Finds the running gateway that uses the configured state directory.
    pub(super) async fn open(config: &'a Config) -> Result<Self, CommandError> {
        let running = RunningGateway::find(&config.state_dir, config.admin_socket.as_deref()).await?;
        if let Some(running) = running {
            return Ok(Self::Running(running));
        }
        Ok(Self::Files {
            state: StateDir::open(&config.state_dir)?,
            public_address: config.public_address.as_deref(),
            defaults: config.quota,
        })
    }

    /// Orders a change.
    pub(super) async fn order<C: Change>(&self, change: C) -> Result<C::Reply, CommandError> {
        match self {
            Self::Running(gateway) => Ok(gateway.order(&change).await?),
            Self::Files {
                state,
                public_address,
                ..
            } => {
                let context = ChangeContext {
                    state,
                    public_address: *public_address,
                    now: SystemTime::now(),
                };
                let changed = Devices::update(state, |devices| change.apply(devices, &context));
                Ok(changed.map_err(|error: ChangeError| error)?)
            }
        }
    }

    /// The device list.
    pub(super) async fn list(&self) -> Result<DeviceList, CommandError> {
        match self {
            Self::Running(gateway) => Ok(gateway.devices().await?),
            Self::Files { state, defaults, .. } => {
                let (devices, usage) = (Devices::load(state)?, device_usage::peek(state));
                Ok(device_list(
                    &devices,
                    &Known::Files(&usage),
                    *defaults,
                    SystemTime::now(),
                ))
            }
        }
    }
}
