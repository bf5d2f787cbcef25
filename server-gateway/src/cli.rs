//! Command-line arguments. `config` combines them with the file and the environment.
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use longhaul_types::PublicKey;

use crate::config::{Keys, Raw, keys};

/// The Longhaul gateway: fetches for agents from the fast network.
#[derive(Debug, Parser)]
#[command(name = "longhaul-gateway", version, max_term_width = 120)]
pub struct CliArgs {
    /// Settings given on the command line.
    #[command(flatten)]
    pub settings: SettingArgs,
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that override the environment (`LONGHAUL_*`) and the configuration file.
#[derive(Args, Debug, Default)]
pub struct SettingArgs {
    /// Configuration file (TOML) (env: LONGHAUL_CONFIG)
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// UDP address that agents connect to (env: LONGHAUL_LISTEN, default: `[::]:4433`)
    #[arg(long, value_name = "ADDR:PORT", global = true)]
    pub listen: Option<String>,
    /// Directory of keys and devices (env: LONGHAUL_STATE_DIR)
    #[arg(long, value_name = "DIR", global = true)]
    pub state_dir: Option<String>,
    /// Minimum severity of log messages: error, warn, info, debug or trace, or a tracing filter (env:
    /// LONGHAUL_LOG)
    #[arg(long, value_name = "LEVEL", global = true)]
    pub log: Option<String>,
    /// Resolve NAME (or *.NAME) to ADDR instead of using DNS; may be repeated
    #[arg(long, value_name = "NAME=ADDR", global = true)]
    pub resolve: Vec<String>,
    /// Also trust the certificate authorities in FILE (PEM); may be repeated
    #[arg(long, value_name = "FILE", global = true)]
    pub extra_ca: Vec<String>,
    /// Reject origins whose certificate chain contains the public key with this SHA-256 (hexadecimal or
    /// base64); may be repeated
    #[arg(long, value_name = "HASH", global = true)]
    pub deny_key: Vec<String>,
    /// Name servers: `system`, or addresses separated by commas
    #[arg(long, value_name = "SERVERS", global = true)]
    pub dns: Option<String>,
    /// Let fetches and tunnels connect to this range although it is not public; may be repeated
    #[arg(long, value_name = "CIDR", global = true)]
    pub allow: Vec<String>,
    /// Effort of compression of text and images: link (adapted to each link), or fixed for Brotli 5 and WebP
    /// 75 on every link
    #[arg(long, value_name = "WHAT", global = true)]
    pub coding_effort: Option<String>,
    /// Ports that tunnels may connect to, such as 80,443,1024-65535
    #[arg(long, value_name = "PORTS", global = true)]
    pub tunnel_ports: Option<String>,
    /// Maximum size of the cache, such as `2 GiB`; 0 disables the cache
    #[arg(long, value_name = "SIZE", global = true)]
    pub cache_size: Option<String>,
    /// Directory of the cache
    #[arg(long, value_name = "DIR", global = true)]
    pub cache_dir: Option<String>,
    /// Serve Prometheus metrics on this loopback address
    #[arg(long, value_name = "ADDR:PORT", global = true)]
    pub metrics: Option<String>,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway until Ctrl-C or SIGTERM
    Run,
    /// Check the configuration and print it as it takes effect
    CheckConfig,
    /// Manage the devices that may connect
    Device {
        /// Action on the devices.
        #[command(subcommand)]
        action: DeviceCommand,
    },
    /// A process of the gateway that transcodes images (not for users)
    #[command(hide = true)]
    PictureWorker {
        /// Memory limit of one image, in bytes.
        #[arg(long)]
        memory: u64,
    },
    /// Admit a new device and print the one line that its agent needs. The line holds the device's secret key
    Invite {
        /// Name of the device, as `device list` shows it
        #[arg(long)]
        name: String,
        /// Public address of this gateway, to which agents connect
        #[arg(long, value_name = "HOST:PORT")]
        address: String,
    },
}

/// Actions on the devices.
#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// List the devices
    List,
    /// Admit a device by its public key
    Add {
        /// Name of the device
        #[arg(long)]
        name: String,
        /// Its public key, 43 characters of base64url
        // One of 64 keys begins with a hyphen.
        #[arg(allow_hyphen_values = true)]
        key: PublicKey,
    },
    /// Revoke a device; its sessions end within a second
    Revoke {
        /// The device's name, id or public key
        #[arg(allow_hyphen_values = true)]
        device: String,
    },
}

impl SettingArgs {
    /// The flags that were given, by the key that they override.
    pub(crate) fn values(&self) -> Vec<(&'static Keys, Raw)> {
        let text = |value: &Option<String>| value.clone().map(Raw::Text);
        let list = |values: &[String]| {
            (!values.is_empty()).then(|| Raw::List(values.iter().cloned().map(Raw::Text).collect()))
        };
        [
            (&keys::LISTEN, text(&self.listen)),
            (&keys::STATE_DIR, text(&self.state_dir)),
            (&keys::LOG, text(&self.log)),
            (&keys::FETCH_RESOLVE, list(&self.resolve)),
            (&keys::FETCH_EXTRA_CA, list(&self.extra_ca)),
            (&keys::FETCH_DENY_KEYS, list(&self.deny_key)),
            (&keys::FETCH_DNS, text(&self.dns)),
            (&keys::GUARD_ALLOW, list(&self.allow)),
            (&keys::CODING_EFFORT, text(&self.coding_effort)),
            (&keys::TUNNEL_PORTS, text(&self.tunnel_ports)),
            (&keys::CACHE_SIZE, text(&self.cache_size)),
            (&keys::CACHE_DIR, text(&self.cache_dir)),
            (&keys::METRICS_LISTEN, text(&self.metrics)),
        ]
        .into_iter()
        .filter_map(|(key, raw)| raw.map(|raw| (key, raw)))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn keys_that_begin_with_a_hyphen_are_keys() {
        let key = format!("-H{}", "A".repeat(41));
        for words in [
            ["add", "--name=x", &key],
            ["add", &key, "--name=x"],
            ["revoke", &key, "--state-dir=x"],
        ] {
            let line = ["longhaul-gateway", "device"].into_iter().chain(words);
            let parsed = CliArgs::try_parse_from(line);
            assert!(parsed.is_ok(), "{words:?}: {:?}", parsed.err());
        }
    }
}
