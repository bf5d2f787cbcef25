//! Priority classes of streams (docs/protocol/session.md section 2).
use longhaul_types::Priority;

/// Pages and response heads.
pub const PAGE: Priority = Priority::new(1);
/// Objects that the browser needs to render the page.
pub const RENDER: Priority = Priority::new(2);
/// Other objects and interactive tunnels.
pub const OBJECT: Priority = Priority::new(3);
/// Objects below the visible part of the page.
pub const LAZY: Priority = Priority::new(4);
/// Bulk bodies and large uploads.
pub const BULK: Priority = Priority::new(5);
