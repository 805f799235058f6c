//! Any packets as a caller's, at any times.

use super::{
    incoming::{HOLD, Incoming},
    outgoing::{BEHIND_MAX, Numbering, Packetizer},
};
use crate::audio::Format;
use rtp_rs::RtpReader;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// The first byte chooses the leg. Then each packet has its length and the milliseconds since the last one before it.
pub fn fuzz(data: &[u8]) {
    let Some((&manner, mut rest)) = data.split_first() else { return };
    let format = [Format::ULAW, Format::ALAW, Format::SLIN16][usize::from(manner) % 3];
    let mut incoming = Incoming::new(format);
    let (mut now, mut ready, mut heard, mut came) = (Instant::now(), VecDeque::new(), 0, 0);
    let (mut received, mut concealed) = (0, 0);
    while let [length, milliseconds, more @ ..] = rest {
        now += Duration::from_millis((*milliseconds).into());
        incoming.late(now, &mut ready);
        let (packet, more) = more.split_at(usize::from(*length).min(more.len()));
        rest = more;
        came += packet.len();
        let _ = incoming.take(packet, now, &mut ready);
        assert!(ready.len() <= 8, "{} pieces at once", ready.len());
        assert!(
            incoming.deadline().is_none_or(|deadline| deadline > now && deadline <= now + HOLD),
            "it waits for ever"
        );
        for audio in ready.drain(..) {
            assert_eq!(audio.len() % format.bytes_per_sample(), 0, "half a sample");
            send(format, &audio);
            heard += audio.len();
        }
        let tally = incoming.tally();
        received += tally.received;
        concealed += tally.concealed;
        assert!(concealed <= 2 * received, "more is made up than came");
    }
    // G.722 becomes four times as many bytes, and two repetitions may follow each packet.
    assert!(heard <= 12 * came, "{heard} bytes of {came}");
}

/// What was heard can be sent, and is one packet.
fn send(format: Format, audio: &[u8]) {
    let mut packets = Packetizer::new(format, Numbering::random());
    let (sequence, timestamp) = (packets.sequence, packets.timestamp);
    let Some(packet) = packets.packet(audio) else { return };
    let reader = RtpReader::new(packet).expect("a packet that can be read");
    assert_eq!(u16::from(reader.sequence_number()), sequence);
    // Where this program was stalled in between, the timestamp has caught up with the clock.
    let stamped = reader.timestamp();
    let ahead = stamped.wrapping_sub(timestamp);
    assert!(ahead == 0 || (BEHIND_MAX..1 << 31).contains(&ahead), "{ahead} ticks ahead");
    let ticks = reader.payload().len() as u32;
    // G.722 makes one byte of two samples, and of a last one alone.
    assert_eq!(ticks as usize, audio.len().div_ceil(format.rate as usize / 8_000 * format.bytes_per_sample()));
    assert_eq!(packets.timestamp, stamped.wrapping_add(ticks));
}
