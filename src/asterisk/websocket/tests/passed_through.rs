//! Opus, which Asterisk passes through.

use super::*;
use crate::audio::opus::{Heard, Reader, Writer};

const FORMAT: Format = Format::SLIN16;

/// A leg of Opus and its Asterisk, which announces frames of no size, as it does.
pub(super) async fn opus_call(lab: &Lab) -> (MediaLeg, Asterisk) {
    let server = Server::start().await;
    let url = server.url();
    let (leg, asterisk) =
        tokio::join!(lab.hub.websocket(FORMAT).connect(&url, CHANNEL, Coding::Opus, PATIENCE), async {
            let mut asterisk = server.connection().await;
            asterisk.say(start(CHANNEL, "opus", 0)).await;
            asterisk
        });
    (leg.expect("a leg"), asterisk)
}

/// Packets of a phone: a buzz.
fn packets(count: u16) -> Vec<Bytes> {
    let mut writer = Writer::new().unwrap();
    let frame: Vec<u8> = (0..320_i16).flat_map(|at| (at % 40 * 200 - 4_000).to_le_bytes()).collect();
    (0..count).map(|_| writer.packet(&frame).unwrap()).collect()
}

/// T21: one message is one packet.
#[tokio::test]
async fn the_call_hears_samples_and_the_caller_packets_one_a_message() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = opus_call(&lab).await;
    assert_eq!(leg.format, FORMAT);
    let mut reader = Reader::new().unwrap();
    for packet in packets(10) {
        asterisk.plays(packet.clone()).await;
        let Heard::Audio(expected) = reader.audio(&packet) else { panic!("a packet") };
        assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(expected)));
    }
    let mut phone = Reader::new().unwrap();
    for number in 0..10 {
        assert!(leg.sender.play(audio(FORMAT, number)));
        let Some(Message::Binary(packet)) = asterisk.message().await else { panic!("a packet a frame") };
        let Heard::Audio(heard) = phone.audio(&packet) else { panic!("what was sent is no Opus") };
        assert_eq!(heard.len(), FORMAT.frame_bytes());
    }
    assert!(!leg.sender.play(audio(Format::SLIN8, 1)), "a frame of another length");
    assert_eq!(lab.counters.discarded(Discard::FrameSize).get(), 1);
    assert_eq!(lab.counters.opus(OpusEnd::Spoken).get(), 1);
    assert_eq!(
        (lab.counters.sent(Transport::WebSocket).get(), lab.counters.received(Transport::WebSocket).get()),
        (10, 10)
    );
    drop(leg);
    lab.is_idle().await;
}

#[tokio::test]
async fn what_is_no_packet_is_counted_and_made_up_for() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = opus_call(&lab).await;
    for message in [&packets(1)[0][..], &[], &[0xff; 40], &[0x48; 9_000], &packets(1)[0][..]] {
        asterisk.plays(Bytes::copy_from_slice(message)).await;
        let Some(MediaEvent::Audio(heard)) = event(&mut leg).await else { panic!("{} bytes", message.len()) };
        assert_eq!(heard.len(), FORMAT.frame_bytes(), "{} bytes", message.len());
    }
    assert_eq!(lab.counters.opus_concealed().get(), 3);
    assert_eq!(lab.counters.discarded(Discard::Malformed).get(), 3);
}

/// T21: Asterisk answers FLUSH_MEDIA with "not supported in passthrough mode".
#[tokio::test]
async fn who_interrupts_flushes_nothing_and_silence_alone_is_left_out() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = opus_call(&lab).await;
    asterisk.say(json!({ "event": "STATUS", "channel_id": "c", "queue_length": USUAL_QUEUE + 2 })).await;
    asterisk.plays(packets(1)[0].clone()).await;
    event(&mut leg).await;
    assert!(leg.sender.flush(), "that little is heard on");
    for frame in [audio(FORMAT, 1), silence(FORMAT), audio(FORMAT, 2)] {
        assert!(leg.sender.play(frame));
    }
    assert_eq!(lab.counters.discarded(Discard::Behind).get(), 1, "what waits there is still too much");
    drop(leg);
    let mut messages = Vec::new();
    while let Some(message) = asterisk.message().await {
        messages.push(message);
    }
    let texts = messages.iter().filter(|message| message.is_text()).count();
    let packets = messages.iter().filter(|message| message.is_binary()).count();
    assert_eq!((texts, packets), (0, 2));
}

/// T21: much waits, and is heard unless its channel goes.
#[tokio::test]
async fn who_interrupts_while_much_waits_is_told_to_take_another_leg() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = opus_call(&lab).await;
    for (waits, told) in [(HEARD_ON_MAX, 0), (HEARD_ON_MAX + 1, 1_020), (1, 0)] {
        asterisk.say(json!({ "event": "STATUS", "channel_id": "c", "queue_length": waits })).await;
        assert_eq!(hub::event(&mut leg).await, Some(MediaEvent::Waits(Duration::from_millis(told))), "{waits}");
        assert_eq!(leg.sender.flush(), told == 0, "{waits}");
    }
}

/// T21: far behind.
#[tokio::test]
async fn an_asterisk_that_is_full_cannot_be_emptied_and_the_leg_closes_for_another_one() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = opus_call(&lab).await;
    asterisk.say(r#"{"event":"MEDIA_XOFF","channel_id":"c"}"#).await;
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Closed));
    assert!(!leg.sender.play(audio(FORMAT, 1)));
    drop(leg);
    while asterisk.message().await.is_some() {}
    lab.is_idle().await;
}

#[tokio::test]
async fn a_connection_of_another_codec_is_no_leg() {
    let lab = Lab::start().await;
    for (coding, format, size) in
        [(Coding::Opus, "slin16", 640), (Coding::NoOpus, "opus", 0), (Coding::Plain, "opus", 0)]
    {
        let server = Server::start().await;
        let url = server.url();
        let (leg, ()) = tokio::join!(lab.hub.websocket(FORMAT).connect(&url, CHANNEL, coding, PATIENCE), async {
            let mut asterisk = server.connection().await;
            asterisk.say(start(CHANNEL, format, size)).await;
            while asterisk.message().await.is_some() {}
        });
        assert!(leg.is_none(), "{coding:?} {format}");
    }
    assert_eq!(lab.counters.refused(Refusal::NotAnId).get(), 3);
    assert_eq!((lab.counters.opus(OpusEnd::Spoken).get(), lab.counters.opus(OpusEnd::NotSpoken).get()), (1, 1));
    lab.is_idle().await;
}
