//! The demo caller's voice.

use offhook::{
    audio::{Converter, Encoding, Format},
    config::ProviderConfig,
    remote::program::Program,
};
use std::{io::Cursor, process::Stdio, time::Duration};
use tokio::process::Command;

/// espeak-ng speaks a sentence in a tenth of a second.
const RENDER_MAX: Duration = Duration::from_secs(10);

/// Limit of a rendered sentence: three minutes at espeak-ng's 22 kHz.
const BYTES_MAX: usize = 8 << 20;

/// About -44 dB below full scale: what a voice leaves after its last sound is far below.
const QUIET: u16 = 200;
/// A caller who speaks with the agent's own voice is heard 1.15 times as high, so that both can be told apart.
const RENDERED_HZ: u32 = 16_000;
const PLAYED_HZ: u32 = 18_400;

/// Speaks each text with a configured voice; samples at 8 kHz.
pub async fn speak_all(texts: &[&str], voice: &ProviderConfig) -> anyhow::Result<Vec<Vec<i16>>> {
    let speaker = offhook::speech::build(&voice.kind, &voice.options)
        .map_err(|problems| anyhow::anyhow!("{} cannot speak: {problems:?}", voice.kind))?;
    let mut spoken = Vec::with_capacity(texts.len());
    for text in texts {
        let clip = speaker.voice().speak(text).await?;
        let bytes = clip.render(Format { encoding: Encoding::Linear, rate: RENDERED_HZ });
        spoken.push(on_the_telephone(&bytes, PLAYED_HZ));
    }
    Ok(spoken)
}

/// Speaks each text with espeak-ng; samples at 8 kHz.
pub async fn render_all(texts: &[&str], voice: &str) -> anyhow::Result<Vec<Vec<i16>>> {
    let mut rendered = Vec::with_capacity(texts.len());
    for text in texts {
        rendered.push(render(text, voice).await?);
    }
    Ok(rendered)
}

async fn render(text: &str, voice: &str) -> anyhow::Result<Vec<i16>> {
    let remedy = "the demo needs espeak-ng; `make demo` installs it";
    let mut command = Command::new("espeak-ng");
    command.args(["--stdout", "-v", voice, "-s", "165", "--", text]).stderr(Stdio::piped());
    let program = Program::start(command).map_err(|error| anyhow::anyhow!("{error}: {remedy}"))?;
    let output = program.answer(&[], BYTES_MAX, RENDER_MAX).await?;
    anyhow::ensure!(output.status.success(), "espeak-ng failed: {}", String::from_utf8_lossy(&output.stderr));
    // The header of a stream has no length; the samples follow the 44 bytes of a plain WAV header.
    let mut wav = output.stdout;
    let length = u32::try_from(wav.len().saturating_sub(44))?;
    anyhow::ensure!(length > 0, "espeak-ng said nothing");
    wav[40..44].copy_from_slice(&length.to_le_bytes());
    wav[4..8].copy_from_slice(&(length + 36).to_le_bytes());
    let mut reader = hound::WavReader::new(Cursor::new(wav))?;
    let rate = reader.spec().sample_rate;
    let samples = reader.samples::<i16>().collect::<Result<Vec<_>, _>>()?;
    let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    Ok(on_the_telephone(&bytes, rate))
}

/// These samples at 8 kHz, up to the last one that is heard.
fn on_the_telephone(bytes: &[u8], rate: u32) -> Vec<i16> {
    let mut converter = Converter::new(Format { encoding: Encoding::Linear, rate }, super::caller::FORMAT);
    let mut out = Vec::new();
    converter.push(bytes, &mut out);
    converter.flush(&mut out);
    let mut samples: Vec<i16> = out.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    // The end of the clip is the end of the speech: answers are measured from there.
    let end = samples.iter().rposition(|sample| sample.unsigned_abs() > QUIET).map_or(0, |last| last + 1);
    samples.truncate(end);
    samples
}
