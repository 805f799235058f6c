//! Facts that become known of a call after its record was kept.

use super::*;

fn hung_up_on(id: CallId) -> Amendment {
    Amendment { id, at_ms: 84_000, reason: "refused".into(), cause: 21 }
}

async fn kept_and_amended(config: &RecordsConfig, reason: EndReason) -> Record {
    let call = record(config, "2026-11-20T10:00:00Z", SECRET, reason);
    let (records, _counters) = started(config);
    records.keep(call.clone());
    records.amend(hung_up_on(call.id));
    records.finish(Duration::from_secs(5)).await;
    assert_eq!(spooled(config), [] as [String; 0]);
    read(&config.directory).unwrap().unwrap().get(call.id).unwrap().expect("its record")
}

#[tokio::test]
async fn a_transfer_that_failed_is_the_end_of_its_call_and_is_found_as_that() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let call = kept_and_amended(&config, EndReason::Transferred).await;
    assert_eq!(call.reason, Ending::transfer_failed());
    let failed = Event::TransferFailed { reason: "refused".into(), cause: Some(21) };
    assert!(call.entries.last().unwrap() == &Entry { at_ms: 84_000, event: failed });
    let archive = read(&config.directory).unwrap().unwrap();
    let by = |search: Search| found(&*archive, search);
    assert_eq!(by(Search { reason: Some(NOT_NORMAL.into()), ..Search::default() }), [call.id]);
    assert_eq!(by(Search { reason: Some("transferred".into()), ..Search::default() }), []);
    assert_eq!(
        by(Search { words: Some(SECRET.into()), ..Search::default() }),
        [call.id],
        "its words are where they were"
    );
}

/// A call whose agent was lost, with `on_failure: {then: {transfer: …}}`.
#[tokio::test]
async fn a_call_that_had_failed_before_keeps_its_reason() {
    let folder = TempDir::new().unwrap();
    let call = kept_and_amended(&config(&folder), EndReason::AgentSilent).await;
    assert_eq!((call.reason, call.entries.len()), (EndReason::AgentSilent.into(), 2));
}

#[tokio::test]
async fn a_call_that_was_deleted_meanwhile_stays_deleted() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let call = record(&config, "2026-11-20T10:00:00Z", SECRET, EndReason::Transferred);
    let (records, counters) = started(&config);
    records.keep(call.clone());
    until("it is archived", || counters.kept.get() == 1).await;
    assert!(delete(&config.directory, call.id).unwrap().found);
    records.amend(hung_up_on(call.id));
    records.finish(Duration::from_secs(5)).await;
    assert_eq!(read(&config.directory).unwrap().unwrap().get(call.id).unwrap(), None);
    assert_eq!(spooled(&config), [] as [String; 0]);
    assert!(!is_in_a_file(folder.path(), &call.id.to_string()));
}

/// An engine was killed between the two.
#[tokio::test]
async fn the_next_engine_goes_on_with_what_an_earlier_one_had_learnt() {
    let folder = TempDir::new().unwrap();
    let config = config(&folder);
    let call = record(&config, "2026-11-20T10:00:00Z", SECRET, EndReason::Transferred);
    let spool = Spool::open(&config.directory).unwrap();
    spool.put(&call).unwrap();
    spool.amend(&hung_up_on(call.id)).unwrap();
    fs::write(config.directory.join("spool/garbage.amended"), "no JSON").unwrap();
    drop(spool);
    let (records, _counters) = started(&config);
    records.finish(Duration::from_secs(5)).await;
    let kept = || read(&config.directory).unwrap().unwrap().get(call.id).unwrap().unwrap();
    assert_eq!(kept().reason, Ending::transfer_failed());
    assert_eq!(spooled(&config), [] as [String; 0]);
    // And one that was killed after the archive had it.
    let entries = kept().entries.len();
    Spool::open(&config.directory).unwrap().amend(&hung_up_on(call.id)).unwrap();
    let (records, _counters) = started(&config);
    records.finish(Duration::from_secs(5)).await;
    assert_eq!((kept().entries.len(), spooled(&config)), (entries, vec![]));
}
