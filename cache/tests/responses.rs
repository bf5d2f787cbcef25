//! Responses by partition, URL and secondary key.
mod support;

use longhaul_cache::{MAX_RESPONSE, MAX_VARIANTS, Partition};
use longhaul_types::{ByteCount, ContentHash};
use support::{body, open_sound, response, site, store};

const QUOTA: ByteCount = ByteCount::mib(16);
const URL: &str = "http://example.org/a?b=c";

#[tokio::test]
async fn responses_come_back_as_they_were_put() {
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

#[tokio::test]
async fn partitions_do_not_see_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let all = [
        Partition::Shared,
        Partition::Device([1; 32]),
        Partition::Device([2; 32]),
        site("a.example"),
        site("b.example"),
        site(""),
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
async fn the_newest_variants_are_kept() {
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
async fn what_cannot_be_kept_still_supersedes() {
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
async fn ever_new_urls_of_one_body_do_not_fill_the_file() {
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
