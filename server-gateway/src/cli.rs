//! Command-line arguments. `config` combines them with the file and the environment.
use std::{path::PathBuf, time::Duration};

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use longhaul_gateway_core::{config::SettingArgs, quota_limits::Limit};
#[cfg(feature = "clientless")]
use longhaul_origin::Cidr;
use longhaul_types::{BitRate, ByteCount, PublicKey};

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

impl CliArgs {
    /// Parses the arguments of this process; prints help, version or a mistake, and ends the process, where those
    /// ask for it. `commit` is `LONGHAUL_COMMIT` of the build, which only programs read: a library that reads it
    /// is compiled again for each commit.
    pub fn of_process(commit: Option<&str>) -> Self {
        let version = longhaul_types::version_text(env!("CARGO_PKG_VERSION"), commit);
        let matches = Self::command().version(version).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
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
    /// Manage the clients without an agent that use the HTTP proxy with a name and a password
    Client {
        /// Action on the clients.
        #[command(subcommand)]
        action: ClientCommand,
    },
    /// Print what the system needs for clients without an agent that know of no proxy
    #[cfg(feature = "clientless")]
    Clientless {
        /// What is printed.
        #[command(subcommand)]
        action: ClientlessCommand,
    },
    /// A process of the gateway that transcodes images (not for users)
    #[command(hide = true)]
    PictureWorker {
        /// Memory limit of one image, in bytes.
        #[arg(long)]
        memory: u64,
    },
    /// End the gateway when nothing is in progress: no session begins any more, downloads and tunnels go on
    Drain {
        /// Time after which the gateway ends even if something is in progress, at most 24h
        #[arg(long, value_name = "TIME", default_value = "10min", value_parser = longhaul_types::parse_duration)]
        limit: Duration,
    },
    /// Print the address of the admin port (setting admin.listen)
    Admin {
        /// Print its token instead, for the field `Authorization: Bearer`
        #[arg(long)]
        token: bool,
    },
    /// Write keys, devices, quotas and the configuration into one file, also while the gateway runs. The file is a secret
    Backup {
        /// The file, which must not exist
        file: PathBuf,
    },
    /// Read a backup into a state directory that has no gateway yet
    Restore {
        /// The file that `backup` wrote
        file: PathBuf,
    },
    /// Admit a new device and print the one line that its agent needs. The line holds the device's secret key
    Invite(InviteArgs),
}

/// Arguments of `invite`.
#[derive(Clone, Debug, Args)]
pub struct InviteArgs {
    /// Name of the device, as `device list` shows it
    #[arg(value_name = "NAME", required_unless_present = "named")]
    pub name: Option<String>,
    /// Another way to give the name
    #[arg(id = "named", long = "name", value_name = "NAME", conflicts_with = "name")]
    pub named: Option<String>,
    /// Public address of this gateway, to which agents connect [default: the setting public-address]
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// Time within which an agent has to use the invite, from 1s to 365d. A used invite does not expire
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = longhaul_types::parse_duration)]
    pub expires: Duration,
    /// Admit only the first agent that uses the invite: it replaces the key in the invite by a key of its own
    #[arg(long)]
    pub once: bool,
    /// Remove the device that has this name now
    #[arg(long)]
    pub replace: bool,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Print the invite as a QR code, too, even if the output is no terminal
    #[arg(long, conflicts_with_all = ["json", "no_qr"])]
    pub qr: bool,
    /// Print no QR code [default: only on a terminal]
    #[arg(long)]
    pub no_qr: bool,
}

impl InviteArgs {
    /// Name of the device.
    pub fn device_name(&self) -> &str {
        // One of the two is required.
        let name = self.name.as_deref().or(self.named.as_deref());
        name.unwrap_or_default()
    }
}

/// Actions on the devices.
#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// List the devices. A running gateway adds what it knows of their sessions
    List {
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
    },
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
    /// Give a device another name
    Rename {
        /// The device's name, id or public key
        #[arg(value_name = "OLD", allow_hyphen_values = true)]
        device: String,
        /// The new name
        #[arg(value_name = "NEW")]
        name: String,
    },
    /// Set the rate and the bytes of a month of a device: an amount, `none` for no limit, or `default` for the settings
    /// `quota.rate` and `quota.month`
    Quota {
        /// The device's name, id or public key
        #[arg(value_name = "NAME", allow_hyphen_values = true)]
        device: String,
        /// Rate of its session in each direction, such as `2Mbit/s`
        #[arg(long, required_unless_present = "month")]
        rate: Option<Limit<BitRate>>,
        /// Bytes of both directions in a month, such as `5GB`
        #[arg(long, value_name = "SIZE")]
        month: Option<Limit<ByteCount>>,
    },
    /// Admit a removed device again; its agent needs no new invite
    Restore {
        /// The device's name, id or public key
        #[arg(value_name = "NAME", allow_hyphen_values = true)]
        device: String,
    },
    /// Remove a device: its session ends at once, and its agent says so
    #[command(name = "remove", visible_alias = "revoke")]
    Revoke {
        /// The device's name, id or public key
        #[arg(allow_hyphen_values = true)]
        device: String,
    },
}

/// Actions on the clients without an agent.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Add a client and print its password, which is shown only now
    Add {
        /// Name of the client: letters, digits, dots, hyphens and underscores
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List the clients, with their last use and their bytes of the month
    List {
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Set the image level of a client: original, high, medium or low, or default for the setting clientless.level
    Level {
        /// The client's name
        #[arg(value_name = "NAME")]
        name: String,
        /// The level
        #[arg(value_name = "LEVEL", value_parser = ["original", "high", "medium", "low", "default"])]
        level: String,
    },
    /// Set the bytes of a month of a client: an amount, `none` for no limit, or `default` for the setting `quota.month`
    Quota {
        /// The client's name
        #[arg(value_name = "NAME")]
        name: String,
        /// Bytes of both directions in a month, such as `5GB`
        #[arg(long, value_name = "SIZE")]
        month: Limit<ByteCount>,
    },
    /// Remove a client; a running gateway refuses it within a second
    Remove {
        /// The client's name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// What is printed for clients that know of no proxy.
#[cfg(feature = "clientless")]
#[derive(Debug, Subcommand)]
pub enum ClientlessCommand {
    /// Print rules of nftables that redirect the clients' web connections to `clientless.transparent`. Nothing is applied
    Rules {
        /// Interface of this machine behind which the clients are, such as `eth1`
        #[arg(long, value_name = "NAME")]
        iface: String,
        /// Network of the clients; may be given several times
        #[arg(long, value_name = "CIDR", required = true)]
        from: Vec<Cidr>,
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
            ["remove", &key, "--state-dir=x"],
            ["revoke", &key, "--state-dir=x"],
        ] {
            let line = ["longhaul-gateway", "device"].into_iter().chain(words);
            let parsed = CliArgs::try_parse_from(line);
            assert!(parsed.is_ok(), "{words:?}: {:?}", parsed.err());
        }
    }
}
