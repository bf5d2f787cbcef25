//! Names in a certificate (RFC 5280), as far as they lead to the certificate of its issuer. The TLS library verifies
//! certificates; this reader only finds candidates for its verification.

/// Maximum number of addresses that are read, and maximum length of each: authorities name one or two short ones.
const MAX_URLS: usize = 4;
const MAX_URL: usize = 1024;

/// Tags of ASN.1 (X.690 section 8.1.2).
mod tag {
    pub(super) const BOOLEAN: u8 = 0x01;
    pub(super) const INTEGER: u8 = 0x02;
    pub(super) const OCTET_STRING: u8 = 0x04;
    pub(super) const OBJECT: u8 = 0x06;
    pub(super) const SEQUENCE: u8 = 0x30;
    /// `version`, `issuerUniqueID`, `subjectUniqueID` and `extensions` of a certificate (RFC 5280 section 4.1).
    pub(super) const VERSION: u8 = 0xa0;
    pub(super) const UNIQUE_IDS: [u8; 2] = [0x81, 0x82];
    pub(super) const EXTENSIONS: u8 = 0xa3;
    /// `uniformResourceIdentifier` of a general name (RFC 5280 section 4.2.1.6).
    pub(super) const URI: u8 = 0x86;
}

/// Authority information access, 1.3.6.1.5.5.7.1.1 (RFC 5280 section 4.2.2.1).
const AUTHORITY_INFORMATION: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 1];
/// The access method of the issuer's certificate, 1.3.6.1.5.5.7.48.2.
const ISSUERS: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 2];

/// What a certificate says about itself and its issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNames<'a> {
    /// Contents of the issuer's name.
    pub issuer: &'a [u8],
    /// Contents of the subject's name.
    pub subject: &'a [u8],
    /// The `http` URLs of the issuer's certificate (authority information access).
    pub issuer_urls: Vec<&'a str>,
}

impl<'a> CertificateNames<'a> {
    /// Reads a certificate in DER; returns `None` if the bytes are no certificate.
    pub fn of(der: &'a [u8]) -> Option<Self> {
        let mut outside = Der(der);
        let mut certificate = Der(outside.take(tag::SEQUENCE)?);
        let mut body = Der(certificate.take(tag::SEQUENCE)?);
        body.take_if(tag::VERSION)?;
        let _serial = body.take(tag::INTEGER)?;
        let _signature = body.take(tag::SEQUENCE)?;
        let issuer = body.take(tag::SEQUENCE)?;
        let _validity = body.take(tag::SEQUENCE)?;
        let subject = body.take(tag::SEQUENCE)?;
        let _key = body.take(tag::SEQUENCE)?;
        for unique_id in tag::UNIQUE_IDS {
            body.take_if(unique_id)?;
        }
        let issuer_urls = match body.take_if(tag::EXTENSIONS)? {
            Some(extensions) => issuer_urls(Der(extensions).take(tag::SEQUENCE)?)?,
            None => Vec::new(),
        };
        Some(Self {
            issuer,
            subject,
            issuer_urls,
        })
    }
}

/// The URLs in a list of extensions.
fn issuer_urls(extensions: &[u8]) -> Option<Vec<&str>> {
    let mut urls = Vec::new();
    let mut extensions = Der(extensions);
    while !extensions.0.is_empty() {
        let mut extension = Der(extensions.take(tag::SEQUENCE)?);
        let kind = extension.take(tag::OBJECT)?;
        extension.take_if(tag::BOOLEAN)?;
        let value = extension.take(tag::OCTET_STRING)?;
        if kind != AUTHORITY_INFORMATION {
            continue;
        }
        let mut descriptions = Der(Der(value).take(tag::SEQUENCE)?);
        while !descriptions.0.is_empty() {
            let mut description = Der(descriptions.take(tag::SEQUENCE)?);
            let method = description.take(tag::OBJECT)?;
            let location = description.take_if(tag::URI)?;
            let url = location
                .filter(|_| method == ISSUERS)
                .and_then(|url| str::from_utf8(url).ok());
            let url = url.filter(|url| url.len() <= MAX_URL && is_http(url));
            if urls.len() < MAX_URLS {
                urls.extend(url);
            }
        }
    }
    Some(urls)
}

