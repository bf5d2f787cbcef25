//! Resolution of the layers to the effective settings.
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use longhaul_session::ImageLevel;
use longhaul_settings::{DefaultFiles, Environment, Layers, Mistake, Mistakes, Report, WITHOUT, Wrong};
use longhaul_types::{Invite, Technique};

use super::{
    AwaySettings, CacheSettings, Config, ConfigFlags, EarlyCredentials, PushSettings, access, proxy, settings,
};
use crate::{
    gateway::{CarrierSettings, Certificates, PortalSettings},
    https::HttpsSettings,
    state_dir::StateDir,
};

/// Returns `$XDG_STATE_HOME/longhaul-agent`, else `~/.local/state/longhaul-agent`.
pub fn default_state_dir(environment: &Environment) -> Option<PathBuf> {
    let state = environment.user_directory("XDG_STATE_HOME", ".local/state")?;
    Some(state.join("longhaul-agent"))
}

/// Resolves the settings from the default files or the named file, the environment and the flags; reads the
/// invite from the state directory if none of them contains one.
///
/// # Errors
/// All mistakes.
pub fn load(flags: &ConfigFlags, environment: &Environment) -> Result<(Config, Report), Mistakes> {
    resolve_layers(Layers::read(flags, environment, DefaultFiles::Read))
}

/// Resolves the settings without default files: no file of the machine affects the result.
///
/// # Errors
/// All mistakes.
pub fn resolve(flags: &ConfigFlags, environment: &Environment) -> Result<(Config, Report), Mistakes> {
    resolve_layers(Layers::read(flags, environment, DefaultFiles::Ignored))
}

/// Resolves only the state directory, for commands that need no other setting. Files are read only if
/// neither the flag nor the variable is given, and only their mistakes that concern this setting count.
///
/// # Errors
/// The state directory is not set and there is no home directory, or a file cannot be read.
pub fn load_state_dir(flag: Option<&Path>, environment: &Environment) -> Result<PathBuf, Mistakes> {
    let given = flag
        .map(Path::to_path_buf)
        .or_else(|| environment.get_filled("LONGHAUL_STATE_DIR").map(PathBuf::from));
    if let Some(path) = given {
        return Ok(path);
    }
    let mut layers = Layers::read(&ConfigFlags::default(), environment, DefaultFiles::Read);
    let state_dir = state_dir(&mut layers);
    let concerns = |mistake: &Mistake| mistake.key().is_none_or(|key| key == "state-dir");
    match state_dir {
        Some(path) if !layers.mistakes().iter().any(concerns) => Ok(path),
        _ => Err(layers.into_mistakes(concerns)),
    }
}

/// Resolves only the address of the control port and the state directory, for an agent without an invite.
///
/// # Errors
/// These settings are wrong, or a file cannot be read.
pub fn load_control(
    flags: &ConfigFlags,
    environment: &Environment,
) -> Result<(SocketAddr, PathBuf), Mistakes> {
    let mut layers = Layers::read(flags, environment, DefaultFiles::Read);
    let control = layers.get(&settings::CONTROL);
    let state_dir = state_dir(&mut layers);
    let concerns = |mistake: &Mistake| {
        mistake
            .key()
            .is_none_or(|key| ["control", "state-dir"].contains(&key))
    };
    match state_dir {
        Some(path) if !layers.mistakes().iter().any(concerns) => Ok((control, path)),
        _ => Err(layers.into_mistakes(concerns)),
    }
}

/// Loads the carriers that the agent of this machine uses, from the environment and the default files.
///
/// # Errors
/// These settings are wrong, or a file cannot be read.
pub fn load_carrier(environment: &Environment) -> Result<CarrierSettings, Mistakes> {
    let mut layers = Layers::read(&ConfigFlags::default(), environment, DefaultFiles::Read);
    let own_port = layers.get(&settings::LISTEN).port();
    let carrier = carrier(&mut layers, own_port).without_own_ports([own_port]);
    let concerns = |mistake: &Mistake| mistake.key().is_none_or(|key| key.starts_with("carrier"));
    if layers.mistakes().iter().any(concerns) {
        return Err(layers.into_mistakes(concerns));
    }
    Ok(carrier)
}

