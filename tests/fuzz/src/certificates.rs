//! Certificates of origins, in which the gateway looks for the addresses of missing certificates.
use longhaul_origin::CertificateNames;

pub(crate) fn certificate_names(bytes: &[u8]) {
    let Some(names) = CertificateNames::of(bytes) else {
        return;
    };
    assert!(names.issuer.len() + names.subject.len() < bytes.len());
    for url in names.issuer_urls {
        assert!(
            url.get(..7)
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
        );
    }
}

/// A certificate with the parts that are read, and empty others.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let value = |tag: u8, contents: &[u8]| {
        let length = u8::try_from(contents.len()).expect("short");
        [&[tag, 0x81, length][..], contents].concat()
    };
    let method = [6, 8, 0x2b, 6, 1, 5, 5, 7, 0x30, 2];
    let location = value(0x86, b"http://a.test/issuer.crt");
    let description = value(0x30, &[&method[..], &location].concat());
    let kind = [6, 8, 0x2b, 6, 1, 5, 5, 7, 1, 1];
    let content = value(4, &value(0x30, &description));
    let extension = value(0x30, &[&kind[..], &content].concat());
    let (name, empty) = (value(0x30, b"name"), [0x30, 0]);
    let extensions = value(0xa3, &value(0x30, &extension));
    let version = [0xa0, 3, 2, 1, 2, 2, 1, 7];
    let body = [&version[..], &empty, &name, &empty, &name, &empty, &extensions].concat();
    vec![value(0x30, &value(0x30, &body))]
}
