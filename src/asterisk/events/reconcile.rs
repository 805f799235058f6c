//! After events were missed: bringing our picture back to the truth.
//!
//! While the socket was down channels came and went without a word. Two looks settle it. Before
//! connecting, the callers who are in our application are noted: no event will tell of those without
//! a call. They cannot be noted later, when a caller who has just come in would look the same.
//! After connecting, channels of calls are looked up: what is missing then has gone, and whatever
//! goes from now on is told by events. So are their bridges: a call whose bridge is gone, or whose caller or media channel is
//! out of it, has silence both ways, and gets another path.

use super::{
    bridging::Bridged,
    router::{Chore, EventRouter},
};
use crate::{
    asterisk::ari::{Application, AriClient, AriError, BridgeInfo, ChannelInfo},
    facts::CallId,
};
use futures_util::{StreamExt as _, future::ready};
use std::collections::{HashMap, HashSet};

/// The callers in our application. To be asked before the events socket connects.
pub(super) async fn in_application(ari: &AriClient) -> Result<Vec<String>, AriError> {
    let application = ari.application().await?;
    let channels = application.map(|application| application.channel_ids).unwrap_or_default();
    Ok(channels.into_iter().filter(|channel| !ari.names().is_ours(channel)).collect())
}

/// What no event tells while another engine has our application: calls whose caller is no longer in it are over.
pub(super) async fn notice_lost(ari: &AriClient, router: &EventRouter) -> Result<(), AriError> {
    let present = router.present();
    if !present.is_empty() {
        let ours = channels_of(ari.application().await?);
        let lost = present.iter().filter(|stay| !ours.contains(&stay.channel));
        lost.for_each(|stay| router.lost(stay));
    }
    Ok(())
}

/// Whether another engine of our name has calls, which would end if we took the application from it.
pub(super) async fn others_have_calls(ari: &AriClient, router: &EventRouter) -> Result<bool, AriError> {
    let channels = ari.list_channels().await?;
    Ok(channels.iter().any(|channel| ari.names().is_ours(&channel.id) && !router.knows(&channel.id)))
}

fn channels_of(application: Option<Application>) -> HashSet<String> {
    application.map(|application| application.channel_ids).unwrap_or_default().into_iter().collect()
}

/// Callers whom Asterisk is asked about at the same time.
const AT_ONCE: usize = 8;

