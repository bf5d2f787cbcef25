//! Records and mirrors: storage, replacement, limits.
use crate::support::{body, open_sound};
use bytes::Bytes;
use longhaul_cache::{
    Cache, Deletion, DeletionScope, MAX_RECORD, MAX_RECORDS, Owner, OwnerSelection, Partition,
    PartitionLabel, RecordKey, RecordKind,
};
use longhaul_http::site::SchemefulSite;
use longhaul_types::{ByteCount, ClientId, ContentHash, PublicKey};

const QUOTA: ByteCount = ByteCount::mib(16);

fn hashes(range: std::ops::Range<u32>) -> Vec<ContentHash> {
    let mut hashes: Vec<_> = range
        .map(|number| ContentHash::of(&number.to_le_bytes()))
        .collect();
    hashes.sort();
    hashes
}

/// The contents of a mirror with these hashes in the shared partition.
fn held(range: std::ops::Range<u32>) -> Vec<(ContentHash, PartitionLabel)> {
    let label = Partition::Shared.label();
    hashes(range).into_iter().map(|hash| (hash, label)).collect()
}

#[tokio::test]
async fn records_are_found_by_kind_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let long_key = [b'k'; 5000];
    cache
        .put_record(
            RecordKind::Manifest,
            &RecordKey::shared(&long_key),
            Bytes::from_static(b"one"),
        )
        .await;
    cache
        .put_record(
            RecordKind::Plan,
            &RecordKey::shared(&long_key),
            Bytes::from_static(b"two"),
        )
        .await;
    cache
        .put_record(
            RecordKind::Plan,
            &RecordKey::shared(&long_key),
            Bytes::from_static(b"three"),
        )
        .await;
    cache.close().await;
    let cache = open_sound(dir.path(), QUOTA);
    assert_eq!(
        cache
            .record(RecordKind::Manifest, &RecordKey::shared(&long_key))
            .await
            .as_deref(),
        Some(&b"one"[..])
    );
    assert_eq!(
        cache
            .record(RecordKind::Plan, &RecordKey::shared(&long_key))
            .await
            .as_deref(),
        Some(&b"three"[..])
    );
    assert_eq!(
        cache
            .record(RecordKind::RequestTemplate, &RecordKey::shared(&long_key))
            .await,
        None
    );
    cache
        .put_record(
            RecordKind::Plan,
            &RecordKey::shared(&long_key),
            Bytes::from(vec![0; MAX_RECORD + 1]),
        )
        .await;
    assert_eq!(
        cache
            .record(RecordKind::Plan, &RecordKey::shared(&long_key))
            .await,
        None,
        "too long, yet it supersedes"
    );
}

#[tokio::test]
async fn the_least_recently_used_record_is_evicted() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let surplus = 40;
    for number in 0..MAX_RECORDS + surplus {
        if number == MAX_RECORDS / 2 {
            assert!(
                cache
                    .record(RecordKind::Plan, &RecordKey::shared(&0_usize.to_le_bytes()))
                    .await
                    .is_some()
            );
        }
        cache
            .put_record(
                RecordKind::Plan,
                &RecordKey::shared(&number.to_le_bytes()),
                Bytes::from_static(b"plan"),
            )
            .await;
    }
    assert!(
        cache
            .record(RecordKind::Plan, &RecordKey::shared(&0_usize.to_le_bytes()))
            .await
            .is_some(),
        "it was used"
    );
    assert!(
        cache
            .record(RecordKind::Plan, &RecordKey::shared(&surplus.to_le_bytes()))
            .await
            .is_none()
    );
    assert!(
        cache
            .record(RecordKind::Plan, &RecordKey::shared(&(surplus + 1).to_le_bytes()))
            .await
            .is_some()
    );
}

#[tokio::test]
async fn records_are_bounded_by_size() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    for number in 0..20_u32 {
        cache
            .put_record(
                RecordKind::Manifest,
                &RecordKey::shared(&number.to_le_bytes()),
                body(number, 200_000),
            )
            .await;
    }
    let mut kept = 0;
    for number in 0..20_u32 {
        let record = cache
            .record(RecordKind::Manifest, &RecordKey::shared(&number.to_le_bytes()))
            .await;
        assert!(
            record
                .as_ref()
                .is_none_or(|record| *record == body(number, 200_000))
        );
        kept += u32::from(record.is_some());
    }
    assert_eq!(kept, 5, "a sixteenth of the quota");
}

