//! A response as HTTP/2 frames.
use std::fmt;

use super::{change::shown, message::Message};

/// A name and a value, whatever bytes they have.
pub(super) type Field = (Vec<u8>, Vec<u8>);

/// What the origin writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// HEADERS, with CONTINUATION if they are long.
    Head {
        /// The fields, pseudo-fields included.
        fields: Vec<Field>,
        /// With END_STREAM.
        end: bool,
    },
    /// DATA.
    Data {
        /// Content.
        bytes: Vec<u8>,
        /// With END_STREAM.
        end: bool,
        /// Bytes of padding.
        padding: Option<u8>,
    },
    /// RST_STREAM with this error code.
    Reset(u32),
    /// GOAWAY.
    GoAway {
        /// The last stream is that of the request, and not the one before.
        served: bool,
        /// Error code.
        code: u32,
    },
    /// Any frame.
    Raw {
        /// Type.
        kind: u8,
        /// Flags.
        flags: u8,
        /// On the stream of the request, and not on the connection.
        on_stream: bool,
        /// Content.
        payload: Vec<u8>,
    },
    /// The connection ends, in order.
    Close,
}

/// How the frames of a response follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Head, body, end.
    Whole,
    /// The end is a DATA frame without content, after so many others.
    EmptyFrames(usize),
    /// The body in frames of this size with so much padding.
    Padded(usize, u8),
    /// Trailers.
    Trailers(Vec<Field>),
    /// These frames first.
    After(Vec<Frame>),
    /// The head, these frames, the body.
    Between(Vec<Frame>),
    /// Everything, then these frames.
    Before(Vec<Frame>),
    /// Nothing but these frames.
    Only(Vec<Frame>),
    /// The head and these frames.
    HeadAnd(Vec<Frame>),
    /// The head, half of the body, and these frames.
    HalfAnd(Vec<Frame>),
    /// The head and the body without END_STREAM, and these frames.
    OpenAnd(Vec<Frame>),
    /// The first request gets these frames, the others the whole response.
    First(Vec<Frame>),
    /// The end is that of the head, although there is a body.
    HeadOnly,
}

/// A change of a response over HTTP/2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Http2Change {
    /// The pseudo-fields.
    Pseudo(Vec<Field>),
    /// Further fields.
    Fields(Vec<Field>),
    /// Values of Content-Length, with `{n}`, `{less}`, `{more}`.
    Length(Vec<String>),
    /// Heads before the response's.
    Interim(Vec<Field>, usize),
    /// The order of frames.
    Plan(Plan),
}

impl Http2Change {
    /// Makes the same change of the response over HTTP/1.1, as far as it can be the same: a server that is asked again in this
    /// way answers with the same status and fields.
    pub(super) fn mirror(&self, message: &mut Message) {
        /// Fields of one connection, which mean something else there.
        const OF_CONNECTIONS: &[&[u8]] = &[
            b"connection",
            b"keep-alive",
            b"transfer-encoding",
            b"upgrade",
            b"te",
            b"proxy-connection",
            b"",
        ];
        match self {
            Self::Pseudo(fields) => {
                if let [(_, status), ..] = fields.as_slice() {
                    message.status_line = [b"HTTP/1.1 ", &status[..]].concat();
                }
            }
            Self::Fields(fields) => {
                let lasting = fields
                    .iter()
                    .filter(|(name, _)| !OF_CONNECTIONS.contains(&&name[..]));
                message
                    .fields
                    .extend(lasting.map(|(name, value)| [name, &b": "[..], value].concat()));
            }
            Self::Length(_) | Self::Interim(..) | Self::Plan(_) => {}
        }
    }
}

impl fmt::Display for Http2Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |fields: &[Field]| {
            let texts = fields
                .iter()
                .take(4)
                .map(|(name, value)| format!("{}: {}", shown(name), shown(value)));
            texts.collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Pseudo(fields) | Self::Fields(fields) => f.write_str(&list(fields)),
            Self::Length(values) => write!(f, "{values:?}"),
            Self::Interim(fields, times) => write!(f, "{times} times {}", list(fields)),
            Self::Plan(plan) => write!(f, "{plan:?}"),
        }
    }
}

