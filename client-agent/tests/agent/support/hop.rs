//! A hop that can be cut: relays datagrams between an agent and a gateway.
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
    is_cut: Arc<AtomicBool>,
    passing: JoinHandle<()>,
}

impl Drop for Hop {
    fn drop(&mut self) {
        self.passing.abort();
    }
}

impl Hop {
    pub(crate) async fn to(gateway: &str) -> Self {
        let (near, far) = (
            UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        );
        far.connect(gateway).await.unwrap();
        let address = near.local_addr().unwrap();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let passing = spawn(async move {
            let (mut up, mut down) = (vec![0; MAX], vec![0; MAX]);
            let mut agent = None;
            loop {
                tokio::select! {
                    Ok((length, from)) = near.recv_from(&mut up) => {
                        agent = Some(from);
                        if !cut.load(Relaxed) {
                            let _lost = far.send(&up[..length]).await;
                        }
                    }
                    Ok(length) = far.recv(&mut down) => {
                        if let (Some(agent), false) = (agent, cut.load(Relaxed)) {
                            let _lost = near.send_to(&down[..length], agent).await;
                        }
                    }
                    else => return,
                }
            }
        });
        Self {
            address,
            is_cut,
            passing,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Cuts the hop: no more datagrams cross it.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Relaxed);
    }

    /// Lets datagrams cross the hop again.
    pub(crate) fn mend(&self) {
        self.is_cut.store(false, Relaxed);
    }
}
