//! Forgetting at a user's word: what the gateway keeps of a device, of one client or all, of one site or all.
//!
//! Responses, manifests, learned plans, what may be a base and what the agent holds are in one file, which forgets them so
//! that nothing of them is in it any more. What many devices taught or share stays unless nobody else asked for it.
use longhaul_cache::{Forget, ForgetWhat, Owner, Whose};
use longhaul_protocol::session;
use longhaul_types::ClientId;

use crate::session::SessionContext;

/// Returns when it is forgotten, in the file as in memory.
pub(crate) async fn forget(context: &SessionContext, wanted: &session::Forget) {
    let client = wanted.client.map(ClientId);
    let whose = match client {
        Some(client) => Whose::Client(Owner::of_device(&context.device, client)),
        None => Whose::Device(*context.device.as_bytes()),
    };
    let what = match &wanted.site {
        Some(domain) => ForgetWhat::Site(domain.to_ascii_lowercase()),
        None => ForgetWhat::All,
    };
    // First what would write it anew.
    context.bundles.end(client, wanted.site.as_deref());
    context.gateway.store.forget(Forget { whose, what }).await;
    let bundles = context.bundles.context();
    bundles.bases.reload();
    bundles.mirror.reload().await;
}
