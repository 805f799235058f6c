//! Connections that the dialplan makes.

use super::*;

async fn offered(lab: &mut Lab) -> WalkIn {
    timeout(PATIENCE, lab.walk_ins.recv()).await.expect("offered in time").expect("the hub stands")
}

/// A connection that has said which call it is.
async fn walks_in(lab: &Lab) -> Framed<TcpStream, Codec> {
    let mut asterisk = Framed::new(lab.connect().await, Codec);
    asterisk.send(Frame::Id(Uuid::new_v4())).await.unwrap();
    asterisk
}

/// The next frame of this rate; silence of another one may come before it.
async fn frame_of(asterisk: &mut Framed<TcpStream, Codec>, wanted: u32) -> Bytes {
    loop {
        match frame(asterisk).await {
            Some(Frame::Audio { rate, samples }) if rate == wanted => return samples,
            Some(Frame::Audio { rate: 8_000, samples }) => assert_eq!(samples, audio(Format::SLIN8, 0)),
            other => panic!("{other:?} where {wanted} Hz are spoken"),
        }
    }
}

/// `c(slin16)` and the like; what a configuration cannot name is converted.
#[tokio::test]
async fn a_walk_in_has_the_rate_of_the_first_audio_and_nothing_of_it_is_lost() {
    let mut lab = Lab::start().await;
    for (rate, leg_rate) in [
        (8_000, 8_000),
        (12_000, 8_000),
        (16_000, 16_000),
        (24_000, 24_000),
        (32_000, 24_000),
        (44_100, 24_000),
        (48_000, 48_000),
        (96_000, 48_000),
        (192_000, 48_000),
    ] {
        let mut asterisk = walks_in(&lab).await;
        let spoken = audio(Format { encoding: Encoding::Linear, rate }, 9);
        for _ in 0..3 {
            asterisk.send(Frame::Audio { rate, samples: spoken.clone() }).await.unwrap();
        }
        let mut leg = offered(&mut lab).await.leg;
        let format = Format { encoding: Encoding::Linear, rate: leg_rate };
        assert_eq!(leg.format, format, "a channel of {rate} Hz");
        let first = event(&mut leg).await;
        if rate == leg_rate {
            assert_eq!(first, Some(MediaEvent::Audio(spoken)), "{rate} Hz");
        } else {
            assert!(matches!(first, Some(MediaEvent::Audio(_))), "{rate} Hz: {first:?}");
        }
        assert!(leg.sender.play(audio(format, 7)));
        while frame_of(&mut asterisk, leg_rate).await != audio(format, 7) {}
    }
    lab.is_idle().await;
}

#[tokio::test]
async fn keys_before_the_first_audio_are_no_audio_and_are_told() {
    let mut lab = Lab::start().await;
    let mut asterisk = walks_in(&lab).await;
    asterisk.send(Frame::Digit('5')).await.unwrap();
    asterisk.send(Frame::Audio { rate: 16_000, samples: audio(Format::SLIN16, 9) }).await.unwrap();
    let mut leg = offered(&mut lab).await.leg;
    assert_eq!(leg.format, Format::SLIN16);
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Digit('5')));
    assert_eq!(event(&mut leg).await, Some(MediaEvent::Audio(audio(Format::SLIN16, 9))));
}

/// T1: no channel waits for a frame with its lock held.
#[tokio::test]
async fn a_caller_who_sends_nothing_hears_silence_and_is_with_the_engine_at_8_khz_in_a_fraction_of_a_second() {
    let mut lab = Lab::start().await;
    let (since, mut asterisk) = (Instant::now(), walks_in(&lab).await);
    for _ in 0..5 {
        assert_eq!(frame(&mut asterisk).await, Some(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 0) }));
    }
    assert_eq!(offered(&mut lab).await.leg.format, Format::SLIN8);
    assert!(since.elapsed() < PATIENCE / 2, "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_connection_that_is_gone_before_its_first_audio_leaves_nothing() {
    let mut lab = Lab::start().await;
    drop(walks_in(&lab).await);
    let mut leg = offered(&mut lab).await.leg;
    assert!(matches!(event(&mut leg).await, Some(MediaEvent::Closed)));
    drop(leg);
    lab.is_idle().await;
}

/// T1: also where the dialplan connects.
#[tokio::test]
async fn a_call_nobody_expects_is_offered_to_the_engine_with_silence_already_flowing() {
    let mut lab = Lab::start().await;
    let id = Uuid::new_v4();
    let mut asterisk = Framed::new(lab.connect().await, Codec);
    asterisk.send(Frame::Id(id)).await.unwrap();
    assert!(matches!(frame(&mut asterisk).await, Some(Frame::Audio { rate: 8_000, .. })));
    let walk_in = offered(&mut lab).await;
    assert_eq!((walk_in.id, walk_in.leg.format), (id, Format::SLIN8));
    drop(walk_in);
    closed(asterisk.into_inner()).await;
    lab.is_idle().await;
}

#[tokio::test]
async fn calls_the_engine_has_no_room_for_go_back_to_the_dialplan() {
    let mut lab = Lab::start().await;
    let mut waiting = Vec::new();
    for count in 1..=WALK_INS {
        let mut asterisk = Framed::new(lab.connect().await, Codec);
        asterisk.send(Frame::Id(Uuid::new_v4())).await.unwrap();
        asterisk.send(Frame::Audio { rate: 8_000, samples: audio(Format::SLIN8, 1) }).await.unwrap();
        waiting.push(asterisk);
        eventually("offered", || lab.walk_ins.len() == count).await;
    }
    let mut asterisk = Framed::new(lab.connect().await, Codec);
    asterisk.send(Frame::Id(Uuid::new_v4())).await.unwrap();
    assert_eq!(loud_frame(&mut asterisk).await, Some(Frame::HangUp));
    drop((asterisk, waiting));
    assert_eq!(lab.counters.refused(Refusal::NotWanted).get(), 1);
    while let Ok(walk_in) = lab.walk_ins.try_recv() {
        drop(walk_in);
    }
    lab.is_idle().await;
}
