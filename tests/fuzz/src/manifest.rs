//! Records of manifests (docs/protocol/session.md section 7).
use longhaul_session::{
    AbsentHost, Entry, EntryBody, EntryFailure, EntryHead, EntryId, FailureReason, Record, RecordReader,
    Scope, Withdrawal, encode_record, keepable,
};

/// Records parse or fail, equally for any split; decoded records survive a round trip.
pub(crate) fn manifest_records(bytes: &[u8]) {
    let whole = read(&[bytes]);
    let cut = bytes.len() / 2;
    assert_eq!(
        whole,
        read(&[&bytes[..cut], &bytes[cut..]]),
        "the split changed the records"
    );
    for record in whole {
        let mut wire = Vec::new();
        encode_record(&record, &mut wire).expect("a decoded value can be encoded");
        assert_eq!(read(&[&wire]), [record]);
    }
    if let Ok(kept) = keepable(bytes) {
        assert_eq!(keepable(&kept), Ok(kept), "the kept form has no smaller form");
    }
}

fn read(parts: &[&[u8]]) -> Vec<Record> {
    let mut reader = RecordReader::new();
    let mut found = Vec::new();
    for part in parts {
        reader.push(part);
        while let Ok(Some(record)) = reader.next() {
            found.push(record);
        }
    }
    found
}

fn head(entry: u32, status: u16, scope: Scope, body: EntryBody) -> Record {
    Record::Head(EntryHead {
        entry: EntryId::new(entry),
        status,
        scope,
        vary: (entry > 0).then_some([entry.to_le_bytes()[0]; 8]),
        shape: 0,
        cookie: None,
        body,
        fields: vec![("content-type".to_owned(), b"text/css".to_vec())],
    })
}

pub(crate) fn manifest_seeds() -> Vec<Vec<u8>> {
    let entry = |url: &str, destination| {
        Record::Entry(Entry {
            url: url.to_owned(),
            destination,
        })
    };
    let records = [
        entry("/style.css", 2),
        entry("http://cdn.test/a.js?v=1", 3),
        entry("/", 0),
        head(0, 200, Scope::Reusable, EntryBody::Pushed { length: Some(1234) }),
        head(1, 200, Scope::ThisPage, EntryBody::Held { hash: [9; 16] }),
        head(2, 302, Scope::ThisPage, EntryBody::None),
        head(3, 200, Scope::Reusable, EntryBody::AsBefore),
        head(
            4,
            404,
            Scope::Reusable,
            EntryBody::SameAs {
                entry: EntryId::FIRST,
            },
        ),
        Record::Withdrawn {
            entry: EntryId::new(5),
            reason: Withdrawal::TooLarge,
        },
        Record::Planned,
        Record::Failed(EntryFailure {
            entry: EntryId::new(6),
            reason: FailureReason::ConnectTimeout,
            detail: "no answer".to_owned(),
        }),
        Record::Absent(AbsentHost {
            origin: "https://missing.test:8443".to_owned(),
            reason: FailureReason::DnsNotFound,
            detail: "no such name".to_owned(),
            seconds: 30,
        }),
    ];
    let (mut seeds, mut all) = (Vec::new(), Vec::new());
    for record in records {
        let mut wire = Vec::new();
        encode_record(&record, &mut wire).expect("a small record");
        all.extend_from_slice(&wire);
        seeds.push(wire);
    }
    seeds.push(all);
    seeds
}
