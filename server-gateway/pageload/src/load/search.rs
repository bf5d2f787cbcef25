//! Search of a document or style sheet for references before its head is written.
use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use longhaul_gateway_core::page_parsers::{DocumentParser, Found};
use longhaul_page::{Reference, discover_css};
use longhaul_session::EntryId;
use longhaul_webcache::BodyReader;
use tokio::time::timeout;
use url::Url;

use super::{PageLoad, event::ResponseEvent};
use crate::{plan::AnswerBody, push_body::PushBody};

/// Limits of size and time for reading a style sheet completely before it is sent.
const MAX_SEARCHED: usize = 2 * 1024 * 1024;
const MAX_SEARCH: Duration = Duration::from_secs(5);

/// Parser of a body.
pub(super) enum Search<'a> {
    Document(DocumentParser),
    /// With the URL and charset of the style sheet.
    Sheet(&'a Url, Option<String>),
}

/// Part of a body that was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Whole,
    /// The body is longer than the limit of the search.
    Part,
    Broken,
}

/// Reads a document or style sheet, and plans its references before the body is released. `None` if the body
/// was truncated.
pub(super) async fn search(
    load: &PageLoad,
    entry: EntryId,
    mut reader: BodyReader,
    mut search: Search<'_>,
) -> Option<AnswerBody> {
    let mut chunks: VecDeque<Bytes> = VecDeque::new();
    let mut text = Vec::new();
    let mut read = 0;
    let reading = async {
        while let Some(chunk) = reader.next().await {
            let Ok(chunk) = chunk else { return Read::Broken };
            read += chunk.len();
            // Kept before anything is awaited, because this future may be dropped at its limit of time.
            chunks.push_back(chunk.clone());
            match &mut search {
                Search::Document(parser) => {
                    let Found { references, literals } = parser.write(&chunk).await;
                    load.found(references, entry).await;
                    load.literals(literals, entry).await;
                }
                Search::Sheet(..) => text.extend_from_slice(&chunk),
            }
            if read >= MAX_SEARCHED {
                return Read::Part;
            }
        }
        Read::Whole
    };
    let outcome = timeout(MAX_SEARCH, reading).await.unwrap_or(Read::Part);
    let found = match search {
        Search::Document(mut parser) if outcome == Read::Whole => parser.end().await,
        Search::Document(..) => Vec::new(),
        Search::Sheet(url, charset) => {
            let sheet = Sheet {
                css: text,
                url: url.clone(),
                charset,
                outcome,
            };
            sheet.search(load, entry).await
        }
    };
    load.found(found, entry).await;
    load.flush().await;
    let length = read as u64;
    match outcome {
        Read::Broken => None,
        Read::Whole => {
            let source = PushBody::Arriving(chunks, None);
            Some(match reader.chk() {
                Some(hash) => AnswerBody::Complete { hash, length, source },
                None => AnswerBody::Arriving {
                    length: Some(length),
                    source,
                },
            })
        }
        Read::Part => Some(AnswerBody::Arriving {
            length: reader.length(),
            source: PushBody::Arriving(chunks, Some(reader)),
        }),
    }
}

/// A style sheet that was read.
struct Sheet {
    css: Vec<u8>,
    url: Url,
    charset: Option<String>,
    outcome: Read,
}

impl Sheet {
    /// Returns the references; of the page's own sheet without the images and fonts that nothing displays so far.
    async fn search(self, load: &PageLoad, entry: EntryId) -> Vec<Reference> {
        let markup = load
            .ask_response(entry, |reply| ResponseEvent::MarkupNeeded { reply })
            .await;
        let Self {
            css,
            url,
            charset,
            outcome,
        } = self;
        let Some(markup) = markup else {
            let viewport = load.context.viewport();
            let searched = load
                .parsers
                .run(move || discover_css(&css, &url, charset.as_deref(), viewport));
            return searched.await.unwrap_or_default();
        };
        let of_page = markup.clone();
        let searched = load
            .parsers
            .run(move || of_page.sheet(&css, &url, charset.as_deref()))
            .await;
        if outcome != Read::Whole || searched.is_none() {
            markup.lack_style_sheet();
        }
        let (found, pending) = searched.unwrap_or_default();
        // Also without pending references: the style sheet may use fonts of others.
        load.send_response(entry, ResponseEvent::ReferencesPending(pending))
            .await;
        found
    }
}
