use longhaul_cache::CacheConfig;
use longhaul_codec::{BodyDecoder, BodyEncoder, BodyEvent, BodyLimits, MIX_MEMORY};
use longhaul_session::BodyCoding;
use longhaul_types::{BitRate, SecretKey};
use tokio::time::timeout;

use super::*;
use crate::{
    body_coder::{BodyCoder, Progress},
    delta_bases::DeltaCandidates,
};

const KEY: [u8; 32] = [5; 32];
/// Longer than the storing of a result takes.
const LIMIT: Duration = Duration::from_secs(60);

struct Home {
    _dir: tempfile::TempDir,
    cache: Cache,
    coded: Arc<EncodedCache>,
    cpu_pool: Arc<CpuPool>,
}

/// Memory for context mixing of one device.
fn mix_memory() -> MemoryShare {
    MemoryShares::new(MIX_MEMORY).of(device(1))
}

fn home() -> Home {
    let dir = tempfile::tempdir().unwrap();
    let config = CacheConfig {
        dir: dir.path().to_owned(),
        file: "test.db",
        quota: ByteCount::mib(8),
    };
    let cache = Cache::open(config, 1).unwrap().cache;
    let cpu_pool = CpuPool::new(2);
    Home {
        _dir: dir,
        coded: EncodedCache::new(Some(cache.clone()), Arc::clone(&cpu_pool)),
        cache,
        cpu_pool,
    }
}

fn device(n: u8) -> PublicKey {
    SecretKey::from_bytes([n; 32]).public()
}

/// Pseudo-random words.
fn page(seed: u32) -> Bytes {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 20) % 700
    };
    (0..9000)
        .flat_map(|_| format!("word{:x} ", next().wrapping_mul(2_654_435_761) >> 16).into_bytes())
        .collect()
}

fn text(kbps: u64, length: u64) -> BodyTraits<'static> {
    BodyTraits {
        content_type: Some("text/html"),
        length: Some(ByteCount::new(length)),
        link: Some(BitRate::kbps(kbps)),
        load: Load::NONE,
        effort: EffortPolicy::ByLink,
    }
}

fn decoded(coding: BodyCoding, mut wire: &[u8]) -> Vec<u8> {
    let coding = match coding {
        BodyCoding::Identity => Coding::Identity,
        BodyCoding::Zstd => Coding::Zstd,
        BodyCoding::Brotli => Coding::Brotli,
        BodyCoding::Mix => Coding::Mix,
    };
    let mut decoder = BodyDecoder::new(KEY, coding, BodyLimits::default());
    let mut body = Vec::new();
    while let BodyEvent::Window(window) = decoder.next(&mut wire).unwrap() {
        body.extend_from_slice(&window);
    }
    decoder.finish().unwrap();
    body
}

impl Home {
    /// Sends a body as a session does; returns the size on the hop and true if a stored result was found.
    async fn send(&self, to: u8, body: &Bytes, kbps: u64, audience: Audience) -> (usize, bool) {
        self.send_mixed(to, body, kbps, audience, None).await
    }

    async fn send_mixed(
        &self,
        to: u8,
        body: &Bytes,
        kbps: u64,
        audience: Audience,
        mixing: Option<MemoryShare>,
    ) -> (usize, bool) {
        let traits = text(kbps, body.len() as u64);
        let wanted = BodyToEncode {
            chk: Some(ContentHash::of(body)),
            device: device(to),
            audience,
            traits,
            takes_mixing: mixing.is_some(),
        };
        let prior = self.coded.prior(wanted).await;
        let was_kept = prior.found.is_some();
        // A stored Brotli result may still be replaced by context mixing.
        let is_replay = was_kept && prior.recording.is_none();
        let mut coder = BodyCoder::whole(
            KEY,
            traits,
            audience,
            DeltaCandidates {
                mixing,
                ..DeltaCandidates::default()
            },
            prior,
        );
        let mut wire = Vec::new();
        for part in body.chunks(20_000) {
            assert!(!is_replay || !coder.is_heavy(part.len()));
            let mut part = Bytes::copy_from_slice(part);
            assert_eq!(coder.step(&mut part, &mut wire), Ok(Progress::Done));
        }
        let (coding, finished) = coder.finish(&mut wire).unwrap();
        let finished = finished.unwrap();
        assert!(decoded(coding.coding, &wire) == body[..]);
        let kept = self.coded.counters.count_kept();
        let is_made = matches!(finished.outcome, recording::Outcome::New(Some(_)));
        self.coded.finished(&device(to), finished);
        // The result is stored by a spawned task.
        let stored = async {
            while is_made && self.coded.counters.count_kept() == kept {
                tokio::task::yield_now().await;
            }
        };
        assert!(timeout(LIMIT, stored).await.is_ok(), "the result is not stored");
        (wire.len(), was_kept)
    }

