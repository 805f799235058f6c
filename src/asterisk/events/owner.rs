//! Which engine has the application, where several have its name.
//!
//! ARI tells an engine that its application was taken, and not when it is free again while channels are left in it. So the engine
//! that has it says so again and again in a global variable of Asterisk, and the one that lost it looks there.

use super::Timing;
use crate::asterisk::ari::{AriClient, AriError};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// Heartbeat of an engine: its id, and a number that grows.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    id: Uuid,
}

/// Owner of the application, as far as its heartbeat tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// The application is free.
    Free,
    /// It lives.
    Lives,
    /// It has said so, and says it no more.
    Silent,
    /// It never says anything.
    Unknown,
}

/// The last word of the other engine, and when it was new.
#[derive(Debug, Default)]
pub(super) struct LastWord(Option<(String, Instant)>);

impl Owner {
    pub(super) fn new() -> Self {
        Self { id: Uuid::new_v4() }
    }

    fn variable(ari: &AriClient) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        format!("OFFHOOK_OWNER_{}", ari.names().app().chars().map(plain).collect::<String>())
    }

    /// Says that this engine has the application, for as long as it is polled.
    pub(super) async fn beat(&self, ari: &AriClient, timing: &Timing) {
        let variable = Self::variable(ari);
        for number in 0_u64.. {
            sleep(timing.beat_every).await;
            if let Err(error) = ari.set_global(&variable, &format!("{}.{number}", self.id)).await {
                tracing::debug!(%error, "another engine of this name would not know that this one lives");
            }
        }
    }

    /// Looks what has become of the engine that took the application.
    pub(super) async fn look(
        &self,
        ari: &AriClient,
        last: &mut LastWord,
        timing: &Timing,
    ) -> Result<Standing, AriError> {
        if ari.application().await?.is_none() {
            return Ok(Standing::Free);
        }
        let word = ari.global(&Self::variable(ari)).await?;
        // Ours is the last one where the other has none.
        if word.is_empty() || word.starts_with(&self.id.to_string()) {
            return Ok(Standing::Unknown);
        }
        let since = match &last.0 {
            Some((known, since)) if *known == word => *since,
            _ => {
                let now = Instant::now();
                last.0 = Some((word, now));
                now
            }
        };
        Ok(if since.elapsed() < timing.owner_gone_after { Standing::Lives } else { Standing::Silent })
    }
}
