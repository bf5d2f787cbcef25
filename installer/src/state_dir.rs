//! The agent's state directory: by flag or variable, else as the agent's configuration files set it, else the
//! default one.
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// Errors of finding the state directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateDirError {
    /// A configuration file cannot be read.
    #[error("{} cannot be read: {reason}; `longhaul-agent check-config` lists all mistakes", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Description of the error.
        reason: String,
    },
    /// There is no default directory.
    #[error("no home directory is known: name the agent's state directory with --state-dir")]
    NoHome,
}

/// Returns the agent's state directory; `given` is the flag or variable.
///
/// # Errors
/// A configuration file cannot be read, or no home directory is known.
pub fn find(given: Option<&Path>) -> Result<PathBuf, StateDirError> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let config = absolute_variable("XDG_CONFIG_HOME");
    let config = config.or_else(|| Some(absolute_variable("HOME")?.join(".config")));
    match configured(config.as_deref(), Path::new("/"))? {
        Some(directory) => Ok(directory),
        None => default(),
    }
}

/// Returns the default state directory: `$XDG_STATE_HOME/longhaul-agent`, else
/// `~/.local/state/longhaul-agent`.
///
/// # Errors
/// Neither variable is set.
pub fn default() -> Result<PathBuf, StateDirError> {
    let state = absolute_variable("XDG_STATE_HOME");
    let state = state.or_else(|| Some(env::var_os("HOME").map(PathBuf::from)?.join(".local/state")));
    state
        .map(|state| state.join("longhaul-agent"))
        .ok_or(StateDirError::NoHome)
}

/// Returns `state-dir` of the agent's configuration: of the file that `LONGHAUL_CONFIG` names, else of the user's
/// file in the directory `config`, else of the system's file below `root`.
///
/// # Errors
/// A file cannot be read.
pub fn configured(config: Option<&Path>, root: &Path) -> Result<Option<PathBuf>, StateDirError> {
    let named = env::var_os("LONGHAUL_CONFIG").filter(|name| !name.is_empty());
    let files = match named {
        Some(named) => vec![PathBuf::from(named)],
        None => {
            let user = config.map(|config| config.join("longhaul/agent.toml"));
            user.into_iter()
                .chain([root.join("etc/longhaul/agent.toml")])
                .collect()
        }
    };
    for file in files {
        if let Some(directory) = set_in(&file)? {
            return Ok(Some(directory));
        }
    }
    Ok(None)
}

fn set_in(path: &Path) -> Result<Option<PathBuf>, StateDirError> {
    let fail = |reason: String| StateDirError::Config {
        path: path.to_owned(),
        reason,
    };
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error.to_string())),
    };
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| fail(error.message().to_owned()))?;
    match table.get("state-dir") {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(directory) => Ok(Some(PathBuf::from(directory))),
            None => Err(fail("`state-dir` is not a text".to_owned())),
        },
    }
}

/// The XDG base directory specification requires that relative paths are ignored.
fn absolute_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_file_comes_before_the_systems() {
        let root = tempfile::tempdir().unwrap();
        let config = root.path().join("home/.config");
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let found = || configured(Some(&config), root.path());
        assert_eq!(found().unwrap(), None);
        write(
            root.path().join("etc/longhaul/agent.toml"),
            "state-dir = '/var/lib/a'\n",
        );
        assert_eq!(found().unwrap(), Some("/var/lib/a".into()));
        let user = config.join("longhaul/agent.toml");
        write(
            user.clone(),
            "listen = '127.0.0.1:1'\n[https]\nstate-dir = '/x'\n",
        );
        assert_eq!(found().unwrap(), Some("/var/lib/a".into()), "a key of a section");
        write(user.clone(), "state-dir = \"/home/b\" # mine\n");
        assert_eq!(found().unwrap(), Some("/home/b".into()));
        for wrong in ["state-dir = 1\n", "state-dir = \n"] {
            write(user.clone(), wrong);
            assert!(found().unwrap_err().to_string().contains("agent.toml"), "{wrong}");
        }
    }
}
