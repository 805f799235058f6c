//! An AudioSocket peer, or a machine, that has a bad day.

use super::*;
use std::sync::atomic::AtomicBool;

/// Silence that the leg has sent by itself and Asterisk has read, within this time.
async fn silences(asterisk: &mut Framed<TcpStream, Codec>, within: Duration) -> usize {
    let end = Instant::now() + within;
    let mut count = 0;
    while let Ok(Some(Ok(Frame::Audio { .. }))) = tokio::time::timeout_at(end, asterisk.next()).await {
        count += 1;
    }
    count
}

#[tokio::test]
async fn a_frame_that_stalls_in_its_middle_is_heard_whole_and_the_agent_speaks_meanwhile() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = lab.call(Format::SLIN8).await;
    let mut bytes = BytesMut::new();
    tokio_util::codec::Encoder::encode(
        &mut Codec,
        Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 5) },
        &mut bytes,
    )
    .unwrap();
    let rest = bytes.split_off(100);
    asterisk.get_mut().write_all(&bytes).await.unwrap();
    assert!(timeout(Duration::from_millis(100), leg.events.next()).await.is_err(), "half a frame is nothing yet");
    assert!(leg.sender.play(audio(Format::SLIN8, 7)));
    let spoken = Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 7) };
    assert_eq!(loud_frame(&mut asterisk).await, Some(spoken));
    asterisk.get_mut().write_all(&rest).await.unwrap();
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(Format::SLIN8, 5))));
}

#[tokio::test]
async fn a_stream_that_ends_in_the_middle_of_a_frame_is_over_and_the_half_frame_is_not_heard() {
    let lab = Lab::start().await;
    for cut in [1, 2, 3, 100] {
        let (mut leg, mut asterisk) = lab.call(Format::SLIN8).await;
        asterisk.send(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 1) }).await.unwrap();
        let half = [&[0x10, 0x01, 0x40][..], &[9; 200]].concat();
        asterisk.get_mut().write_all(&half[..cut]).await.unwrap();
        drop(asterisk);
        assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(Format::SLIN8, 1))));
        assert_eq!(event(&mut leg).await, Some(MediaEvent::Closed), "{cut} bytes of a frame");
        assert_eq!(event(&mut leg).await, None);
    }
    lab.is_idle().await;
}

/// Asterisk goes on meanwhile: what it has sent waits in the socket, and what is late is sent at once.
#[tokio::test]
async fn a_process_that_is_held_up_for_half_a_second_loses_no_word_of_the_caller_and_no_call() {
    let lab = Lab::start().await;
    let (mut leg, mut asterisk) = lab.call(Format::SLIN8).await;
    for byte in 1..=25 {
        asterisk.send(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, byte) }).await.unwrap();
    }
    // The one thread of this runtime: nothing of the engine runs.
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    for byte in 1..=25 {
        assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(Format::SLIN8, byte))));
    }
    assert!(leg.sender.play(audio(Format::SLIN8, 7)));
    let spoken = Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 7) };
    assert_eq!(loud_frame(&mut asterisk).await, Some(spoken));
}

/// Another program that wants every core. The engine sleeps most of the time, so the system lets it go first.
#[tokio::test]
async fn silence_flows_beside_a_program_that_takes_every_core() {
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
    let done = Arc::new(AtomicBool::new(false));
    #[expect(clippy::disallowed_methods, reason = "they take every core")]
    let hogs: Vec<_> = (0..2 * cores)
        .map(|_| {
            let done = done.clone();
            std::thread::spawn(move || {
                while !done.load(Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let lab = Lab::start().await;
    let (leg, mut asterisk) = lab.call(Format::SLIN16).await;
    let count = silences(&mut asterisk, Duration::from_secs(1)).await;
    done.store(true, Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    // 50 on a machine of its own; Asterisk needs one now and then (see `audiosocket`).
    assert!(count >= 10, "{count} frames in a second");
    drop(leg);
}
