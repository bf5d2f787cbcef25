//! What stands between the browser and the Internet: nothing, a proxy, or Longhaul.
use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use longhaul_hosting::{Destination, SplittingProxy, TestAuthority};
use longhaul_world::{GATEWAY_ON_HOP, World};

use super::{NetworkError, SQUID_PORT};
use crate::{
    job::LoadJob,
    link::Link,
    system::System,
    worker::{
        pair::{Coding, Https, Pair, PairPlan, Push},
        service::Service,
        squid::{self, Caching},
    },
};

/// The system between browser and origins.
pub(in crate::worker) enum Between {
    /// Only routers.
    Nothing,
    /// A proxy that splits connections.
    Splitting(SplittingProxy),
    /// Squid.
    Squid(Service),
    /// Longhaul.
    Pair(Box<Pair>),
}

pub(super) async fn between(
    world: &World,
    job: &LoadJob,
    link: &Link,
    authority: &TestAuthority,
    temporary: &Path,
) -> Result<Between, NetworkError> {
    let caching = match job.system {
        System::Direct
        | System::Direct6
        | System::DirectPipelined
        | System::DirectHttp10
        | System::DirectH2 => return Ok(Between::Nothing),
        System::TcpProxy => {
            world.divert_tcp_to_gateway()?;
            let all = Ipv4Addr::UNSPECIFIED;
            let listen = [(all, 80).into(), (all, 443).into()];
            let started = world
                .gateway()
                .run(move || async move { SplittingProxy::start(&listen, Destination::AsDialled).await })
                .await?;
            return Ok(Between::Splitting(started));
        }
        System::Longhaul
        | System::LonghaulNopush
        | System::LonghaulFixed
        | System::LonghaulHttps
        | System::LonghaulUnknown
        | System::LonghaulRemembered => {
            let ca: PathBuf = temporary.join("authority.pem");
            fs::write(&ca, authority.pem())?;
            let plan = PairPlan {
                bin_dir: job.bin_dir.clone(),
                temporary: temporary.to_owned(),
                ca,
                link: link
                    .agent_profile
                    .clone()
                    .filter(|_| !matches!(job.system, System::LonghaulUnknown | System::LonghaulRemembered)),
                image_level: job.image_level,
                push: if job.system == System::LonghaulNopush {
                    Push::Off
                } else {
                    Push::On
                },
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
            };
            let pair = Pair::start(world.gateway(), world.client(), plan).await?;
            return Ok(Between::Pair(Box::new(pair)));
        }
        System::Squid => Caching::Off,
        System::SquidCache => Caching::Memory,
    };
    let address = (GATEWAY_ON_HOP, SQUID_PORT).into();
    let temporary = temporary.to_owned();
    let started = world
        .gateway()
        .run(move || async move { squid::start(address, caching, &temporary).await });
    Ok(Between::Squid(started.await?))
}
