//! Responses by partition, URL and secondary key.
use crate::support::{body, open_sound, read, response, site, store};
use bytes::Bytes;
use longhaul_cache::{
    Deletion, DeletionScope, MAX_RESPONSE, MAX_VARIANTS, Owner, OwnerSelection, Partition, RecordKey,
    RecordKind, StoredResponse,
};
use longhaul_http::{request_context::CredentialsKey, site::SchemefulSite};
use longhaul_types::{ByteCount, ClientId, ContentHash};

const QUOTA: ByteCount = ByteCount::mib(16);
const URL: &str = "http://example.org/a?b=c";

#[tokio::test]
async fn stored_responses_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let chk = store(&cache, &body(1, 500)).await.unwrap();
    let stored = response(&site("example.org"), URL, 0, Some(chk));
    cache.put(stored.clone()).await;
    assert_eq!(
        cache.find(&site("example.org"), URL).await,
        std::slice::from_ref(&stored)
    );
    cache.close().await;
    let cache = open_sound(dir.path(), QUOTA);
    assert_eq!(cache.find(&site("example.org"), URL).await, [stored]);
}

fn of_device(device: u8, client: u64) -> Partition {
    let owner = Owner {
        device: [device; 32],
        client: ClientId(client),
    };
    Partition::of_site(owner, SchemefulSite::of("http", "a.example"))
}

#[tokio::test]
async fn responses_are_found_only_in_their_partition() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let all = [
        Partition::Shared,
        site("a.example"),
        site("b.example"),
        of_device(1, 0),
        of_device(2, 0),
        of_device(2, 7),
    ];
    for partition in &all {
        assert_eq!(cache.find(partition, URL).await, []);
        cache.put(response(partition, URL, 0, None)).await;
    }
    cache.remove(&all[1], URL).await;
    for (number, partition) in all.iter().enumerate() {
        assert_eq!(cache.find(partition, URL).await.len(), usize::from(number != 1));
    }
}

#[tokio::test]
async fn only_the_newest_variants_are_stored() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    for vary in 0..20 {
        cache.put(response(&Partition::Shared, URL, vary, None)).await;
    }
    let mut again = response(&Partition::Shared, URL, 10, None);
    again.status = 404;
    cache.put(again).await;
    let found = cache.find(&Partition::Shared, URL).await;
    assert_eq!(found.len(), MAX_VARIANTS);
    assert_eq!((found[0].vary, found[0].status), ([10; 8], 404));
    assert!(found.iter().all(|response| response.vary[0] >= 4));
    cache.remove(&Partition::Shared, URL).await;
    assert_eq!(cache.find(&Partition::Shared, URL).await, []);
    assert_eq!(cache.usage().await.responses, 0);
}

#[tokio::test]
async fn a_response_that_cannot_be_stored_still_replaces_the_stored_one() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let mut large = response(&Partition::Shared, URL, 0, None);
    large.fields.push(("x".to_owned(), vec![b'x'; MAX_RESPONSE]));
    let bodiless = response(&Partition::Shared, URL, 0, Some(ContentHash::of(b"never stored")));
    for unfit in [large, bodiless] {
        cache.put(response(&Partition::Shared, URL, 0, None)).await;
        cache.put(unfit).await;
        assert_eq!(cache.find(&Partition::Shared, URL).await, []);
    }
}

#[tokio::test]
async fn many_urls_of_one_body_do_not_fill_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let chk = store(&cache, &body(1, 43)).await.unwrap();
    for number in 0..600 {
        cache
            .put(response(
                &Partition::Shared,
                &format!("{URL}&{number}"),
                0,
                Some(chk),
            ))
            .await;
    }
    assert_eq!(cache.usage().await.responses, 256);
    assert_eq!(
        cache.find(&Partition::Shared, &format!("{URL}&599")).await.len(),
        1
    );
}

