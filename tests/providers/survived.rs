//! What is odd, and changes nothing for the caller.

use crate::providers::{
    kit::vendor::{Dialect, Order, Saying, hertz},
    ms,
    tools::{greeted, look_up},
};

pub async fn noise_is_survived<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    let noise =
        |kind: &str| desk.metric(&format!("offhook_provider_noise_total{{kind=\"{kind}\",provider=\"{}\"}}", D::KIND));
    let before = (noise("unknown_message"), noise("malformed"));
    for saying in [Saying::Unknown, Saying::Malformed, Saying::Ping] {
        vendor.order(1, Order::Say(saying));
    }
    let asked = caller.now();
    vendor.order(1, Order::Speak);
    caller.hears_from(asked, hertz(1), ms(700)).await;
    assert_eq!((noise("unknown_message"), noise("malformed")), (before.0 + 1.0, before.1 + 1.0));
    assert_eq!(before, (0.0, 0.0), "all that is said in a usual call is known");
    desk.ends_with(&caller).await;
    assert_eq!(vendor.sessions(), 1);
    vendor.is_content();
}

pub async fn unknown_and_doubled_ids_are_survived<D: Dialect>() {
    let (vendor, desk, caller) = greeted::<D>().await;
    assert_eq!(desk.metric("offhook_agent_odd_ids_total"), 0.0, "a usual answer has none");
    for saying in [
        Saying::ResponseDone { response: 77 },
        Saying::Interrupted { response: 78 },
        Saying::ToolCallsCancelled { ids: vec!["nobody's".into()] },
        Saying::CallerSpeechStopped { utterance: 79 },
        Saying::CallerWords { utterance: 80, text: "Whose words?".into() },
    ] {
        vendor.order(1, Order::Say(saying));
    }
    vendor.order(1, Order::Call(vec![look_up(1)]));
    vendor.until_session(1, "has the result", |seen| seen.results.len() == 1).await;
    assert_eq!(desk.metric("offhook_agent_odd_ids_total{provider=\"first\"}"), D::ODD_IDS as f64);
    let asked = caller.now();
    caller.hears_from(asked, hertz(1), ms(700)).await;
    caller.hears_nothing_for(ms(300)).await;
    // The same call again, with its own id.
    vendor.order(1, Order::Call(vec![look_up(1)]));
    vendor.until_session(1, "has its answer again", |seen| seen.results.len() == 2).await;
    assert_eq!(desk.service.requests().len(), 1, "it was run once");
    let results = vendor.of(1, |seen| seen.results.clone());
    assert!(results[1].1.contains("on its way") && results[1].1.contains("replayed"), "{results:?}");
    assert_eq!(desk.metric("offhook_tool_calls_total{outcome=\"done\",tool=\"look_up\"}"), 2.0, "each answer counts");
    desk.ends_with(&caller).await;
    assert_eq!(vendor.sessions(), 1);
    vendor.is_content();
}
