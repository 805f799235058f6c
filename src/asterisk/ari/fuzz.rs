//! Any body as an answer of Asterisk: the first byte says to what.

use super::{MESSAGE_CHARS_MAX, operations, refusal};
use crate::asterisk::ari::{Application, BridgeInfo, ChannelInfo, Fault, Operation, RtpPackets};
use reqwest::StatusCode;

pub fn fuzz(data: &[u8]) {
    let Some((&which, body)) = data.split_first() else { return };
    let status = StatusCode::from_u16(400 + u16::from(which)).expect("three digits");
    if let Fault::Refused { message, .. } | Fault::Conflict { message, .. } = refusal(status, body) {
        assert!(message.chars().count() <= MESSAGE_CHARS_MAX);
    }
    let channels = operations::read::<Vec<ChannelInfo>>(Operation::ListChannels, body);
    let bridges = operations::read::<Vec<BridgeInfo>>(Operation::ListBridges, body);
    let told = (channels.as_ref().map_or(0, Vec::len), bridges.as_ref().map_or(0, Vec::len));
    assert!(told.0.max(told.1) <= body.len(), "more entries than bytes: {told:?}");
    let packets = operations::read::<RtpPackets>(Operation::RtpStatistics, body);
    let application = operations::read::<Application>(Operation::Application, body);
    let errors = [channels.err(), bridges.err(), packets.err(), application.err()];
    for error in errors.into_iter().flatten() {
        // Bodies hold callers' numbers.
        let shown = error.to_string();
        assert!(shown.len() < 200, "an error repeats the answer: {shown}");
    }
    if let Ok(variables) = serde_json::from_slice(body)
        && let Some(peer) = operations::rtp_peer(&variables)
    {
        assert!(!peer.ip().is_unspecified() && peer.port() != 0, "nobody can send to {peer}");
    }
}