#[tokio::test]
async fn a_mirror_records_the_changes_of_its_device() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let (one, two) = (PublicKey::from_bytes([1; 32]), PublicKey::from_bytes([2; 32]));
    cache.mirror_add(one, &Partition::Shared, hashes(0..3)).await;
    assert_eq!(cache.mirror(one).await, None, "its cache's state is not known");
    cache.mirror_reset(one, u64::MAX).await;
    cache.mirror_reset(two, 5).await;
    cache.mirror_add(one, &Partition::Shared, hashes(0..10_000)).await;
    cache
        .mirror_add(one, &Partition::Shared, hashes(9_000..10_000))
        .await;
    cache.mirror_add(two, &Partition::Shared, hashes(0..1)).await;
    cache.mirror_remove(one, hashes(5_000..20_000)).await;
    cache.close().await;

    let cache = open_sound(dir.path(), QUOTA);
    let mirror = cache.mirror(one).await.unwrap();
    assert_eq!((mirror.state, mirror.held), (u64::MAX, held(0..5_000)));
    assert_eq!(cache.mirror(two).await.unwrap().held, held(0..1));
    cache.mirror_reset(one, 6).await;
    let mirror = cache.mirror(one).await.unwrap();
    assert_eq!((mirror.state, mirror.held), (6, Vec::new()));
}

#[tokio::test]
async fn a_mirror_records_the_partition_of_each_held_body() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), QUOTA);
    let device = PublicKey::from_bytes([9; 32]);
    let of = |client, host| {
        let owner = Owner::of_device(&device, ClientId(client));
        Partition::of_site(owner, SchemefulSite::of("http", host))
    };
    let (a, b, guest) = (of(0, "a.test"), of(0, "b.test"), of(5, "a.test"));
    cache.mirror_reset(device, 5).await;
    for partition in [&a, &b, &guest] {
        cache.mirror_add(device, partition, hashes(0..5_000)).await;
    }
    let held = async |cache: &Cache, partition: &Partition| {
        let mirror = cache.mirror(device).await.unwrap();
        let of_partition = mirror
            .held
            .iter()
            .filter(|(_, label)| *label == partition.label());
        of_partition.count()
    };
    for partition in [&a, &b, &guest] {
        assert_eq!(held(&cache, partition).await, 5_000);
    }
    // Removal applies to all partitions in which the device received the body.
    cache.mirror_remove(device, hashes(0..1)).await;
    assert_eq!(held(&cache, &a).await, 4_999);
    assert_eq!(held(&cache, &b).await, 4_999);
    let forget = |whose, what| cache.forget(Deletion { whose, what });
    let owner = Owner::of_device(&device, ClientId(0));
    forget(
        OwnerSelection::Client(owner),
        DeletionScope::Site("a.test".to_owned()),
    )
    .await;
    assert_eq!(held(&cache, &a).await, 0);
    assert_eq!(held(&cache, &b).await, 4_999);
    assert_eq!(held(&cache, &guest).await, 4_999);
    forget(OwnerSelection::Device(*device.as_bytes()), DeletionScope::All).await;
    assert_eq!(cache.mirror(device).await.unwrap().held, []);
}

#[tokio::test]
async fn mirrors_stay_within_their_share_of_the_quota() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open_sound(dir.path(), ByteCount::mib(2));
    let most = (2 << 20) / 200;
    let device = |number| PublicKey::from_bytes([number; 32]);
    for number in 1..=3 {
        cache.mirror_reset(device(number), number.into()).await;
        cache
            .mirror_add(device(number), &Partition::Shared, hashes(0..5_000))
            .await;
    }
    assert_eq!(cache.mirror(device(1)).await, None, "absent longest");
    assert_eq!(cache.mirror(device(2)).await.unwrap().held.len(), 5_000);
    cache
        .mirror_add(device(3), &Partition::Shared, hashes(5_000..30_000))
        .await;
    let held = cache.mirror(device(3)).await.unwrap().held;
    assert!(
        (most - 600..=most).contains(&held.len()),
        "{} of at most {most}",
        held.len()
    );
    assert_eq!(cache.mirror(device(2)).await, None, "made room");
    assert!(cache.usage().await.bytes < ByteCount::mib(2));
}