/// Asks Asterisk which callers have their call on hold, since an event about it may have been lost. A caller on hold is neither
/// heard nor spoken to: where Asterisk cannot tell, the call counts as not on hold.
async fn reconcile_hold(ari: &AriClient, router: &EventRouter) {
    let asked = router.callers().into_iter().map(|(stay, holds)| async move {
        let held = ari.is_on_hold(&stay.channel).await.unwrap_or(false);
        router.settle_held(&stay, holds, held);
    });
    futures_util::stream::iter(asked).buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// To be asked while events flow; they are dispatched meanwhile.
pub(super) async fn reconcile(
    ari: &AriClient,
    router: &EventRouter,
    before: Vec<String>,
) -> Result<Vec<Chore>, AriError> {
    // In this order: a channel that began after the first line cannot be taken for a lost one, and
    // one that a call made or removed in the meantime cannot be taken for an orphan.
    let present = router.present();
    let (dialled, pairs, bridged) = (router.dialled(), router.pairs(), router.bridged());
    let (unanswered, ringing) = (router.unanswered(), router.ringing_parties());
    let (application, channels, bridges) =
        futures_util::try_join!(ari.application(), ari.list_channels(), ari.list_bridges())?;
    let ours = channels_of(application);

    let (mut known, mut lost) = (HashSet::new(), 0);
    for stay in &present {
        known.insert(stay.channel.clone());
        if !ours.contains(&stay.channel) {
            router.lost(stay);
            lost += 1;
        }
    }
    let missing: Vec<_> =
        bridged.into_iter().filter(|call| call.is_of(&ours) && !stands(ari, call, &bridges)).collect();
    let live = |media: &str| known.contains(media) || router.knows(media);

    let by_id: HashMap<&str, &ChannelInfo> = channels.iter().map(|channel| (&*channel.id, channel)).collect();
    for channel in &dialled {
        router.settle_dialled(channel, by_id.get(&**channel).copied());
    }
    let answered =
        unanswered.iter().filter_map(|channel| router.settle_unanswered(channel, by_id.get(&**channel).copied()));
    let parties = ringing.iter().filter_map(|id| router.settle_party(id, by_id.get(&**id).copied()));
    let answered: Vec<Chore> = answered.chain(parties).collect();
    let mut chores = reconcile_pairs(ari, router, (&pairs, &dialled), &bridges, &by_id);
    for channel in &channels {
        // A party of a pair is known by now.
        if ari.names().is_ours(&channel.id) && !live(&channel.id) {
            chores.push(Chore::RemoveChannel(channel.id.clone()));
        }
    }
    for bridge in bridges {
        let call = ari.names().call_of_bridge(&bridge.id);
        if call.is_some_and(|call| !live(&ari.names().media_channel(call))) {
            chores.push(Chore::RemoveBridge(bridge.id));
        }
    }
    let removed = chores.len();
    let stranded = before.into_iter().filter(|channel| ours.contains(channel) && !router.knows(channel));
    let offered: Vec<_> = stranded.map(|channel| router.orphan(channel)).collect();
    tracing::info!(
        calls = present.len(),
        lost,
        orphans = removed,
        stranded = offered.len(),
        "reconciled with Asterisk"
    );
    chores.extend(answered.into_iter().chain(offered.into_iter().flatten()));
    // What takes requests of its own comes last: what was told above is acted upon while it is fresh.
    reconcile_hold(ari, router).await;
    reconcile_bridges(ari, router, missing).await;
    Ok(chores)
}

/// Tells calls that their bridge is gone or their two not in it. Each is asked for once more: a caller may have
/// been with somebody else for a moment, of which nothing is left to be seen.
async fn reconcile_bridges(ari: &AriClient, router: &EventRouter, missing: Vec<Bridged>) {
    let asked = missing.into_iter().map(|call| async move {
        // One that cannot be asked for is looked at after the next gap, and its silence is noticed before.
        let members = ari.bridge_members(call.call).await.ok()?;
        let whole = members.is_some_and(|members| call.are_in(&members));
        (!whole && router.unbridged(&call)).then_some(())
    });
    let unbridged = futures_util::stream::iter(asked).buffer_unordered(AT_ONCE).filter_map(ready).count().await;
    if unbridged > 0 {
        tracing::warn!(calls = unbridged, "calls were not in their bridges; they get another audio path");
    }
}

/// Whether a call's bridge is there, with caller and media channel in it.
fn stands(ari: &AriClient, call: &Bridged, bridges: &[BridgeInfo]) -> bool {
    let id = ari.names().bridge(call.call);
    bridges.iter().find(|bridge| bridge.id == id).is_some_and(|bridge| call.are_in(&bridge.channels))
}

/// Callers who were handed on, by this process or an earlier one: two in a bridge are left alone and
/// watched from now on, one by itself is hung up. `before` are the pairs and the channels being called as
/// they were before Asterisk was asked.
fn reconcile_pairs(
    ari: &AriClient,
    router: &EventRouter,
    (before, dialled): (&[(CallId, [String; 2])], &[String]),
    bridges: &[BridgeInfo],
    channels: &HashMap<&str, &ChannelInfo>,
) -> Vec<Chore> {
    let mut chores = Vec::new();
    let mut whole = HashSet::new();
    for bridge in bridges {
        let Some(call) = ari.names().call_of_pair(&bridge.id) else { continue };
        // In the middle of being handed on: whoever does that sees to it.
        let is_for = |channel: &String| ari.names().call_of_dialled(channel) == Some(call);
        let busy = router.dialled().iter().any(is_for);
        // Or it was, when Asterisk was asked: its answer may be older than the outcome.
        let was_busy = dialled.iter().any(is_for);
        match &*bridge.channels {
            _ if busy => drop(whole.insert(call)),
            [one, two, ..] => {
                whole.insert(call);
                if !before.iter().any(|(known, _)| *known == call) {
                    router.hand_on(call, [one.clone(), two.clone()]);
                }
            }
            [] if was_busy => drop(whole.insert(call)),
            [alone] => {
                if !router.release(call) && was_busy {
                    // Taken back: the caller is with the agent again.
                    continue;
                }
                chores.push(Chore::EndPair { call, other: alone.clone() });
            }
            [] => {
                router.release(call);
                chores.push(Chore::RemoveBridge(bridge.id.clone()));
            }
        }
    }
    for (call, parties) in before.iter().filter(|(call, _)| !whole.contains(call)) {
        if router.release(*call) {
            let left = parties.iter().filter(|party| channels.contains_key(&***party));
            chores.extend(left.map(|party| Chore::EndPair { call: *call, other: party.clone() }));
        }
    }
    chores
}
