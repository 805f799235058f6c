//! Any text as what Asterisk says, and any messages as a caller's Opus.

use super::{
    control::{Event, WORDS_MAX},
    is_of,
};
use crate::audio::{
    Format,
    opus::{Heard, Reader, SAMPLES_MAX, Writer},
};

/// Each line is a message. The first byte says what the leg expects of the first of a connection.
pub fn fuzz(data: &[u8]) {
    let Some((&manner, text)) = data.split_first() else { return };
    let format = [Format::SLIN8, Format::SLIN16, Format::SLIN48, Format::ULAW][usize::from(manner) % 4];
    let opus = manner >= 128;
    for line in text.split(|&byte| byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let event = Event::read(&line);
        let accepted = is_of(&line, "media-1", format, opus).is_ok();
        match event {
            Ok(Event::Start { channel_id, format: name, optimal_frame_size: size }) => {
                let ours = channel_id == "media-1" && name == if opus { "opus" } else { format.name() };
                let cut = !opus && (size == 0 || !format.frame_bytes().is_multiple_of(size));
                assert_eq!(accepted, ours && !cut, "{line}");
            }
            Ok(Event::Error { error_text }) => {
                assert!(!accepted && error_text.chars().count() <= WORDS_MAX, "a fault tells too much: {line}");
            }
            Ok(_) | Err(_) => assert!(!accepted, "no beginning: {line}"),
        }
    }
}

/// Each message has its length before it; 255 stands for all that is left.
pub fn fuzz_opus(mut data: &[u8]) {
    let (Ok(mut reader), Ok(mut writer)) = (Reader::new(), Writer::new()) else { return };
    let Ok(mut phone) = Reader::new() else { return };
    while let Some((&length, rest)) = data.split_first() {
        let length = if length == u8::MAX { rest.len() } else { rest.len().min(length.into()) };
        let (message, rest) = rest.split_at(length);
        data = rest;
        let (audio, concealed) = match reader.audio(message) {
            Heard::Audio(audio) => (audio, false),
            Heard::Concealed(audio) => (audio, true),
        };
        assert!((2..=2 * SAMPLES_MAX).contains(&audio.len()) && audio.len().is_multiple_of(2), "{} bytes", audio.len());
        assert!(!concealed || audio.len() == Format::SLIN16.frame_bytes(), "it stands for 20 ms");
        assert!(!message.is_empty() || concealed, "nothing is no packet");
        for frame in audio.chunks_exact(Format::SLIN16.frame_bytes()) {
            let packet = writer.packet(frame).expect("whatever is heard can be said");
            let Heard::Audio(again) = phone.audio(&packet) else { panic!("what is written cannot be read") };
            assert_eq!(again.len(), frame.len());
        }
    }
}
