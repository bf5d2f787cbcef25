//! A DNS server for names in `.test`.
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use parking_lot::Mutex;

use hickory_proto::{
    op::{Message, OpCode, ResponseCode},
    rr::{RData, Record, rdata::A},
};
use tokio::net::UdpSocket;

/// Answers 127.0.0.1 for every name, except for names that begin with `gone`, which do not exist.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl NameServer {
    pub(crate) async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let question = Message::from_vec(&buffer[..length]).unwrap();
                let name = question.queries[0].name().clone();
                let text = name.to_string().trim_end_matches('.').to_owned();
                log.lock().push(text.clone());
                let mut answer = Message::response(question.metadata.id, OpCode::Query);
                answer.add_query(question.queries[0].clone());
                if text.starts_with("gone") {
                    answer.metadata.response_code = ResponseCode::NXDomain;
                } else {
                    answer.add_answer(Record::from_rdata(name, 60, RData::A(A(Ipv4Addr::LOCALHOST))));
                }
                // First an unrelated message, which must not be taken for the answer.
                let mut stray = answer.clone();
                stray.metadata.id = question.metadata.id.wrapping_add(1);
                socket.send_to(&stray.to_vec().unwrap(), from).await.unwrap();
                socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
            }
        });
        Self { address, asked }
    }

    /// The queries so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}
