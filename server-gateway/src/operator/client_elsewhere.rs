//! Systems without Unix sockets: the operator's commands change the files.
use std::path::Path;

use super::{changes::Change, messages::DeviceList, orders::Order};

/// Exists only on Unix.
#[derive(Debug)]
pub(crate) enum RunningGateway {}

/// Errors of giving an order to a running gateway.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {}

impl RunningGateway {
    #[expect(clippy::unused_async, reason = "the same signature as on Unix")]
    pub(crate) async fn find(_: &Path, _: Option<&Path>) -> Result<Option<Self>, ClientError> {
        Ok(None)
    }

    #[expect(clippy::unused_async, reason = "the same signature as on Unix")]
    pub(crate) async fn order<C: Change>(&self, _: &C) -> Result<C::Reply, ClientError> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as on Unix")]
    pub(crate) async fn tell<O: Order>(&self, _: &O) -> Result<O::Reply, ClientError> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as on Unix")]
    pub(crate) async fn devices(&self) -> Result<DeviceList, ClientError> {
        match *self {}
    }
}
