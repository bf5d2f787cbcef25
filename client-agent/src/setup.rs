//! The command `setup`: a page that takes the invite, and then the agent.
use std::io::{self, Write};

use longhaul_settings::{Mistakes, Source};

use crate::{
    config::{self, ConfigFlags, Environment},
    connection::{BindError, bind},
    control::{ControlToken, NoRandomness, take_invite},
    control_client,
    state_dir::{StateDir, StateError},
    state_lock::{LockError, StateLock},
};

/// Errors of the command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The configuration has mistakes besides the absent invite.
    #[error("{0}")]
    Mistakes(#[from] Mistakes),
    /// The control port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The state directory cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// An agent uses the state directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The token cannot be made.
    #[error("the token of the page cannot be created: {0}")]
    Token(#[from] NoRandomness),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(#[source] io::Error),
}

/// Returns when the configuration has an invite; if it has none, serves a page at the control port that takes one, and
/// prints its address to `out`.
///
/// # Errors
/// See [`SetupError`].
pub async fn wait_for_invite(
    flags: &ConfigFlags,
    environment: &Environment,
    out: &mut impl Write,
) -> Result<(), SetupError> {
    let Err(mistakes) = config::load(flags, environment) else {
        return Ok(());
    };
    // An invite that is there but wrong is a mistake like others.
    let is_missing = |mistake: &longhaul_settings::Mistake| {
        mistake.key() == Some("invite") && mistake.source_of_value() == Some(&Source::Default)
    };
    if !mistakes.list.iter().all(is_missing) {
        return Err(mistakes.into());
    }
    let (address, state_dir) = config::load_control(flags, environment)?;
    let state_dir = StateDir::new(state_dir);
    if state_dir.has_invite() {
        return Err(mistakes.into());
    }
    state_dir.create()?;
    let _lock = StateLock::take(&state_dir).await?;
    let listener = bind(address, "the control port", "control").await?;
    let own = listener.local_addr().unwrap_or(address);
    let token = ControlToken::make()?;
    let hex = token.to_hex();
    state_dir.keep_control_token(&hex)?;
    let page = control_client::status_page(own, Some(&hex));
    writeln!(
        out,
        "this device is not enrolled: open {page} and paste the invite"
    )
    .and_then(|()| out.flush())
    .map_err(SetupError::Output)?;
    take_invite(listener, own, token, state_dir).await;
    Ok(())
}
