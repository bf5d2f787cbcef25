//! What to start.
use std::path::PathBuf;

use longhaul_types::Techniques;
use rustls_pki_types::CertificateDer;

use crate::{
    cli::{Beside, ImageLevel},
    job::HoldOut,
    state::State,
};

/// Configuration of the pair.
#[derive(Clone, Debug)]
pub(in crate::worker) struct PairPlan {
    /// Folder of the programs.
    pub(in crate::worker) bin_dir: PathBuf,
    /// Folder for state and logs.
    pub(in crate::worker) temporary: PathBuf,
    /// The test authority's certificate.
    pub(in crate::worker) ca: PathBuf,
    /// The link profile that a user of this link would configure, unless the system starts without one.
    pub(in crate::worker) link: Option<String>,
    /// Image quality.
    pub(in crate::worker) image_level: ImageLevel,
    /// Permission of the gateway to push.
    pub(in crate::worker) push: Push,
    /// Coding by the gateway.
    pub(in crate::worker) coding: Coding,
    /// Treatment of https by the agent.
    pub(in crate::worker) https: Https,
    /// What carries the session.
    pub(in crate::worker) carrier: Carrier,
    /// Direct visits of the agent.
    pub(in crate::worker) hold_out: HoldOut,
    /// Techniques that are switched off at both ends.
    pub(in crate::worker) without: Techniques,
    /// State at the beginning of the load, which may require further devices.
    pub(in crate::worker) state: State,
    /// Traffic during the load, which may require another device.
    pub(in crate::worker) beside: Beside,
}

/// Control of the gateway's coding effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Coding {
    /// Default.
    Usual,
    /// Fixed effort.
    Fixed,
}

/// The only protocol that carries the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Carrier {
    /// UDP. Programs from before there were others have no flag for it.
    Udp,
    /// TLS.
    Tls,
    /// QUIC.
    Quic,
}

/// Treatment of https by the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Https {
    /// Tunnelled.
    Tunnelled,
    /// Accelerated for all hosts.
    Accelerated,
}

/// The certificate authority that an agent created on its device, for browsers that must trust it.
#[derive(Clone, Debug)]
pub(in crate::worker) struct AgentAuthority {
    /// Its certificate.
    pub(in crate::worker) certificate: CertificateDer<'static>,
    /// SHA-256 of its public key, in the form of Chromium's flag.
    pub(in crate::worker) pin: String,
}

/// Permission of the gateway to send bodies that were not requested yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::worker) enum Push {
    /// The agent's default.
    On,
    /// Disabled.
    Off,
}
