//! Whether the user pays for each byte of a network, as NetworkManager says (`link.metered = "auto"`).
//!
//! NetworkManager knows it from the user's setting of the connection, and guesses it for modems and for phones that share
//! their connection. Its program `nmcli` is asked: a client of D-Bus in this program would bring a dozen crates for one word.
use std::{net::IpAddr, process::Stdio, time::Duration};

use tokio::{process::Command, time::timeout};
use tracing::debug;

use super::attachment::interface_towards;

/// Time for the answer: the first session of a network waits for it.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// Whether the link costs by the byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metered {
    /// It does.
    Yes,
    /// It does not.
    #[default]
    No,
    /// As NetworkManager says; where there is none, it does not.
    Auto,
}

impl Metered {
    /// True if the user pays for each byte towards the Internet, by this setting or by NetworkManager, which is asked also
    /// if the setting is `no`, its default. Cancel safe.
    pub(crate) async fn is_paid(self) -> bool {
        // An address for documentation (RFC 5737): its interface is that of the default route. Nothing is sent.
        let internet = IpAddr::from([192, 0, 2, 1]);
        self == Self::Yes || ask(internet).await.unwrap_or_default()
    }

    /// Decides for the network on the way to `gateway`. Cancel safe.
    pub(crate) async fn decide(self, gateway: IpAddr) -> bool {
        match self {
            Self::Yes => true,
            Self::No => false,
            Self::Auto => ask(gateway).await.unwrap_or_default(),
        }
    }
}

/// Asks NetworkManager; `None` if it does not know, or if there is none.
async fn ask(gateway: IpAddr) -> Option<bool> {
    let interface = interface_towards(gateway)?;
    let asked = Command::new("nmcli")
        .args(["--terse", "--fields", "GENERAL.METERED", "device", "show"])
        .arg(&interface)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match timeout(ANSWER_TIME, asked).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => {
            debug!(%error, "nmcli cannot be run");
            return None;
        }
        Err(_) => {
            debug!("nmcli takes too long");
            return None;
        }
    };
    let is_metered = parse(&String::from_utf8_lossy(&output.stdout));
    debug!(
        interface,
        ?is_metered,
        "NetworkManager was asked whether the link is metered"
    );
    is_metered
}

/// Reads a line such as `GENERAL.METERED:no (guessed)`.
fn parse(output: &str) -> Option<bool> {
    let value = output
        .lines()
        .find_map(|line| line.strip_prefix("GENERAL.METERED:"))?;
    match value.split(' ').next()? {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_nmcli_are_understood() {
        for (output, is_metered) in [
            ("GENERAL.METERED:yes\n", Some(true)),
            ("GENERAL.METERED:yes (guessed)\n", Some(true)),
            ("GENERAL.METERED:no (guessed)\n", Some(false)),
            ("GENERAL.METERED:no\n", Some(false)),
            ("GENERAL.METERED:unknown\n", None),
            ("Error: Device 'lo' not found.\n", None),
            ("", None),
        ] {
            assert_eq!(parse(output), is_metered, "{output}");
        }
    }

    #[tokio::test]
    async fn only_auto_asks() {
        let here = IpAddr::from([127, 0, 0, 1]);
        assert!(Metered::Yes.decide(here).await && !Metered::No.decide(here).await);
        // NetworkManager does not manage the loopback interface as a metered one, if it is there at all.
        assert!(!Metered::Auto.decide(here).await);
    }
}
