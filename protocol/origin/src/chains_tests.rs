use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair};
use rustls::{RootCertStore, crypto::ring};
use tokio::time::advance;

use super::*;
use crate::deny;

type Issuer = CertifiedIssuer<'static, KeyPair>;
type Certificate = CertificateDer<'static>;

/// Parameters of an authority, with an address of its issuer's certificate.
fn authority(name: &str, issuer_url: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params.custom_extensions.push(information(issuer_url));
    params
}

/// Authority information access with one address of the issuer's certificate.
fn information(url: &str) -> CustomExtension {
    let length = u8::try_from(url.len()).unwrap();
    let method = [6, 8, 0x2b, 6, 1, 5, 5, 7, 0x30, 2];
    let location = [&[0x86, length][..], url.as_bytes()].concat();
    let description = [&[0x30, 12 + length][..], &method, &location].concat();
    let content = [&[0x30, 14 + length][..], &description].concat();
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], content)
}

fn root() -> Issuer {
    CertifiedIssuer::self_signed(
        authority("Root", "http://none.test/"),
        KeyPair::generate().unwrap(),
    )
    .unwrap()
}

fn below(issuer: &Issuer, name: &str) -> Issuer {
    let params = authority(name, &format!("http://{name}.test/"));
    CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), issuer).unwrap()
}

/// The chain of an origin with a certificate of this issuer.
fn chain(issuer: &Issuer, shown: &[&Certificate]) -> Chain {
    let mut params = CertificateParams::new(vec!["site.test".to_owned()]).unwrap();
    params.custom_extensions.push(information("http://leaf.test/"));
    let own = params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap();
    Chain {
        own: own.der().clone(),
        shown: shown.iter().copied().cloned().collect(),
        name: ServerName::try_from("site.test").unwrap(),
    }
}

fn chains(root: &Issuer) -> Chains {
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).unwrap();
    let authorities = roots.roots.iter().map(|anchor| anchor.subject.to_vec()).collect();
    let verifier = deny::verifier(roots, &Arc::new(ring::default_provider())).unwrap();
    Chains::new(verifier, DenyList::default(), authorities)
}

fn learn(chains: &Chains, chain: &Chain) {
    chains.verify_with(chain, &[], UnixTime::now()).unwrap();
    chains.learn(chain, UnixTime::now());
}

#[test]
fn the_needed_certificates_of_each_verified_chain_become_known() {
    let root = root();
    let chains = chains(&root);
    let [first, second, other] = ["first", "second", "other"].map(|name| below(&root, name));
    learn(&chains, &chain(&first, &[first.der(), other.der()]));
    learn(&chains, &chain(&second, &[second.der()]));
    for (issuer, is_known) in [(&first, true), (&second, true), (&other, false)] {
        let partial = chain(issuer, &[]);
        assert_eq!(chains.known_for(&partial) == [issuer.der().clone()], is_known);
        let whole = chain(issuer, &[issuer.der()]);
        assert_eq!(chains.known_for(&whole), [], "it is shown");
    }
}

#[test]
fn a_chain_with_too_many_certificates_teaches_nothing() {
    let root = root();
    for (length, is_learned) in [(MAX_SHOWN, true), (MAX_SHOWN + 1, false)] {
        let chains = chains(&root);
        let middle = below(&root, "middle");
        learn(
            &chains,
            &chain(
                &middle,
                &[&[middle.der()][..], &vec![root.der(); length - 1]].concat(),
            ),
        );
        assert_eq!(
            !chains.known_for(&chain(&middle, &[])).is_empty(),
            is_learned,
            "{length}"
        );
    }
}

#[test]
fn the_number_of_certificates_that_are_remembered_as_seen_is_bounded() {
    let root = root();
    let (chains, mut chain) = (chains(&root), chain(&root, &[]));
    for round in 0..2 * MAX_SEEN / MAX_SHOWN {
        let numbers = (0..MAX_SHOWN).map(|index| round * MAX_SHOWN + index);
        chain.shown = numbers
            .map(|number| Certificate::from(number.to_be_bytes().to_vec()))
            .collect();
        chains.learn(&chain, UnixTime::now());
        let expected = (round * MAX_SHOWN) % MAX_SEEN + MAX_SHOWN;
        assert_eq!(chains.state.lock().seen.len(), expected);
    }
}

