//! What concerns one server happens one after the other, what concerns others meanwhile.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OwnedMutexGuard;

/// By the servers' ids among the MCP servers. Who waits or is inside keeps a lane, so there are never more than of those.
#[derive(Default)]
pub(super) struct Lanes(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Lanes {
    /// Waits for those before; the next one comes when this is dropped.
    pub async fn enter(&self, id: &str) -> OwnedMutexGuard<()> {
        let lane = {
            let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
            Arc::clone(lanes.entry(id.to_owned()).or_default())
        };
        lane.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn one_waits_for_its_like_and_for_nobody_else() {
        let lanes = Lanes::default();
        let inside = lanes.enter("market").await;
        assert!(lanes.enter("tax").now_or_never().is_some());
        assert!(lanes.enter("market").now_or_never().is_none());
        drop(inside);
        let _again = lanes.enter("market").now_or_never().expect("it is free");
        assert_eq!(lanes.0.lock().unwrap().len(), 1, "nobody is in the others");
    }
}
