//! What a network does to datagrams and connections on the way to the gateway: rules of nftables at its router.
use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::harness::Net;

/// Port of an HTTP proxy at the router of a network.
pub(super) const PROXY_PORT: u16 = 3128;

/// One thing that a network does beyond forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// All datagrams of UDP are dropped.
    UdpDropped,
    /// Those of the agent are dropped.
    UdpUpDropped,
    /// Those of the gateway are dropped.
    UdpDownDropped,
    /// UDP passes only to port 443.
    UdpOnlyTo443,
    /// UDP passes only to port 443 and only with the fixed bit of QUIC (RFC 9000 section 17).
    OnlyQuic,
    /// All segments of TCP are dropped.
    TcpDropped,
    /// UDP is limited to 500 kbit/s in each direction.
    UdpPoliced,
    /// A flow of UDP ends after 5 MB towards the agent.
    UdpFlowsEnd,
    /// Datagrams whose IP packet is larger than 1,300 bytes are lost, and no ICMP message tells it. TCP is not affected:
    /// such networks clamp its segment size.
    LargeDatagramsLost,
    /// A connection of TCP is reset after 10 MB towards the agent.
    TcpReset,
    /// A connection of TCP to the gateway or to [`PROXY_PORT`] ends after 15 MB towards the agent: nothing arrives any more,
    /// and no segment tells it.
    TcpFlowsEnd,
    /// Everything to and from the gateway's first address is lost. A network does this to an only address if it has a proxy.
    FirstAddressDropped,
}

impl Obstacle {
    pub(super) const ALL: [Self; 9] = [
        Self::UdpDropped,
        Self::UdpUpDropped,
        Self::UdpDownDropped,
        Self::UdpOnlyTo443,
        Self::OnlyQuic,
        Self::UdpPoliced,
        Self::UdpFlowsEnd,
        Self::LargeDatagramsLost,
        Self::TcpReset,
    ];

    /// Rules for packets from the agent, then those for packets to it.
    const fn rules(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::UdpDropped => (&["meta l4proto udp drop"], &["meta l4proto udp drop"]),
            Self::UdpUpDropped => (&["meta l4proto udp drop"], &[]),
            Self::UdpDownDropped => (&[], &["meta l4proto udp drop"]),
            Self::UdpOnlyTo443 => (&["udp dport != 443 drop"], &["udp sport != 443 drop"]),
            Self::OnlyQuic => (
                &["udp dport != 443 drop", "udp dport 443 @th,64,8 & 0x40 == 0 drop"],
                &["udp sport != 443 drop", "udp sport 443 @th,64,8 & 0x40 == 0 drop"],
            ),
            Self::TcpDropped => (&["meta l4proto tcp drop"], &["meta l4proto tcp drop"]),
            Self::UdpPoliced => {
                const POLICE: &[&str] =
                    &["meta l4proto udp limit rate over 62 kbytes/second burst 15 kbytes drop"];
                (POLICE, POLICE)
            }
            Self::UdpFlowsEnd => (&[], &["add @flows { udp dport quota over 5 mbytes } drop"]),
            // The length in the header of UDP is that of the IP packet without the IP header of 20 bytes.
            Self::LargeDatagramsLost => (&["udp length > 1280 drop"], &["udp length > 1280 drop"]),
            Self::TcpReset => (
                &[],
                &["tcp sport 443 add @connections { tcp dport quota over 10 mbytes } reject with tcp reset"],
            ),
            Self::TcpFlowsEnd => (
                &[],
                &["tcp sport { 443, 3128 } add @connections { tcp dport quota over 15 mbytes } drop"],
            ),
            Self::FirstAddressDropped => (&["ip daddr 10.91.0.1 drop"], &["ip saddr 10.91.0.1 drop"]),
        }
    }
}

/// Lets the router of a network do this, and nothing of what it did before.
pub(super) fn place(net: &Net, network: u8, obstacles: &[Obstacle]) -> Result<()> {
    let (mut up, mut down) = (String::new(), String::new());
    for obstacle in obstacles {
        let (from_agent, to_agent) = obstacle.rules();
        for rule in from_agent {
            up += &format!("iifname \"r{network}\" {rule}\n");
        }
        for rule in to_agent {
            down += &format!("oifname \"r{network}\" {rule}\n");
        }
    }
    let table = format!("table inet network{network}");
    let set = "{ type inet_service; flags dynamic; size 4096; }";
    // The table has to exist before it can be deleted.
    let text = format!(
        "{table}\ndelete {table}\n{table} {{\nset flows {set}\nset connections {set}\n\
         chain up {{ type filter hook input priority 0;\n{up}}}\n\
         chain down {{ type filter hook output priority 0;\n{down}}}\n}}\n"
    );
    net.far.run_blocking(move || nft(&text))
}

/// Applies a text of rules as a whole, in the namespace of the calling thread.
fn nft(text: &str) -> Result<()> {
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("nft is missing: install nftables")?;
    let mut input = nft.stdin.take().context("nft's input")?;
    input.write_all(text.as_bytes())?;
    drop(input);
    let output = nft.wait_with_output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "nft: {error}\n{text}");
    Ok(())
}