/// Returns true if a text is anywhere in the files of a folder.
fn is_in_files(dir: &std::path::Path, text: &str) -> bool {
    let mut files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    files.any(|file| {
        let bytes = std::fs::read(file).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[tokio::test]
async fn deleted_data_is_not_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let (bank, news) = (site("bank.test"), site("news.test"));
    let secret = Bytes::from("the balance of the account ".repeat(4_000));
    let secret_chk = store(&cache, &secret).await.unwrap();
    let public = Bytes::from("the weather of tomorrow ".repeat(4_000));
    let public_chk = store(&cache, &public).await.unwrap();
    let unnamed = store(&cache, &Bytes::from("what a draft said ".repeat(4_000)))
        .await
        .unwrap();
    for (partition, url, chk) in [
        (&bank, "http://www.bank.test/account", secret_chk),
        (&bank, "http://cdn.test/of-the-bank.js", secret_chk),
        (&news, "http://news.test/", public_chk),
    ] {
        cache.put(response(partition, url, 0, Some(chk))).await;
    }
    let key = RecordKey::new(&bank, Some("http://www.bank.test/account"), b"plan");
    cache
        .put_record(RecordKind::Plan, &key, Bytes::from_static(b"plan of the bank"))
        .await;
    cache.flush().await;
    let traces = [
        "the balance of",
        "of-the-bank.js",
        "what a draft said",
        "plan of the bank",
    ];
    for text in traces {
        assert!(is_in_files(dir.path(), text), "{text}");
    }
    cache
        .forget(Deletion {
            whose: OwnerSelection::local(ClientId::OWNER),
            what: DeletionScope::Site("bank.test".to_owned()),
        })
        .await;
    for text in traces {
        assert!(!is_in_files(dir.path(), text), "{text}");
    }
    assert!(!cache.has(secret_chk).await && !cache.has(unnamed).await);
    assert_eq!(cache.record(RecordKind::Plan, &key).await, None);
    assert_eq!(read(&cache, public_chk).await, Some(public));
    assert_eq!(cache.find(&news, "http://news.test/").await.len(), 1);
    let forget = Deletion {
        whose: OwnerSelection::Everybody,
        what: DeletionScope::All,
    };
    cache.forget(forget).await;
    assert!(!is_in_files(dir.path(), "the weather of"));
    assert!(!is_in_files(dir.path(), "news.test"));
}

#[tokio::test]
async fn an_origin_and_a_url_are_deleted_in_all_partitions_of_a_client() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let (own, other) = (site("a.test"), site("b.test"));
    let stranger = of_device(3, 9);
    let url = "http://a.test/x";
    let put = async || {
        for partition in [&own, &other, &stranger] {
            for url in [url, "http://a.test:81/x"] {
                cache.put(response(partition, url, 0, None)).await;
            }
        }
    };
    let counts = async || {
        let mut counts = Vec::new();
        for partition in [&own, &other, &stranger] {
            for url in [url, "http://a.test:81/x"] {
                counts.push(cache.find(partition, url).await.len());
            }
        }
        counts
    };
    put().await;
    cache.forget_url(Owner::local(ClientId::OWNER), url).await;
    assert_eq!(counts().await, [0, 1, 0, 1, 1, 1]);
    put().await;
    cache
        .forget(Deletion {
            whose: OwnerSelection::local(ClientId::OWNER),
            what: DeletionScope::Origin("http://a.test:81".to_owned()),
        })
        .await;
    assert_eq!(counts().await, [1, 0, 1, 0, 1, 1]);
}

#[tokio::test]
async fn credentials_make_variants() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let of = |credentials| StoredResponse {
        credentials,
        ..response(&Partition::Shared, URL, 0, None)
    };
    let (ada, bob) = ([1; 16], [2; 16]);
    for credentials in [None, Some(ada), Some(bob), Some(ada)] {
        cache.put(of(credentials.map(CredentialsKey::from_bytes))).await;
    }
    let found = cache.find(&Partition::Shared, URL).await;
    assert_eq!(
        found,
        [Some(ada), Some(bob), None].map(|credentials| of(credentials.map(CredentialsKey::from_bytes)))
    );
}
