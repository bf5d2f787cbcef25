//! Command-line arguments. `config` combines them with the file and the environment.
use clap::{Parser, Subcommand};
use longhaul_settings::Flags;
use longhaul_types::PublicKey;

use crate::config::Gateway;

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
pub type SettingArgs = Flags<Gateway>;

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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn arguments_of_keys_may_begin_with_a_hyphen() {
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
