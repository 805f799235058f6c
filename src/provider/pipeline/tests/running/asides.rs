//! What is asked beside the conversation, and what is told of one that ends in its middle.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_a_model_that_sums_nothing_up_is_not_shown_any_more_is_counted_and_it_is_asked_nothing_aside() {
    for (sums_up, forgotten, asides) in [(true, 0, 1), (false, 1, 0)] {
        let model = Puppet::new(0, []);
        let mut play =
            Play::remembering((15, sums_up), &[Puppet::new(0, [])], &[Arc::clone(&model)], &[Puppet::new(0, [])]);
        for _ in 0..2 {
            play.caller_says_hello().await;
            assert!(play.answers().await);
            play.ends_its_answer().await;
        }
        sleep(FRAME).await;
        assert_eq!(model.times(), 2 + asides, "summaries: {sums_up}");
        let line = "offhook_stage_oddities_total{kind=\"puppet\",oddity=\"forgotten\",service=\"llm.0\"}";
        assert!(play.metric(&format!("{line} {forgotten}")), "summaries: {sums_up}");
    }
}

/// Somebody who breaks off a summary may answer well, and the other way round.
#[tokio::test(start_paused = true)]
async fn a_fault_of_a_summary_moves_no_answer_to_another_model_and_a_fault_of_an_answer_no_summary() {
    let wish = |mark| AgentCommand::Summarise { mark, record: "> Caller: hello".into() };
    let (first, second) = (Puppet::new(0, [Does::BreaksOff("They")]), Puppet::new(0, []));
    let mut play = Play::of_models(&[Arc::clone(&first), Arc::clone(&second)]);
    play.commands.send(wish(1)).await.expect("it plays");
    while !matches!(play.events.recv().await.expect("it goes on"), AgentEvent::Noise(_)) {}
    play.caller_says_hello().await;
    assert!(play.answers().await);
    assert_eq!((first.times(), second.times()), (2, 0), "the summary and the answer");

    let (first, second) = (Puppet::new(0, [Does::BreaksOff("One mom")]), Puppet::new(0, [Does::Hangs]));
    let mut play = Play::of_models(&[Arc::clone(&first), Arc::clone(&second)]);
    play.caller_says_hello().await;
    second.is_asked(1).await;
    play.commands.send(wish(1)).await.expect("it plays");
    while !matches!(play.events.recv().await.expect("it goes on"), AgentEvent::Summary { .. }) {}
    assert_eq!((first.times(), second.times()), (2, 1), "the summary is the first one's");
}

/// The listener that is to take over has to wait, and takes nothing of ten seconds.
#[tokio::test(start_paused = true)]
async fn who_is_lost_for_a_listener_that_takes_nothing_tells_what_the_caller_has_heard() {
    let patient = Fault::Refused { status: 503, code: None, retry_after: Some(Duration::from_secs(2)) };
    let (listener, voice) = (Puppet::new(1, [at_once(patient)]), Puppet::new(0, [Does::BreaksOff("")]));
    let mut play = Play::begin(&[listener], &[Puppet::new(0, [])], &[voice]);
    let greeting = AgentCommand::Greet { text: Some("Good morning to you all.".into()) };
    play.commands.send(greeting).await.expect("it plays");
    assert!(play.answers().await);
    play.turns(&[CallerTurn::Ended]).await;
    for _ in 0..600 {
        let frame = AgentCommand::Audio(Bytes::from(vec![1; Format::ULAW.frame_bytes()]));
        if play.commands.send(frame).await.is_err() {
            break;
        }
    }
    assert_eq!(play.task.await.unwrap(), Some(AgentLoss::Stalled));
    let told: Vec<AgentEvent> = std::iter::from_fn(|| play.events.try_recv().ok()).collect();
    let said = |event: &AgentEvent| matches!(event, AgentEvent::Transcript { text, .. } if text.starts_with("Good"));
    assert!(told.iter().any(said), "{told:?}");
}
