//! Tests of bodies in progress.
use longhaul_codec::{ContentCoding, ContentEncoder};

use super::*;
use crate::{
    Content,
    spool::KEEP,
    test_origin::{raw_answer, read},
};

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    let mut encoder = ContentEncoder::new(ContentCoding::Gzip { padding: 0 }, None).unwrap();
    encoder.encode(body, &mut coded).unwrap();
    encoder.finish(&mut coded).unwrap();
    coded
}

#[tokio::test]
async fn a_body_that_may_lack_its_end_is_not_stored() {
    let (_dir, web) = web_cache(QUOTA);
    let coded = gzip(b"body");
    let fields = ["cache-control: public, max-age=60", "content-encoding: gzip"];
    let of = |coded: &[u8]| answer("200 OK", &fields, coded);
    let origin = TestOrigin::start([of(&coded[..coded.len() - 8]), of(&coded)]).await;
    let url = origin.url("/x");
    for expected in [CacheStatus::Miss, CacheStatus::Miss, CacheStatus::Hit] {
        let fetched = fetch(&web, cache_request(1, &url, &[])).await;
        assert_eq!(fetched, (expected, b"body".to_vec()));
    }
}

#[tokio::test]
async fn a_length_of_the_decoded_body_is_forgiven() {
    let (_dir, web) = web_cache(None);
    let body = vec![b'x'; 1000];
    let of = |length: usize| {
        let length = format!("content-length: {length}");
        raw_answer(
            "HTTP/1.0 200 OK",
            &["content-encoding: gzip", &length],
            &gzip(&body),
        )
    };
    let origin = TestOrigin::start([of(1000), of(1001)]).await;
    for (path, is_whole) in [("/whole", true), ("/cut", false)] {
        let response = web.fetch(cache_request(1, &origin.url(path), &[])).await.unwrap();
        let Content::Body(mut reader) = response.content else {
            panic!("it has a body");
        };
        let mut arrived = Vec::new();
        let mut fault = None;
        while let Some(chunk) = reader.next().await {
            match chunk {
                Ok(chunk) => arrived.extend_from_slice(&chunk),
                Err(found) => {
                    fault = Some(found);
                    break;
                }
            }
        }
        assert_eq!((arrived == body, fault.is_none()), (true, is_whole), "{fault:?}");
        assert_eq!(reader.chk().is_some(), is_whole);
    }
}

#[tokio::test]
async fn what_a_device_cannot_take_is_on_disk_until_it_is_read() {
    let (_dir, web) = web_cache(None);
    let body: Vec<u8> = (0..3 * KEEP).map(|number| (number % 251) as u8).collect();
    let origin = TestOrigin::start([answer("200 OK", &[], &body)]).await;
    let request = cache_request(1, &origin.url("/x"), &[]);
    let mut hop = web.enter_session(*request.identity.device());
    hop.set_away(true);
    let response = web.fetch(request).await.unwrap();
    let Content::Body(mut reader) = response.content else {
        panic!("it has a body");
    };
    while reader.chk().is_none() {
        tokio::task::yield_now().await;
    }
    let on_disk = web.overflow_bytes();
    assert!(on_disk > KEEP && on_disk < body.len() as u64, "{on_disk}");
    assert_eq!(web.decoder_memory(), ByteCount::new(0));
    assert!(read(&mut reader).await == body);
    drop(reader);
    while web.overflow_bytes() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_body_without_reader_is_stored_if_little_is_missing() {
    let control = "cache-control: public, max-age=60";
    let chunked = [control, "transfer-encoding: chunked"];
    let kib = |count: usize| vec![b'x'; count * 1024];
    let of_unknown_length = |body: Vec<u8>| {
        let size = format!("{:x}\r\n", body.len());
        let coded = [size.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
        raw_answer("HTTP/1.1 200 OK", &chunked, &coded)
    };
    // In KiB: the body, and what arrives before its reader leaves.
    for (has_length, length, arrived, is_worth) in [
        (true, 1024, 1, true),
        (true, 2048, 1700, true),
        (true, 2048, 2, false),
        (true, 2048, 1500, false),
        (false, 1020, 1000, true),
        (false, 2048, 1100, false),
    ] {
        let case = format!("{has_length} {length} {arrived}");
        let (_dir, web) = web_cache(QUOTA);
        let answer = if has_length {
            answer("200 OK", &[control], &kib(length))
        } else {
            of_unknown_length(kib(length))
        };
        let missing = (length - arrived) * 1024 + if has_length { 0 } else { 7 };
        let sent = answer.len() - missing;
        let origin = TestOrigin::start(vec![answer; 2]).await;
        origin.hold_after(sent);
        let url = origin.url("/x");
        let response = web.fetch(cache_request(1, &url, &[])).await.unwrap();
        let Content::Body(mut reader) = response.content else {
            panic!("it has a body");
        };
        let mut taken = 0;
        while taken < arrived * 1024 {
            taken += reader.next().await.unwrap().unwrap().len();
        }
        let complete = reader.chk_when_complete(Duration::from_secs(60), ByteCount::mib(4));
        drop(reader);
        if is_worth {
            origin.release();
            assert!(complete.await.is_some(), "{case}");
            assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Hit, "{case}");
        } else {
            assert!(complete.await.is_none(), "{case}");
            origin.release();
            assert_eq!(status(&web, 1, &url, &[]).await, CacheStatus::Miss, "{case}");
        }
    }
}
