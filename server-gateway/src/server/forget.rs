//! Deletion of a user's data on `Forget`: of a device or one of its clients, for one site or all sites.
//!
//! One file contains responses, manifests, learned plans, delta bases and the mirror; the deletion leaves no
//! trace of them in the file. Data that several devices contributed to or share remains unless only this
//! device requested it.
use longhaul_cache::{Deletion, DeletionScope, Owner, OwnerSelection};
use longhaul_session as session;

use crate::session::context::SessionContext;

/// Returns once the data is deleted from the file and from memory.
pub(super) async fn forget(context: &SessionContext, wanted: &session::Forget) {
    let client = wanted.client;
    let whose = match client {
        Some(client) => OwnerSelection::Client(Owner::of_device(&context.device, client)),
        None => OwnerSelection::Device(*context.device.as_bytes()),
    };
    let site = wanted.site.as_deref().map(str::to_ascii_lowercase);
    // First end the page loads, which would store the data again.
    context.page_loads.end(client, site.as_deref());
    context
        .gateway
        .lessons
        .discard(&context.device, client, site.as_deref());
    let what = site.map_or(DeletionScope::All, DeletionScope::Site);
    context.gateway.store.forget(Deletion { whose, what }).await;
    let page_loads = context.page_loads.context();
    page_loads.bases.reload();
    page_loads.mirror.reload().await;
}