    async fn record(&self, body: &Bytes) -> Option<Record> {
        read(&self.cache, &ContentHash::of(body), Coding::Brotli).await
    }

    async fn store(&self, body: &Bytes) {
        let mut writer = self.cache.writer(Cost::unknown());
        writer.write(body.clone()).await;
        writer.commit().await.unwrap();
    }
}

#[tokio::test]
async fn a_body_is_encoded_once_for_all_devices() {
    let home = home();
    let body = page(1);
    let (size, was_kept) = home.send(1, &body, 384, Audience::Everybody).await;
    assert!(!was_kept);
    assert_eq!(
        home.send(2, &body, 384, Audience::Everybody).await,
        (size, true),
        "the same bytes"
    );
    assert_eq!(
        home.send(2, &body, 5_000, Audience::Everybody).await,
        (size, true),
        "more effort serves less"
    );
    assert!(
        !home.send(3, &body, 40, Audience::Everybody).await.1,
        "less effort does not serve more"
    );
    assert!(home.send(4, &body, 384, Audience::Everybody).await.1);
    assert_eq!(
        home.record(&body).await.unwrap().coding.coder(),
        Some(recode::BEST)
    );
    assert!(!home.send(2, &body, 100_000, Audience::Everybody).await.1);
}

#[tokio::test]
async fn private_bodies_are_neither_stored_nor_served_encoded() {
    let home = home();
    let body = page(1);
    assert!(!home.send(1, &body, 384, Audience::RequestingDevice).await.1);
    assert_eq!(home.record(&body).await, None);
    home.send(1, &body, 384, Audience::Everybody).await;
    assert!(!home.send(2, &body, 384, Audience::RequestingDevice).await.1);
    assert!(home.send(2, &body, 384, Audience::Everybody).await.1);
}

#[tokio::test]
async fn small_and_incompressible_bodies_are_not_stored_encoded() {
    let home = home();
    let mut noise = vec![0; 50_000];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    for body in [page(1).slice(..2000), noise.into()] {
        for _ in 0..2 {
            assert!(!home.send(1, &body, 384, Audience::Everybody).await.1);
        }
        assert_eq!(home.record(&body).await, None);
    }
}

#[tokio::test]
async fn a_missing_or_wrong_stored_encoding_is_replaced() {
    let home = home();
    let (body, other) = (page(1), page(2));
    home.send(1, &body, 384, Audience::Everybody).await;
    home.send(1, &other, 384, Audience::Everybody).await;
    let (record, chk) = (home.record(&body).await.unwrap(), ContentHash::of(&body));
    let put = async |record: Bytes| {
        let key = stored_record::key(&chk, Coding::Brotli);
        home.cache.put_record(RecordKind::Coded, &key, record).await;
    };
    let gone = Record {
        data: ContentHash::of(b"gone"),
        ..record
    };
    let shorter = Record {
        length: record.length - 1,
        ..record
    };
    let of_no_windows = Record { data: chk, ..record };
    home.store(&body).await;
    for wrong in [
        gone.encode(),
        shorter.encode(),
        of_no_windows.encode(),
        Bytes::from_static(b"?"),
    ] {
        put(wrong).await;
        let sent = home.coded.prior(BodyToEncode {
            chk: Some(chk),
            device: device(1),
            audience: Audience::Everybody,
            traits: text(384, body.len() as u64),
            takes_mixing: false,
        });
        let prior = sent.await;
        assert!(prior.found.is_none() && prior.recording.is_some());
    }
    put(gone.encode()).await;
    assert!(!home.send(1, &body, 384, Audience::Everybody).await.1);
    assert!(home.send(1, &body, 384, Audience::Everybody).await.1);
    assert_eq!(home.record(&body).await, Some(record));
}