fn carrier(layers: &mut Layers<'_>, own_port: u16) -> CarrierSettings {
    CarrierSettings {
        carriers: layers.get(&settings::CARRIER),
        tls_port: u16::try_from(layers.get(&settings::CARRIER_TLS_PORT))
            .unwrap_or(longhaul_types::CARRIER_PORT),
        quic_port: u16::try_from(layers.get(&settings::CARRIER_QUIC_PORT))
            .unwrap_or(longhaul_types::CARRIER_PORT),
        proxy: proxy::resolve(layers, own_port),
        certificates: Certificates::new(layers.get(&settings::CARRIER_PIN)),
    }
}

fn state_dir(layers: &mut Layers<'_>) -> Option<PathBuf> {
    let state_dir = layers.get(&settings::STATE_DIR);
    if state_dir.is_none() && !layers.is_wrong(&settings::STATE_DIR) {
        let wrong = Wrong::new("there is no home directory here (HOME is not set)");
        layers.reject(&settings::STATE_DIR, &wrong.instead("say --state-dir DIR"));
    }
    state_dir
}

/// The invite of the layers, else the one in the state directory.
fn invite(layers: &mut Layers<'_>, state_dir: Option<&PathBuf>) -> Option<Invite> {
    let given = layers.get(&settings::INVITE);
    if given.is_some() || layers.is_wrong(&settings::INVITE) {
        return given;
    }
    match StateDir::new(state_dir?.clone()).invite() {
        Ok(invite) => Some(invite),
        Err(error) => {
            layers.reject(&settings::INVITE, &Wrong::explained(error));
            None
        }
    }
}

/// Resolves each setting.
fn resolve_layers(mut layers: Layers<'_>) -> Result<(Config, Report), Mistakes> {
    let log = layers.get(&settings::LOG);
    let log_format = layers.get(&settings::LOG_FORMAT);
    let listen = layers.get(&settings::LISTEN);
    let access = access::resolve(&mut layers, listen);
    let control = layers.get(&settings::CONTROL);
    let state_dir = state_dir(&mut layers);
    let invite = invite(&mut layers, state_dir.as_ref());
    let link = layers.get(&settings::LINK);
    let remember_links = layers.get(&settings::LINK_REMEMBER);
    let metered = layers.get(&settings::LINK_METERED);
    let carrier = carrier(&mut layers, listen.port());
    let portal = PortalSettings {
        port: u16::try_from(layers.get(&settings::PORTAL_PORT)).unwrap_or(PortalSettings::DEFAULT_PORT),
        check: layers.get(&settings::PORTAL_CHECK),
    };
    let without = layers.get_hidden(&WITHOUT);
    let level = layers.get(&settings::IMAGE_LEVEL);
    let images = if without.contains(Technique::Pictures) {
        ImageLevel::Original
    } else {
        level
    };
    let fallback = layers.get(&settings::FALLBACK_AFTER);
    let direct_allow = layers.get(&settings::DIRECT_ALLOW);
    let away = AwaySettings {
        page_after: layers.get(&settings::AWAY_PAGE_AFTER),
        queue: layers.get(&settings::AWAY_QUEUE),
        queue_time: layers.get(&settings::AWAY_QUEUE_TIME),
    };
    let keep_journal = layers.get(&settings::JOURNAL_KEEP);
    let hold_out = layers.get(&settings::HOLD_OUT);
    let state_dir = state_dir.unwrap_or_default();
    let cache = CacheSettings {
        size: layers.get(&settings::CACHE_SIZE),
        dir: layers.get_or(&settings::CACHE_DIR, || state_dir.join("cache")),
    };
    let https = HttpsSettings {
        accelerate: layers.get(&settings::HTTPS_ACCELERATE),
        except: layers.get(&settings::HTTPS_EXCEPT),
    };
    let push = PushSettings {
        enabled: layers.get(&settings::PUSH_ENABLED) && !without.contains(Technique::Push),
        patience: layers.get(&settings::PUSH_PATIENCE),
        ..PushSettings::default()
    };
    let early_credentials = if layers.get(&settings::SESSION_EARLY_CREDENTIALS) {
        EarlyCredentials::Allowed
    } else {
        EarlyCredentials::Withheld
    };
    let Some(invite) = invite else {
        return Err(layers.into_mistakes(|_| true));
    };
    let config = Config {
        log,
        log_format,
        listen,
        access,
        direct_allow,
        control,
        state_dir,
        invite,
        link,
        remember_links,
        keep_journal,
        hold_out,
        metered,
        carrier,
        portal,
        images,
        fallback,
        away,
        cache,
        push,
        https,
        early_credentials,
        without,
    };
    layers.finish().map(|report| (config, report))
}
