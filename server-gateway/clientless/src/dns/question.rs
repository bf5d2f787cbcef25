//! Messages of DNS (RFC 1035), with the limits of this name server.
use hickory_proto::{
    op::{Edns, Message, MessageType, Metadata, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, RData, Record, RecordType, rdata::SOA},
};

/// Maximum length of a question: a name of at most 255 bytes and some options.
pub(super) const MAX_QUESTION: usize = 1232;
/// Maximum UDP payload that this server accepts and announces in EDNS: the size that avoids fragments (DNS flag day 2020).
const UDP_PAYLOAD: u16 = 1232;
/// Maximum UDP payload of a client that states none (RFC 1035 section 2.3.4).
const LEAST_PAYLOAD: u16 = 512;
/// Maximum length of an answer over UDP, in lengths of its question: who forges the address of its sender, gains little.
const MAX_GAIN: usize = 2;

/// A question.
#[derive(Clone, Debug)]
pub struct DnsQuestion {
    message: Message,
    query: Query,
    length: usize,
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Success, or the reason of the failure.
    pub(super) code: ResponseCode,
    pub(super) answers: Vec<Record>,
    /// For how long it may be kept that there is no record.
    pub(super) authority: Option<Record>,
}

impl Reply {
    /// Without records.
    pub(super) const fn code(code: ResponseCode) -> Self {
        Self {
            code,
            answers: Vec::new(),
            authority: None,
        }
    }

    /// The look-up failed.
    pub const fn failed() -> Self {
        Self::code(ResponseCode::ServFail)
    }

    /// The name exists, without records of the type.
    pub(super) fn no_data(name: &Name, ttl: u32) -> Self {
        const HOUR: i32 = 3600;
        let soa = SOA::new(name.clone(), name.clone(), 1, HOUR, HOUR, HOUR, ttl);
        Self {
            authority: Some(Record::from_rdata(name.clone(), ttl, RData::SOA(soa))),
            ..Self::code(ResponseCode::NoError)
        }
    }
}

/// A question for the address of a host.
pub(crate) fn question_for(host: &str) -> Option<Vec<u8>> {
    let mut message = Message::new(1, MessageType::Query, OpCode::Query);
    let name = Name::from_ascii(format!("{host}.")).ok()?;
    message.add_query(Query::query(name, RecordType::A));
    message.to_vec().ok()
}

