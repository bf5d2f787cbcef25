//! What stands between the browser and the Internet: nothing, a proxy, or Longhaul.
use std::{
    fs,
    io::Write as _,
    net::Ipv4Addr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use longhaul_hosting::{Destination, Sender, SplittingProxy, TestAuthority};
use longhaul_world::World;

use super::{NetworkError, PROXY_AT_GATEWAY};
use crate::{
    job::LoadJob,
    link::Link,
    system::System,
    worker::{
        clientless::{self, Arrival, ClientlessPlan, SecureFiles},
        http2_pair::Http2Pair,
        pair::{Carrier, Coding, Https, Pair, PairPlan, Push},
        service::Service,
        squid::{self, Caching},
        ziproxy,
    },
};

/// The system between browser and origins.
pub(in crate::worker) enum Between {
    /// Only routers.
    Nothing,
    /// A proxy that splits connections.
    Splitting(SplittingProxy),
    /// A proxy at the gateway's place.
    Proxy(Service),
    /// The gateway, to which connections of the browser are led without its knowledge.
    Redirecting(Service),
    /// Ziproxy, which has a process for each connection; their memory and processor time are not measured.
    Ziproxy(#[expect(dead_code, reason = "it ends with this value")] Service),
    /// Two proxies on both sides of the hop.
    Http2Pair(Box<Http2Pair>),
    /// Longhaul.
    Pair(Box<Pair>),
}

pub(super) async fn between(
    world: &World,
    job: &LoadJob,
    link: &Link,
    authority: &TestAuthority,
    hosts: &[String],
    temporary: &Path,
) -> Result<Between, NetworkError> {
    let caching = match job.system {
        System::Direct
        | System::Direct6
        | System::DirectPipelined
        | System::DirectHttp10
        | System::DirectDns
        | System::UrlRewriting
        | System::DirectH2 => return Ok(Between::Nothing),
        System::TcpProxy | System::TcpProxyPipelined | System::TcpWwan | System::TcpWwanPipelined => {
            world.divert_tcp_to_gateway()?;
            let all = Ipv4Addr::UNSPECIFIED;
            let listen = [(all, 80).into(), (all, 443).into()];
            let sender = if matches!(job.system, System::TcpWwan | System::TcpWwanPipelined) {
                Sender::for_link(link.rate_down, link.rtt)
            } else {
                Sender::OfSystem
            };
            let started = world
                .gateway()
                .run(move || async move {
                    SplittingProxy::start_with(&listen, Destination::AsDialled, sender).await
                })
                .await?;
            return Ok(Between::Splitting(started));
        }
        System::Longhaul
        | System::LonghaulNopush
        | System::LonghaulFixed
        | System::LonghaulHttps
        | System::LonghaulTls
        | System::LonghaulQuic
        | System::LonghaulUnknown
        | System::LonghaulTlsUnknown
        | System::LonghaulRemembered => {
            let ca: PathBuf = temporary.join("authority.pem");
            fs::write(&ca, authority.pem())?;
            let plan = PairPlan {
                bin_dir: job.bin_dir.clone(),
                temporary: temporary.to_owned(),
                ca,
                link: link.agent_profile.clone().filter(|_| is_told(job.system)),
                image_level: job.image_level,
                push: if job.system == System::LonghaulNopush {
                    Push::Off
                } else {
                    Push::On
                },
                hold_out: job.hold_out,
                without: job.switches.without(),
                state: job.state,
                beside: job.beside,
                coding: if job.system == System::LonghaulFixed {
                    Coding::Fixed
                } else {
                    Coding::Usual
                },
                https: if job.system == System::LonghaulHttps {
                    Https::Accelerated
                } else {
                    Https::Tunnelled
                },
                carrier: if matches!(job.system, System::LonghaulTls | System::LonghaulTlsUnknown) {
                    Carrier::Tls
                } else if job.system == System::LonghaulQuic {
                    Carrier::Quic
                } else {
                    Carrier::Udp
                },
            };
            let pair = Pair::start(world.gateway(), world.client(), plan).await?;
            return Ok(Between::Pair(Box::new(pair)));
        }
        System::Ziproxy => {
            let temporary = temporary.to_owned();
            let started = world
                .gateway()
                .run(move || async move { ziproxy::start(PROXY_AT_GATEWAY, &temporary).await });
            return Ok(Between::Ziproxy(started.await?));
        }
        System::Http2Pair => {
            let secure = secure_files(authority, temporary)?;
            let pair = Http2Pair::start(world.gateway(), world.client(), secure, temporary).await?;
            return Ok(Between::Http2Pair(Box::new(pair)));
        }
        System::Clientless
        | System::ClientlessUnknown
        | System::Clientless2
        | System::ClientlessH2
        | System::ClientlessPac
        | System::ClientlessH2Pac
        | System::ClientlessPipelined
        | System::ClientlessTransparent
        | System::ClientlessDns => {
            let arrival = if job.system.is_secure_proxy() {
                Arrival::SecureProxy(secure_files(authority, temporary)?)
            } else if job.system == System::ClientlessTransparent {
                Arrival::Redirected
            } else if job.system == System::ClientlessDns {
                Arrival::Names(hosts.to_vec())
            } else {
                Arrival::Proxy
            };
            let plan = ClientlessPlan {
                bin_dir: job.bin_dir.clone(),
                temporary: temporary.to_owned(),
                link: link.agent_profile.clone().filter(|_| is_told(job.system)),
                image_level: job.image_level,
                arrival,
            };
            let started = world
                .gateway()
                .run(move || async move { clientless::start(PROXY_AT_GATEWAY, &plan).await });
            let started = started.await?;
            return Ok(if job.system.redirects() {
                Between::Redirecting(started)
            } else {
                Between::Proxy(started)
            });
        }
        System::Squid => Caching::Off,
        System::SquidCache | System::SquidPipelined => Caching::Memory,
    };
    let temporary = temporary.to_owned();
    let started = world
        .gateway()
        .run(move || async move { squid::start(PROXY_AT_GATEWAY, caching, &temporary).await });
    Ok(Between::Proxy(started.await?))
}

/// Returns true if the agent, or the gateway without one, gets the profile of the link.
const fn is_told(system: System) -> bool {
    !matches!(
        system,
        System::ClientlessUnknown
            | System::LonghaulUnknown
            | System::LonghaulTlsUnknown
            | System::LonghaulRemembered
    )
}

/// Writes a certificate of the test authority for a proxy inside TLS, and its key.
fn secure_files(authority: &TestAuthority, temporary: &Path) -> Result<SecureFiles, NetworkError> {
    let server = authority.server_files(&["gateway.test"])?;
    let files = SecureFiles {
        certificate: temporary.join("proxy.pem"),
        key: temporary.join("proxy.key"),
    };
    fs::write(&files.certificate, server.chain)?;
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&files.key)?
        .write_all(server.key.as_bytes())?;
    Ok(files)
}
