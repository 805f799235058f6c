//! The Asterisk side: ARI for control, and the media legs that carry the audio.
//!
//! - [`ari`]: REST requests; [`events`]: the events socket, routed by channel
//! - [`setup`]: answer → media → bridge; [`leg`]: what stands then, and its undoing
//! - [`vitals`]: how a leg does, judged by what arrives; [`repair`]: another leg for a call whose own broke
//! - [`probe`]: calls of our own, to hear whether sound passes
//! - [`dial`]: ringing others for a caller; [`extension_status`]: a tool that asks whether they are free
//! - [`media`]: what every media leg offers; [`audiosocket`], [`rtp`], [`websocket`]: the legs; [`hub`]: where
//!   legs come from

pub mod ari;
pub mod audiosocket;
pub mod counters;
pub mod dial;
pub mod events;
pub mod extension_status;
pub mod hub;
pub mod leg;
pub mod media;
mod ports;
pub mod probe;
mod pulse;
pub mod repair;
pub mod rtp;
pub mod setup;
pub mod vitals;
pub mod websocket;

#[cfg(test)]
mod fake;
