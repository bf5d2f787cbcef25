//! Who is served, where, and for how long.
use std::time::SystemTime;

use futures_util::FutureExt as _;
use longhaul_gateway_core::{
    admission::state::random_key,
    config::{SettingArgs, resolve, settings},
};
use longhaul_settings::Environment;

use super::{super::tests::authorization, *};

/// Rules with one client, whose name is `ann`.
struct Rules {
    access: Access,
    password: String,
    state: StateDir,
    _home: tempfile::TempDir,
}

fn rules() -> Rules {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(&home.path().join("state")).unwrap();
    let key = PasswordKey::derived_from(&random_key().unwrap());
    let password = Clients::add(&state, &key, "ann", SystemTime::now()).unwrap();
    let flags = SettingArgs::default().with(&settings::CLIENTLESS_ALLOW, "10.0.0.0/8");
    let (config, _) = resolve(&flags, &Environment::new()).unwrap();
    Rules {
        access: Access::new(&config.clientless, &state, key).unwrap(),
        password,
        state,
        _home: home,
    }
}

impl Rules {
    /// Decides about a request inside TLS.
    fn admit(&self, address: IpAddr, password: &str) -> Result<Admitted, Denied> {
        let security = Security::Tls;
        self.access
            .admit(Peer { address, security }, &authorization("ann", password))
    }

    fn admit_ann(&self, address: IpAddr) -> Result<Admitted, Denied> {
        self.admit(address, &self.password)
    }
}

const INSIDE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3));
const OUTSIDE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

#[test]
fn clients_come_from_allowed_networks_and_from_where_one_has_logged_in() {
    let rules = rules();
    assert_eq!(rules.access.standing(INSIDE), Standing::Client);
    assert_eq!(rules.access.standing(OUTSIDE), Standing::Stranger);
    assert_eq!(rules.admit(OUTSIDE, "wrong"), Err(Denied::Password));
    assert_eq!(rules.access.standing(OUTSIDE), Standing::Stranger);
    assert!(matches!(rules.admit_ann(OUTSIDE), Ok(Admitted::Named(..))));
    assert_eq!(rules.access.standing(OUTSIDE), Standing::Client);
    assert_eq!(rules.access.standing([192, 0, 2, 2].into()), Standing::Stranger);
}

#[test]
fn who_guesses_in_many_networks_shuts_out_nobody_who_has_logged_in() {
    let rules = rules();
    let address = |network: u16| IpAddr::from([0x2001, 0xdb8, 1, network, 0, 0, 0, 1]);
    let (of_ann, unused) = (address(0xfe), address(0xff));
    assert!(rules.admit_ann(of_ann).is_ok());
    for network in 0..16 {
        for _ in 0..5 {
            assert_eq!(rules.admit(address(network), "wrong"), Err(Denied::Password));
        }
        assert_eq!(rules.admit(address(network), "wrong"), Err(Denied::Silent));
    }
    // No password is looked at in the rest of the /56, except where a client was lately served.
    assert_eq!(rules.admit_ann(unused), Err(Denied::Silent));
    assert!(rules.admit_ann(of_ann).is_ok());
    // A network in which passwords were guessed is silent, whoever is there.
    assert_eq!(rules.admit_ann(address(0)), Err(Denied::Silent));
}

#[test]
fn a_password_is_looked_at_only_inside_tls_or_in_allowed_networks() {
    let rules = rules();
    let fields = authorization("ann", &rules.password);
    for (address, security, is_served) in [
        (OUTSIDE, Security::Plain, false),
        (OUTSIDE, Security::Tls, true),
        (INSIDE, Security::Plain, true),
        (INSIDE, Security::Tls, true),
    ] {
        let peer = Peer { address, security };
        assert_eq!(rules.access.admit(peer, &fields).is_ok(), is_served, "{peer:?}");
        let unnamed = rules.access.admit(peer, &HeaderMap::new());
        assert_eq!(unnamed.is_ok(), address == INSIDE, "{peer:?}");
    }
}

#[tokio::test]
async fn a_client_is_served_until_it_is_removed_from_the_list() {
    let rules = rules();
    let ann = rules.admit_ann(OUTSIDE).unwrap();
    let removed = rules.access.removed(&ann);
    tokio::pin!(removed);
    assert!((&mut removed).now_or_never().is_none());
    Clients::add(&rules.state, &rules.access.key, "bob", SystemTime::now()).unwrap();
    let read = || Arc::new(Clients::load(&rules.state).unwrap());
    rules.access.clients.send_replace(read());
    assert!((&mut removed).now_or_never().is_none());
    Clients::remove(&rules.state, "ann").unwrap();
    rules.access.clients.send_replace(read());
    removed.await;
    assert_eq!(rules.admit_ann(OUTSIDE), Err(Denied::Password));
    // A later client with the same name is another client.
    Clients::add(&rules.state, &rules.access.key, "ann", SystemTime::now()).unwrap();
    rules.access.clients.send_replace(read());
    assert!(rules.access.removed(&ann).now_or_never().is_some());
    assert!(rules.access.removed(&Admitted::Unnamed).now_or_never().is_none());
}
