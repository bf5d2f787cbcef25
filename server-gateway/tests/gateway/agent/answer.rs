//! Answers of the gateway to one request.
use bytes::Bytes;
use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, Coding, DecodeError, dictionary};
use longhaul_driver::{RecvStream, Session, StreamError};
use longhaul_session::{
    Body, BodyCoding, BodyPlace, Failed, Head, HeaderField, HeaderSets, Message, MessageReader, ReadEvent,
    decode_header_set,
};

use super::{notice, window_key};

/// A stream of the gateway after its first message.
pub(crate) struct Answer {
    pub(crate) message: Message,
    pub(crate) reader: MessageReader,
    pub(crate) stream: RecvStream,
}

/// End of a body.
#[derive(Debug, PartialEq)]
pub(crate) enum BodyEnd {
    Complete,
    Broken(DecodeError),
    Cancelled(StreamError),
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<HeaderField>,
    pub(crate) announced: Option<Body>,
    pub(crate) body: Vec<u8>,
    pub(crate) end: BodyEnd,
    pub(crate) total: Option<u64>,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(found, _)| found == name);
        field.map(|(_, value)| std::str::from_utf8(value).unwrap())
    }
}

impl Answer {
    pub(crate) async fn of(stream: RecvStream) -> Self {
        let mut answer = Self {
            message: Message::Notice(notice()),
            reader: MessageReader::new(),
            stream,
        };
        answer.message = answer.next_message().await.unwrap();
        answer
    }

    pub(crate) async fn next_message(&mut self) -> Result<Message, StreamError> {
        loop {
            match self.reader.next().unwrap() {
                ReadEvent::Message(message) => return Ok(message),
                ReadEvent::Incomplete => {
                    let bytes = self
                        .stream
                        .read()
                        .await?
                        .expect("the stream ended within a message");
                    self.reader.push(&bytes);
                }
            }
        }
    }

    pub(crate) async fn bytes(&mut self) -> Result<Option<Bytes>, StreamError> {
        let rest = self.reader.take_rest();
        if rest.is_empty() {
            self.stream.read().await
        } else {
            Ok(Some(rest))
        }
    }

    pub(crate) fn failed(self) -> Failed {
        match self.message {
            Message::Failed(failed) => failed,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn head(&self) -> Head {
        match &self.message {
            Message::Head(head) => head.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn response(mut self, session: &Session) -> Response {
        let head = self.head();
        let mut response = Response {
            status: head.status,
            fields: decode_header_set(&head.headers, head.fetch, &HeaderSets::new()).unwrap(),
            announced: None,
            body: Vec::new(),
            end: BodyEnd::Complete,
            total: None,
        };
        if head.body == BodyPlace::None {
            assert_eq!(self.bytes().await, Ok(None));
            response.total = self.stream.total();
            return response;
        }
        let Message::Body(body) = self.next_message().await.unwrap() else {
            panic!("no body message")
        };
        response.announced = Some(body.clone());
        let base = body
            .base
            .map(|name| dictionary::find(name.as_bytes()).expect("a dictionary"));
        let mut decoder = BodyDecoder::with_base(
            window_key(session),
            coding(body.coding),
            BodyLimits::default(),
            &base.unwrap_or_default(),
        );
        response.end = self.windows(&mut decoder, &mut response.body).await;
        response.total = self.stream.total();
        response
    }

    pub(crate) async fn windows(&mut self, decoder: &mut BodyDecoder, body: &mut Vec<u8>) -> BodyEnd {
        loop {
            match self.bytes().await {
                Err(error) => return BodyEnd::Cancelled(error),
                Ok(None) => {
                    return decoder
                        .finish()
                        .map_or_else(BodyEnd::Broken, |_| BodyEnd::Complete);
                }
                Ok(Some(bytes)) => {
                    let mut wire = &bytes[..];
                    loop {
                        match decoder.next(&mut wire) {
                            Ok(BodyEvent::Window(window)) => body.extend_from_slice(&window),
                            Ok(BodyEvent::End(_) | BodyEvent::NeedInput) => break,
                            Err(error) => return BodyEnd::Broken(error),
                        }
                    }
                }
            }
        }
    }
}

pub(crate) fn coding(coding: BodyCoding) -> Coding {
    match coding {
        BodyCoding::Identity => Coding::Identity,
        BodyCoding::Zstd => Coding::Zstd,
        BodyCoding::Brotli => Coding::Brotli,
        BodyCoding::Mix => Coding::Mix,
    }
}
