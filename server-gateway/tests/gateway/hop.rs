//! A hop that keeps the rate of its profile: relays datagrams between an agent and a gateway, and drops those that would show
//! how fast loopback is. After such a measurement the gateway spends less effort on bodies, sooner or later depending on the load
//! of the machine.
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use tokio::{
    net::UdpSocket,
    task::{JoinHandle, spawn},
};

/// Maximum UDP payload.
const MAX: usize = 65_536;

pub(crate) struct Hop {
    address: SocketAddr,
    is_deaf: Arc<AtomicBool>,
    passing: JoinHandle<()>,
}

impl Drop for Hop {
    fn drop(&mut self) {
        self.passing.abort();
    }
}

impl Hop {
    pub(crate) async fn to(gateway: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        far.connect(gateway).await.unwrap();
        let address = near.local_addr().unwrap();
        let is_deaf = Arc::new(AtomicBool::new(false));
        let deaf = Arc::clone(&is_deaf);
        let passing = spawn(async move {
            let (mut up, mut down) = (vec![0; MAX], vec![0; MAX]);
            let mut agent = None;
            loop {
                tokio::select! {
                    Ok((length, from)) = near.recv_from(&mut up) => {
                        agent = Some(from);
                        let _lost = far.send(&up[..length]).await;
                    }
                    Ok(length) = far.recv(&mut down) => {
                        if let (Some(agent), false) = (agent, deaf.load(Relaxed)) {
                            let _lost = near.send_to(&down[..length], agent).await;
                        }
                    }
                    else => return,
                }
            }
        });
        Self {
            address,
            is_deaf,
            passing,
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on the agent receives nothing, and therefore measures nothing. Its own datagrams still pass.
    pub(crate) fn deafen(&self) {
        self.is_deaf.store(true, Relaxed);
    }
}
