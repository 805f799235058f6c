//! Limits, whole samples and heads of files, out of memory, where the clock can be stopped.

use super::*;
use crate::speech::stream::{self, Patience, Sounds, limited};
use proptest::prelude::*;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(2);

fn pieces(bytes: &[&[u8]]) -> Vec<Result<Bytes, VoiceError>> {
    bytes.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect()
}

fn told_of(text: &str, sounds: Sounds) -> Sounds {
    limited(text.into(), 100, FIRST, async move |_| Ok(sounds))
}

fn some(bytes: &[&[u8]]) -> Sounds {
    stream::raw(streams::iter(pieces(bytes)), Format::SLIN8)
}

#[tokio::test(start_paused = true)]
async fn a_voice_that_stalls_is_given_up_before_its_first_sound_and_between_two() {
    let began = Instant::now();
    let silent = limited("Hello.".into(), 100, FIRST, |_| std::future::pending());
    let (_, _, end) = all_of(silent).await;
    assert!(matches!(end, Some(VoiceError::TooSlow(FIRST))), "{end:?}");
    assert_eq!(began.elapsed(), FIRST);
    // A head is no sound yet.
    let (began, head) = (Instant::now(), pieces(&[b"RIFF\xff\xff\xff\xffWAVE"]));
    let (_, _, end) = all_of(told_of("Hello.", stream::wav(streams::iter(head).chain(streams::pending())))).await;
    assert!(matches!(end, Some(VoiceError::TooSlow(FIRST))), "{end:?}");
    assert_eq!(began.elapsed(), FIRST);
    let began = Instant::now();
    let (_, bytes, end) = all_of(told_of("Hello.", some(&[&[1, 2], &[3, 4]]).chain(streams::pending()).boxed())).await;
    assert_eq!(bytes, [1, 2, 3, 4]);
    assert!(matches!(end, Some(VoiceError::TooSlow(_))), "{end:?}");
    assert_eq!(began.elapsed(), Duration::from_millis(2_500));
}

/// Speech is made faster than it is heard, so whoever takes it is the slow one.
#[tokio::test(start_paused = true)]
async fn a_voice_is_not_blamed_while_its_sound_waits_to_be_taken() {
    let mut sounds = told_of("Hello.", some(&[&[1, 2], &[3, 4], &[5, 6]]));
    for _ in 0..3 {
        sounds.next().await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    assert!(sounds.next().await.is_none());
}

#[tokio::test]
async fn a_voice_without_an_end_is_stopped() {
    let endless = streams::repeat_with(|| Ok(Bytes::from_static(&[0; 1 << 16])));
    let (_, bytes, end) = all_of(told_of("Hello.", stream::raw(endless, Format::ULAW))).await;
    assert!(matches!(end, Some(VoiceError::Remote(Fault::TooLarge(stream::BYTES_MAX)))), "{end:?}");
    assert_eq!(bytes.len(), stream::BYTES_MAX);
}

#[tokio::test]
async fn an_answer_without_a_sound_is_a_fault_unless_there_was_nothing_to_say() {
    for nothing in [&[][..], &[&[][..]], &[&[7][..]]] {
        let (_, _, end) = all_of(told_of("Hello.", some(nothing))).await;
        assert!(matches!(end, Some(VoiceError::NoSound(ClipError::Empty))), "{nothing:?}: {end:?}");
    }
    let (_, bytes, end) = all_of(told_of("...", some(&[&[1, 2]]))).await;
    assert!(bytes.is_empty() && end.is_none(), "{end:?}");
    let (_, _, end) = all_of(told_of(&"a".repeat(101), some(&[&[1, 2]]))).await;
    assert!(matches!(end, Some(VoiceError::TooLong(100))), "{end:?}");
    assert!(all_of(told_of(&"ä".repeat(100), some(&[&[1, 2]]))).await.2.is_none(), "characters, not bytes");
}

#[tokio::test]
async fn a_head_that_does_not_end_is_not_read_on() {
    let endless = streams::once(async { Ok(Bytes::from_static(b"RIFF\xff\xff\xff\xffWAVELIST\xff\xff\xff\x7f")) })
        .chain(streams::repeat_with(|| Ok(Bytes::from_static(&[0; 4_096]))));
    let (_, _, end) = all_of(told_of("Hello.", stream::wav(endless))).await;
    assert!(matches!(end, Some(VoiceError::NoSound(ClipError::Wav(_)))), "{end:?}");
}

fn wav(length: u32, samples: &[u8]) -> Vec<u8> {
    let mut wav =
        b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data".to_vec();
    wav.extend(length.to_le_bytes());
    wav.extend(samples);
    wav
}

proptest! {
    #[test]
    fn a_sound_that_is_cut_anywhere_on_its_way_is_the_same_sound(
        cuts in prop::collection::vec(0..146_usize, 0..20),
        has_head in any::<bool>(),
    ) {
        let samples: Vec<u8> = (0..101).collect();
        let whole = if has_head { wav(u32::MAX, &samples) } else { samples.clone() };
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).chain([0, whole.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|ends| &whole[ends[0]..ends[1]]).collect();
        let bytes = streams::iter(super::streaming::pieces(&pieces));
        let sounds = if has_head { stream::wav(bytes) } else { stream::raw(bytes, Format::SLIN8) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (format, heard, end) = runtime.block_on(all_of(told_of("Hello.", sounds)));
        prop_assert!(end.is_none(), "{:?}", end);
        prop_assert_eq!(format, Some(Format::SLIN8));
        prop_assert_eq!(heard, &samples[..100], "half a sample is none");
    }
}

#[tokio::test]
async fn what_follows_the_samples_of_a_file_is_not_heard() {
    let samples: Vec<u8> = (0..100).collect();
    for (written, expected) in [(100, 100), (u32::MAX, 122), (0, 122)] {
        let file = [wav(written, &samples), b"LIST\x0e\0\0\0INFOINAM\x02\0\0\0a\0".to_vec()].concat();
        let whole: Vec<&[u8]> = file.chunks(7).collect();
        let (_, heard, _) = all_of(told_of("Hello.", stream::wav(streams::iter(pieces(&whole))))).await;
        assert_eq!(heard.len(), expected, "{written} bytes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sentence_is_made_of_its_pieces_and_asked_for_again_when_that_may_help() {
    let patience = |retries: u32| -> Patience {
        serde_json::from_value(json!({ "timeout_ms": FIRST.as_millis() as u64, "retries": retries })).unwrap()
    };
    let asked = AtomicUsize::new(0);
    let broken = || streams::iter([Err(Fault::Closed(None).into())]).boxed();
    let hiccup = |_| if asked.fetch_add(1, SeqCst) == 0 { broken() } else { some(&[&[1, 2, 3], &[4]]) };
    let clip = stream::sentence(patience(2), hiccup).await.unwrap();
    assert_eq!((clip.render(Format::SLIN8).as_ref(), asked.load(SeqCst)), (&[1, 2, 3, 4][..], 2));
    for retries in [2, 0] {
        asked.store(0, SeqCst);
        let never = |_| {
            asked.fetch_add(1, SeqCst);
            broken()
        };
        let error = stream::sentence(patience(retries), never).await.unwrap_err();
        assert_eq!((error.label(), asked.load(SeqCst)), ("unreachable", retries as usize + 1));
    }
    let began = Instant::now();
    let error = stream::sentence(patience(2), |_| streams::pending().boxed()).await.unwrap_err();
    assert!(matches!(error, VoiceError::TooSlow(FIRST)) && began.elapsed() == FIRST, "{error}");
}