fn is_http(url: &str) -> bool {
    let scheme = url.as_bytes().get(..7);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http://"))
}

/// Bytes from which values in DER are taken one after the other (X.690 section 10).
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The contents of the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&first, rest) = self.0.split_first()?;
        let (&short, rest) = rest.split_first()?;
        let (length, rest) = match short {
            0..=0x7f => (usize::from(short), rest),
            // A certificate has less than 16 MiB.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(short - 0x80))?;
                let length = bytes
                    .iter()
                    .fold(0, |length, byte| length << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (first == tag).then_some(contents)
    }

    /// The contents of the next value if it has this tag. Fails only if it has the tag and is malformed.
    #[expect(
        clippy::option_option,
        reason = "the outer one is the result of reading, the inner one the value"
    )]
    fn take_if(&mut self, tag: u8) -> Option<Option<&'a [u8]>> {
        if self.0.first() == Some(&tag) {
            self.take(tag).map(Some)
        } else {
            Some(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair,
    };

    use super::*;

    fn value(tag: u8, contents: &[u8]) -> Vec<u8> {
        let length = contents.len();
        let mut out = vec![tag];
        match u8::try_from(length) {
            Ok(short) if short < 0x80 => out.push(short),
            Ok(short) => out.extend([0x81, short]),
            Err(_) => out.extend([&[0x82][..], &u16::try_from(length).unwrap().to_be_bytes()].concat()),
        }
        out.extend(contents);
        out
    }

    fn description(method: &[u8], tag: u8, location: &str) -> Vec<u8> {
        let location = value(tag, location.as_bytes());
        value(tag::SEQUENCE, &[value(tag::OBJECT, method), location].concat())
    }

    fn certificate(extension: &[u8]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "The authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut params = CertificateParams::new(vec!["site.test".to_owned(); 20]).unwrap();
        let oid = [1, 3, 6, 1, 5, 5, 7, 1, 1];
        let extension = CustomExtension::from_oid_content(&oid, extension.to_vec());
        params.custom_extensions.push(extension);
        let key = KeyPair::generate().unwrap();
        params.signed_by(&key, &authority).unwrap().der().to_vec()
    }

    #[test]
    fn names_and_urls_are_found() {
        const OCSP: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 0x30, 1];
        let descriptions = [
            description(OCSP, tag::URI, "http://ocsp.test/"),
            description(ISSUERS, tag::URI, "ldap://a.test/"),
            description(ISSUERS, 0x82, "http.test"),
            description(ISSUERS, tag::URI, "HTTP://a.test/issuer.crt"),
            description(ISSUERS, tag::URI, "https://b.test/issuer.crt"),
            description(ISSUERS, tag::URI, &format!("http://{}", "c".repeat(MAX_URL))),
            description(ISSUERS, tag::URI, "http://d.test/"),
        ];
        let der = certificate(&value(tag::SEQUENCE, &descriptions.concat()));
        let names = CertificateNames::of(&der).unwrap();
        assert_eq!(names.issuer_urls, ["HTTP://a.test/issuer.crt", "http://d.test/"]);
        let contains = |name: &[u8], text: &[u8]| name.windows(text.len()).any(|part| part == text);
        assert!(contains(names.issuer, b"The authority") && !contains(names.subject, b"The authority"));
        for end in 0..der.len() {
            assert_eq!(CertificateNames::of(&der[..end]), None, "{end}");
        }
        assert_eq!(CertificateNames::of(&certificate(b"nonsense")), None);
        let many: Vec<u8> = (0..9)
            .flat_map(|_| description(ISSUERS, tag::URI, "http://a.test/"))
            .collect();
        let der = certificate(&value(tag::SEQUENCE, &many));
        assert_eq!(CertificateNames::of(&der).unwrap().issuer_urls.len(), MAX_URLS);
    }
}