/// The parts of a response that exist only over HTTP/2.
#[derive(Clone, Debug)]
pub(super) struct Http2Parts {
    pseudo: Vec<Field>,
    fields: Vec<Field>,
    lengths: Vec<String>,
    interim: Option<(Vec<Field>, usize)>,
    plan: Plan,
}

impl Http2Parts {
    /// Those of a plain response.
    pub(super) fn plain() -> Self {
        Self {
            pseudo: vec![(b":status".to_vec(), b"200".to_vec())],
            fields: Vec::new(),
            lengths: vec!["{n}".to_owned()],
            interim: None,
            plan: Plan::Whole,
        }
    }

    /// Changes a response.
    pub(super) fn change(&mut self, change: Http2Change) {
        match change {
            Http2Change::Pseudo(fields) => self.pseudo = fields,
            Http2Change::Fields(fields) => self.fields.extend(fields),
            Http2Change::Length(lengths) => self.lengths = lengths,
            Http2Change::Interim(fields, times) => self.interim = Some((fields, times)),
            Http2Change::Plan(plan) => self.plan = plan,
        }
    }

    /// The frames for the first request and for each later one.
    pub(super) fn frames(
        &self,
        content_type: &[u8],
        coding: Option<&[u8]>,
        body: &[u8],
    ) -> (Vec<Frame>, Vec<Frame>) {
        let mut fields = self.pseudo.clone();
        if !content_type.is_empty() {
            fields.push((b"content-type".to_vec(), content_type.to_vec()));
        }
        if let Some(label) = coding {
            fields.push((b"content-encoding".to_vec(), label.to_vec()));
        }
        for value in &self.lengths {
            let value = value.replace("{n}", &body.len().to_string());
            let value = value.replace("{less}", &body.len().saturating_sub(5).to_string());
            let value = value.replace("{more}", &(body.len() + 7).to_string());
            fields.push((b"content-length".to_vec(), value.into_bytes()));
        }
        fields.extend(self.fields.iter().cloned());
        let whole = self.planned(
            &Frame::Head {
                fields: fields.clone(),
                end: false,
            },
            &fields,
            body,
        );
        if let Plan::First(frames) = &self.plan {
            (frames.clone(), whole)
        } else {
            (whole.clone(), whole)
        }
    }

    fn planned(&self, head: &Frame, fields: &[Field], body: &[u8]) -> Vec<Frame> {
        let data = |bytes: &[u8], end| Frame::Data {
            bytes: bytes.to_vec(),
            end,
            padding: None,
        };
        let mut frames = Vec::new();
        if let Some((interim, times)) = &self.interim {
            frames.extend(vec![
                Frame::Head {
                    fields: interim.clone(),
                    end: false
                };
                *times
            ]);
        }
        let whole = [head.clone(), data(body, true)];
        match self.plan.clone() {
            Plan::Whole | Plan::First(_) => frames.extend(whole),
            Plan::EmptyFrames(number) => {
                frames.extend([head.clone(), data(body, false)]);
                frames.extend(vec![data(b"", false); number]);
                frames.push(data(b"", true));
            }
            Plan::Padded(size, padding) => {
                frames.push(head.clone());
                let padded = |bytes: &[u8]| Frame::Data {
                    bytes: bytes.to_vec(),
                    end: false,
                    padding: Some(padding),
                };
                frames.extend(body.chunks(size).map(padded));
                frames.push(data(b"", true));
            }
            Plan::Trailers(fields) => {
                frames.extend([head.clone(), data(body, false), Frame::Head { fields, end: true }]);
            }
            Plan::After(first) => frames.extend(first.into_iter().chain(whole)),
            Plan::Between(between) => {
                frames.push(head.clone());
                frames.extend(between);
                frames.push(data(body, true));
            }
            Plan::Before(last) => frames.extend(whole.into_iter().chain(last)),
            Plan::Only(only) => frames.extend(only),
            Plan::HeadAnd(rest) => frames.extend([head.clone()].into_iter().chain(rest)),
            Plan::HalfAnd(rest) => {
                frames.extend(
                    [head.clone(), data(&body[..body.len() / 2], false)]
                        .into_iter()
                        .chain(rest),
                );
            }
            Plan::OpenAnd(rest) => frames.extend([head.clone(), data(body, false)].into_iter().chain(rest)),
            Plan::HeadOnly => frames.push(Frame::Head {
                fields: fields.to_vec(),
                end: true,
            }),
        }
        frames
    }
}
