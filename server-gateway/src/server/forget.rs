//! Deletion of a user's data on `Forget`: of a device or one of its clients, for one site or all sites.
//!
//! One file contains responses, manifests, learned plans, delta bases and the mirror; the deletion leaves no
//! trace of them in the file. Data that several devices contributed to or share remains unless only this
//! device requested it.
use longhaul_cache::{Forget, ForgetWhat, Owner, Whose};
use longhaul_session as session;
use longhaul_types::ClientId;

use crate::session::context::SessionContext;

/// Returns once the data is deleted from the file and from memory.
pub(super) async fn forget(context: &SessionContext, wanted: &session::Forget) {
    let client = wanted.client.map(ClientId);
    let whose = match client {
        Some(client) => Whose::Client(Owner::of_device(&context.device, client)),
        None => Whose::Device(*context.device.as_bytes()),
    };
    let what = match &wanted.site {
        Some(domain) => ForgetWhat::Site(domain.to_ascii_lowercase()),
        None => ForgetWhat::All,
    };
    // First end the page loads, which would store the data again.
    context.bundles.end(client, wanted.site.as_deref());
    context.gateway.store.forget(Forget { whose, what }).await;
    let bundles = context.bundles.context();
    bundles.bases.reload();
    bundles.mirror.reload().await;
}
