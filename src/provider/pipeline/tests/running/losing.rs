//! What is told of an agent that is about to be lost.

use super::*;

/// V32: what the last listener has failed with is told, and then comes the loss: whichever of both is seen first.
#[tokio::test(start_paused = true)]
async fn what_an_agent_is_lost_for_is_told_before_the_loss() {
    for _ in 0..32 {
        let mut play = Play::begin(&[Puppet::new(0, [closed()])], &[Puppet::new(0, [])], &[Puppet::new(0, [])]);
        play.caller_says_hello().await;
        let mut last = None;
        while let Some(event) = play.events.recv().await {
            last = Some(event);
        }
        assert_eq!(last, Some(AgentEvent::Stumbled(Stumble { part: Part::Listener, is_slow: false })));
        assert!(play.task.await.unwrap().is_some(), "it is lost");
    }
}