#[test]
fn the_oldest_known_certificates_are_forgotten() {
    let root = root();
    let key = KeyPair::generate().unwrap();
    let certificate = |name: usize| {
        let params = authority(&name.to_string(), "http://a.test/");
        params.signed_by(&key, &root).unwrap().der().clone()
    };
    let mut state = State::default();
    let all: Vec<_> = (0..=MAX_KNOWN).map(certificate).collect();
    let is_known = |state: &State, certificate: &Certificate| {
        state.known.values().flatten().any(|known| known == certificate)
    };
    for known in &all[..MAX_KNOWN] {
        state.remember(known.clone());
        state.remember(known.clone());
    }
    assert!(all[..MAX_KNOWN].iter().all(|known| is_known(&state, known)));
    state.remember(all[MAX_KNOWN].clone());
    assert!(!is_known(&state, &all[0]) && all[1..].iter().all(|known| is_known(&state, known)));
    // The same name with another key.
    let renewed: Vec<_> = (0..MAX_OF_NAME)
        .map(|_| below(&root, "renewed").der().clone())
        .collect();
    for known in &renewed {
        state.remember(known.clone());
    }
    state.remember(below(&root, "renewed").der().clone());
    assert!(!is_known(&state, &renewed[0]) && renewed[1..].iter().all(|known| is_known(&state, known)));
    assert_eq!(state.order.len(), MAX_KNOWN);
}

#[tokio::test(start_paused = true)]
async fn useless_addresses_are_forgotten_when_they_are_old() {
    let mut state = State::default();
    let mark = |state: &mut State, numbers: std::ops::Range<usize>| {
        numbers.for_each(|number| state.mark_useless(&format!("http://{number}.test/")));
    };
    mark(&mut state, 0..MAX_USELESS / 2);
    advance(USELESS / 2).await;
    mark(&mut state, MAX_USELESS / 2..MAX_USELESS + 9);
    assert_eq!(state.useless.len(), MAX_USELESS);
    assert!(!state.useless.contains_key("http://256.test/"));
    advance(USELESS / 2 - Duration::from_millis(1)).await;
    mark(&mut state, MAX_USELESS..MAX_USELESS + 1);
    assert!(!state.useless.contains_key("http://256.test/"));
    advance(Duration::from_millis(1)).await;
    mark(&mut state, MAX_USELESS..MAX_USELESS + 1);
    assert_eq!(state.useless.len(), MAX_USELESS / 2 + 1);
    assert!(state.useless.contains_key("http://128.test/") && state.useless.contains_key("http://256.test/"));
}

#[tokio::test(start_paused = true)]
async fn the_address_at_the_end_of_the_chain_comes_first() {
    let root = root();
    let chains = chains(&root);
    let upper = below(&root, "upper");
    let lower = below(&upper, "lower");
    let stranger = below(&root, "stranger");
    let chain = chain(&lower, &[stranger.der(), lower.der()]);
    let next = |asked: &[&str]| {
        let asked = asked.iter().map(|url| (*url).to_owned()).collect();
        chains.next_url(&chain, &[], &asked)
    };
    let subject = |issuer: &Issuer| subject_of(issuer.der()).unwrap();
    let of_upper = ("http://lower.test/".to_owned(), subject(&upper));
    let of_lower = ("http://leaf.test/".to_owned(), subject(&lower));
    assert_eq!(next(&[]), Some(of_upper.clone()));
    assert_eq!(next(&["http://lower.test/"]), Some(of_lower.clone()));
    assert_eq!(next(&["http://lower.test/", "http://leaf.test/"]), None);
    chains.state.lock().mark_useless("http://lower.test/");
    assert_eq!(next(&[]), Some(of_lower));
    advance(USELESS).await;
    assert_eq!(next(&[]), Some(of_upper));
}