impl DnsQuestion {
    /// Parses a message; `None` if it is not one question, which gets no answer.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_QUESTION {
            return None;
        }
        let message = Message::from_vec(bytes).ok()?;
        let is_question = message.metadata.message_type == MessageType::Query;
        let [query] = message.queries.as_slice() else {
            return None;
        };
        is_question.then(|| Self {
            query: query.clone(),
            length: bytes.len(),
            message: message.clone(),
        })
    }

    /// The reason for not answering, if there is one. ANY would be answered by everything that is known of a name.
    pub(super) fn refused(&self) -> Option<ResponseCode> {
        if self.message.metadata.op_code != OpCode::Query {
            return Some(ResponseCode::NotImp);
        }
        let kind = self.kind();
        let is_list = matches!(kind, RecordType::ANY | RecordType::AXFR | RecordType::IXFR);
        (is_list || self.query.query_class() != DNSClass::IN).then_some(ResponseCode::Refused)
    }

    pub(super) fn name(&self) -> &Name {
        self.query.name()
    }

    pub(super) fn kind(&self) -> RecordType {
        self.query.query_type()
    }

    /// The answer over TCP.
    pub fn over_tcp(&self, reply: Reply) -> Option<Vec<u8>> {
        self.message(reply).to_vec().ok()
    }

    /// The answer over UDP: if it would be too long, it has no records, and the client asks again over TCP.
    pub fn over_udp(&self, reply: Reply) -> Option<Vec<u8>> {
        let payload = self
            .message
            .edns
            .as_ref()
            .map_or(LEAST_PAYLOAD, Edns::max_payload);
        let most = usize::from(payload.clamp(LEAST_PAYLOAD, UDP_PAYLOAD)).min(MAX_GAIN * self.length);
        let code = reply.code;
        let whole = self.message(reply).to_vec().ok()?;
        if whole.len() <= most {
            return Some(whole);
        }
        let mut cut = self.message(Reply::code(code));
        cut.metadata.truncation = true;
        cut.to_vec().ok().filter(|bytes| bytes.len() <= most)
    }

    fn message(&self, reply: Reply) -> Message {
        let asked = &self.message.metadata;
        let mut message = Message::new(asked.id, MessageType::Response, asked.op_code);
        message.metadata = Metadata::response_from_request(asked);
        message.metadata.recursion_available = true;
        message.metadata.authoritative = false;
        message.metadata.response_code = reply.code;
        message.add_query(self.query.clone());
        message.add_answers(reply.answers);
        message.add_authorities(reply.authority);
        if self.message.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(UDP_PAYLOAD).set_version(0);
            message.set_edns(edns);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn question(name: &str, kind: RecordType) -> DnsQuestion {
        let mut message = Message::new(7, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        DnsQuestion::parse(&message.to_vec().unwrap()).unwrap()
    }

    fn records(count: u8) -> Reply {
        let name = Name::from_ascii("a.test.").unwrap();
        let record = |number| {
            let address = IpAddr::from(Ipv4Addr::new(192, 0, 2, number));
            Record::from_rdata(name.clone(), 60, RData::from(address))
        };
        Reply {
            answers: (0..count).map(record).collect(),
            ..Reply::code(ResponseCode::NoError)
        }
    }

    #[test]
    fn answers_over_udp_are_at_most_twice_the_question() {
        let question = question("a.test.", RecordType::A);
        for (count, is_cut) in [(0, false), (1, false), (2, true), (200, true)] {
            let bytes = question.over_udp(records(count)).unwrap();
            assert!(bytes.len() <= 2 * question.length, "{count}: {}", bytes.len());
            let answer = Message::from_vec(&bytes).unwrap();
            assert_eq!(answer.metadata.truncation, is_cut, "{count}");
            assert_eq!(answer.metadata.id, 7);
            let whole = Message::from_vec(&question.over_tcp(records(count)).unwrap()).unwrap();
            assert_eq!(whole.answers.len(), usize::from(count));
        }
    }

    #[test]
    fn only_single_questions_are_answered() {
        assert_eq!(
            question("a.test.", RecordType::ANY).refused(),
            Some(ResponseCode::Refused)
        );
        assert_eq!(
            question("a.test.", RecordType::AXFR).refused(),
            Some(ResponseCode::Refused)
        );
        assert_eq!(question("a.test.", RecordType::TXT).refused(), None);
        let mut message = Message::new(7, MessageType::Query, OpCode::Query);
        assert!(DnsQuestion::parse(&message.to_vec().unwrap()).is_none());
        let query = Query::query(Name::from_ascii("a.test.").unwrap(), RecordType::A);
        message.add_query(query.clone()).add_query(query.clone());
        assert!(DnsQuestion::parse(&message.to_vec().unwrap()).is_none());
        let mut answer = Message::new(7, MessageType::Response, OpCode::Query);
        answer.add_query(query);
        assert!(DnsQuestion::parse(&answer.to_vec().unwrap()).is_none());
        for bytes in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 12], &[0xff; 2000]] {
            assert!(DnsQuestion::parse(bytes).is_none());
        }
    }

    #[test]
    fn the_gateway_asks_for_the_address_of_a_host() {
        let asked = DnsQuestion::parse(&question_for("a.test").unwrap()).unwrap();
        assert_eq!(
            (asked.name().to_ascii().as_str(), asked.kind()),
            ("a.test.", RecordType::A)
        );
        assert_eq!(asked.refused(), None);
        assert!(question_for(&"a".repeat(64)).is_none(), "no label has 64 bytes");
    }

    #[test]
    fn questions_have_at_most_1232_bytes() {
        let padded = |length: usize| {
            let mut bytes = question_for("a.test").unwrap();
            let padding = length - bytes.len() - 15;
            // One additional record: options, of which one is padding (RFC 7830).
            bytes[11] = 1;
            bytes.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0]);
            bytes.extend_from_slice(&u16::try_from(padding + 4).unwrap().to_be_bytes());
            bytes.extend_from_slice(&[0, 12]);
            bytes.extend_from_slice(&u16::try_from(padding).unwrap().to_be_bytes());
            bytes.resize(length, 0);
            bytes
        };
        for (length, is_read) in [(100, true), (1232, true), (1233, false), (1500, false)] {
            assert_eq!(DnsQuestion::parse(&padded(length)).is_some(), is_read, "{length}");
        }
    }
}
