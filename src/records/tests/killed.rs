//! What is known of calls that stood when the engine was killed.

use super::*;

/// Nothing is known of its end, but that there was a call, whose, and why there is no more to tell.
#[tokio::test]
async fn a_call_that_stands_when_the_engine_is_killed_has_a_record_that_says_so() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let [stands, ends] = [(); 2].map(|()| beginning(&config));
    let (records, counters) = started(&config);
    records.begun(stands.clone());
    records.begun(ends.clone());
    let ended = Record { reason: Ending::from(EndReason::CallerHungUp), seconds: 9.0, ..ends.clone() };
    records.keep(ended.clone());
    until("it is archived", || counters.kept.get() == 1).await;
    let names = spooled(&config);
    assert_eq!(names.len(), 1, "of the one that stands: {names:?}");
    // Nobody says that the other one has ended.
    records.finish(Duration::from_secs(5)).await;
    let (records, counters) = started(&config);
    until("it is archived", || counters.kept.get() == 1).await;
    records.finish(Duration::from_secs(5)).await;
    let archive = read(&config.directory).unwrap().unwrap();
    assert_eq!(archive.get(stands.id).unwrap(), Some(stands.clone()));
    assert_eq!((stands.reason.label.as_str(), stands.reason.class.as_str()), ("engine_killed", "engine"));
    assert_eq!(archive.get(ends.id).unwrap(), Some(ended), "the other one's is its own");
}

/// Killed between the end of a call and the removal of what its beginning left.
#[test]
fn a_beginning_whose_end_is_there_is_no_call_of_its_own() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let spool = Spool::open(&config.directory).unwrap();
    let ended = record(&config, "2026-11-20T10:00:00Z", SECRET, EndReason::CallerHungUp);
    spool.put(&ended).unwrap();
    spool.begin(&Record { reason: Ending::killed(), ..ended.clone() }).unwrap();
    drop(spool);
    let spool = Spool::open(&config.directory).unwrap();
    assert_eq!(spool.batch(9).unwrap().records, std::slice::from_ref(&ended));
    assert!(spool.delete(ended.id).unwrap());
    assert_eq!(spooled(&config), [] as [String; 0]);
}

/// However they come: the call's own record is the one that stays.
#[test]
fn the_record_of_a_call_takes_the_place_of_one_that_says_that_the_engine_was_killed() {
    let folder = TempDir::new().unwrap();
    let (config, mut archive) = (config(&folder), archive(&folder));
    let ended = record(&config, "2026-11-20T10:00:00Z", SECRET, EndReason::CallerHungUp);
    let killed = Record { reason: Ending::killed(), entries: Vec::new(), ..ended.clone() };
    let said = || found(&super::archive(&folder), Search { words: Some(SECRET.into()), ..Search::default() });
    archive.put(std::slice::from_ref(&killed)).unwrap();
    assert_eq!((archive.get(ended.id).unwrap(), said()), (Some(killed.clone()), Vec::new()));
    archive.put(std::slice::from_ref(&ended)).unwrap();
    assert_eq!((archive.get(ended.id).unwrap(), said()), (Some(ended.clone()), vec![ended.id]));
    archive.put(&[killed]).unwrap();
    assert_eq!((archive.get(ended.id).unwrap(), said()), (Some(ended.clone()), vec![ended.id]));
    assert_eq!(found(&archive, Search::default()), [ended.id], "and it is one call");
}

/// What the engine wrote last of the sound is not told by the file's head, or there is no head yet.
#[tokio::test]
async fn the_recording_of_a_call_whose_engine_was_killed_is_completed_and_told() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let (records, _counters) = started(&config);
    let calls = [(); 4].map(|()| beginning(&config));
    calls.iter().for_each(|call| records.begun(call.clone()));
    until("they are written down", || begun(&config) == 4).await;
    records.finish(Duration::from_secs(5)).await;
    let file = |call: &Record| recording_file(&config.directory, call.id);
    fs::create_dir_all(file(&calls[0]).parent().unwrap()).unwrap();
    // Two seconds of both sides, and half a sample.
    let sound = [0x11; 2 * 8_000 * 4 + 3];
    let headless = vec![0; 44];
    let (told, rate, data) = (36_u32 + 32_000, 8_000_u32, 32_000_u32);
    let parts: [&[u8]; 8] = [
        b"RIFF",
        &told.to_le_bytes(),
        b"WAVEfmt \x10\0\0\0\x01\0\x02\0",
        &rate.to_le_bytes(),
        &(rate * 4).to_le_bytes(),
        b"\x04\0\x10\0",
        b"data",
        &data.to_le_bytes(),
    ];
    let halfway = parts.concat();
    for (call, head, sound) in
        [(&calls[0], &headless, &sound[..]), (&calls[1], &halfway, &sound[..]), (&calls[2], &headless, &sound[..0])]
    {
        fs::write(file(call), [&head[..], sound].concat()).unwrap();
        let written = SystemTime::from(call.began) + Duration::from_secs(5);
        fs::File::options().write(true).open(file(call)).unwrap().set_modified(written).unwrap();
    }
    let (records, counters) = started(&config);
    until("they are archived", || counters.kept.get() == 4).await;
    records.finish(Duration::from_secs(5)).await;
    let archive = read(&config.directory).unwrap().unwrap();
    let kept = calls.each_ref().map(|call| archive.get(call.id).unwrap().unwrap());
    assert!(kept.iter().all(|record| record.reason.label == "engine_killed"));
    for record in &kept[..2] {
        let recorded = record.recording.as_ref().expect("it has a recording");
        assert_eq!((recorded.file.as_str(), recorded.seconds), (&*format!("{}.wav", record.id), 2.0));
        assert_eq!(
            (recorded.began_ms, record.seconds),
            (2_500, 4.5),
            "half a second before the last sound was written"
        );
        let reader = hound::WavReader::open(file(record)).unwrap();
        assert_eq!((reader.duration(), reader.spec().sample_rate, reader.spec().channels), (16_000, 8_000, 2));
        let waveform = Waveform::read(&mut fs::File::open(file(record)).unwrap(), 10).unwrap();
        assert!(waveform.caller.iter().all(|peak| *peak == 0x1111), "{waveform:?}");
    }
    assert!(kept[2].recording.is_none() && !file(&calls[2]).exists(), "nothing was in it");
    assert!(kept[3].recording.is_none());
}
