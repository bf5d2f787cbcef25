//! Quotas of the clients without an agent that have a name and a password. Their bytes are counted where they pass, and each
//! count is compared at once: there is no session that could be looked at.
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use longhaul_types::{ByteCount, PublicKey};

use super::{
    Quotas,
    reached::{Holder, QuotaState, Reached},
};
use crate::{
    admin::device_usage::Month,
    admission::clients::Clients,
    quota_limits::{DeviceQuota, Limit, QuotaDefaults},
};

/// A client in the list.
#[derive(Clone, Debug)]
pub(super) struct ListedClient {
    name: String,
    month: Limit<ByteCount>,
    /// Kept while the client is listed, so that each turn is logged once and tunnels see it.
    state: Arc<QuotaState>,
}

impl Quotas {
    /// Takes the quotas of a new list of clients.
    pub fn set_clients(&self, list: &Clients) {
        let before = self.clients.load();
        let listed = list.iter().filter_map(|client| {
            let key = client.owner()?;
            let known = before.get(&key).map(|known| Arc::clone(&known.state));
            let listed = ListedClient {
                name: client.name.clone(),
                month: client.month(),
                state: known.unwrap_or_default(),
            };
            Some((key, listed))
        });
        let listed: BTreeMap<PublicKey, ListedClient> = listed.collect();
        self.clients.store(Arc::new(listed));
    }

    /// The listed clients.
    pub fn clients(&self) -> Vec<PublicKey> {
        self.clients.load().keys().copied().collect()
    }

    /// Waits until the month's bytes of a client are used up; never returns for a client that is not listed. Cancel safe.
    pub async fn until_reached(&self, client: &PublicKey) {
        let state = self
            .clients
            .load()
            .get(client)
            .map(|known| Arc::clone(&known.state));
        match state {
            Some(state) => drop(state.until_reached().await),
            None => std::future::pending().await,
        }
    }

    /// Returns true for a listed client.
    pub fn is_client(&self, client: &PublicKey) -> bool {
        self.clients.load().contains_key(client)
    }

    /// Compares the month's bytes of a client with its quota; returns what is used up.
    pub fn compare_client(
        &self,
        client: &PublicKey,
        in_month: u64,
        defaults: QuotaDefaults,
        now: SystemTime,
    ) -> Option<Reached> {
        let clients = self.clients.load();
        let listed = clients.get(client)?;
        let quota = DeviceQuota {
            month: listed.month,
            ..DeviceQuota::default()
        };
        let month = quota.within(defaults).month;
        let reached = month.filter(|month| in_month >= month.bytes());
        let reached = reached
            .map(|month| Reached::new(Holder::Client, listed.name.clone(), month, Month::of(now).end()));
        listed.state.note(client, in_month, reached.clone());
        reached
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;
    use crate::admission::{clients::PasswordKey, state::StateDir};

    #[tokio::test]
    async fn a_client_has_its_own_month_else_the_default_and_a_raised_one_applies() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        let key = PasswordKey::derived_from(&SecretKey::from_bytes([7; 32]));
        Clients::add(&state, &key, "ann", SystemTime::UNIX_EPOCH).unwrap();
        let quotas = Quotas::default();
        let defaults = QuotaDefaults {
            rate: None,
            month: Some(ByteCount::kb(2000)),
        };
        let apply = |month| {
            Clients::set_month(&state, "ann", month).unwrap();
            let list = Clients::load(&state).unwrap();
            quotas.set_clients(&list);
        };
        apply(Limit::Default);
        let [ann] = quotas.clients()[..] else {
            panic!("one client")
        };
        let now = SystemTime::UNIX_EPOCH;
        let compare = |in_month| quotas.compare_client(&ann, in_month, defaults, now);
        assert_eq!(compare(1_999_999), None);
        let reached = compare(2_000_000).unwrap();
        assert_eq!(
            reached.to_string(),
            "the monthly quota of the client `ann` (2MB) is used up until 1970-02-01T00:00:00Z"
        );
        quotas.until_reached(&ann).await;
        assert!(quotas.is_client(&ann) && !quotas.is_client(&PublicKey::from_bytes([9; 32])));
        apply(Limit::Of(ByteCount::kb(3000)));
        assert_eq!(compare(2_000_000), None);
        assert!(compare(3_000_000).is_some());
        apply(Limit::Unlimited);
        assert_eq!(compare(u64::MAX), None);
        let stranger = PublicKey::from_bytes([9; 32]);
        assert_eq!(quotas.compare_client(&stranger, u64::MAX, defaults, now), None);
    }
}