#[tokio::test]
async fn a_body_is_context_mixed_once_for_all_agents_that_accept_it() {
    let home = home();
    let body = page(1);
    let everybody = Audience::Everybody;
    let mixing = || Some(mix_memory());
    let (plain, _) = home.send(1, &body, 40, everybody).await;
    let (first, was_kept) = home.send_mixed(1, &body, 40, everybody, mixing()).await;
    assert!(was_kept, "by Brotli");
    assert!(first < plain, "{first} and {plain}");
    // Exhaust the memory for models, so that no body can be context-mixed again.
    let full = mix_memory();
    let mut models = Vec::new();
    while let Some(model) = BodyEncoder::mixed(KEY, None, &full) {
        models.push(model);
    }
    let again = home.send_mixed(2, &body, 40, everybody, Some(full)).await;
    assert_eq!(again, (first, true), "the same bytes");
    assert_eq!(
        home.send(3, &body, 40, everybody).await,
        (plain, true),
        "who does not take it gets the other"
    );
    let on_umts = home.send_mixed(4, &body, 384, everybody, mixing()).await;
    assert_eq!(on_umts, (plain, true), "nor is it for faster links");
}

#[tokio::test]
async fn encoding_memory_is_released() {
    let home = home();
    let body = page(1);
    for _ in 0..2 {
        home.send(1, &body, 384, Audience::Everybody).await;
    }
    assert_eq!(home.coded.memory.used(), ByteCount::new(0));
}

/// The clock is stopped except for explicit steps; otherwise nothing would be idle long enough.
#[tokio::test(start_paused = true)]
async fn bodies_of_two_devices_are_recoded_when_the_processor_is_idle() {
    let home = home();
    let body = page(1);
    home.store(&body).await;
    let coded = Arc::clone(&home.coded);
    let recoding = tokio::spawn(async move { coded.recode().await });
    let busy = home.cpu_pool.busy();
    let (before, _) = home.send(1, &body, 5_000, Audience::Everybody).await;
    home.send(2, &body, 5_000, Audience::Everybody).await;
    assert_eq!(
        home.record(&body).await.unwrap().coding,
        StoredCoding::Brotli { quality: 5 }
    );
    tokio::time::advance(Duration::from_secs(600)).await;
    let recoded = || home.coded.counters.count_recoded();
    assert_eq!(recoded(), 0, "a page is in flight");
    drop(busy);
    while recoded() == 0 {
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    assert_eq!(
        home.record(&body).await.unwrap().coding.coder(),
        Some(recode::BEST)
    );
    let (after, was_kept) = home.send(3, &body, 5_000, Audience::Everybody).await;
    assert!(was_kept && after < before, "{after} of {before}");
    assert!(!recoding.is_finished());
    recoding.abort();
}

#[tokio::test(start_paused = true)]
async fn new_work_aborts_background_recoding() {
    let home = home();
    let body = page(1);
    home.store(&body).await;
    let chk = ContentHash::of(&body);
    home.coded.requested(chk, &device(1), None);
    home.coded.requested(chk, &device(2), None);
    let idle = home.cpu_pool.idle_for(Duration::from_secs(1)).await;
    home.cpu_pool.touch();
    assert_eq!(home.coded.popular().next(), Some(chk));
    for _ in 0..3 {
        home.coded.recode_one(chk, idle).await;
    }
    assert_eq!(home.record(&body).await, None);
    assert_eq!(home.coded.popular().next(), None, "it is not tried for ever");
    let mut registry = Registry::with_prefix("longhaul");
    home.coded.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains("longhaul_coded_given_up_total 3"), "{text}");
}
