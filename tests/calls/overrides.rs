//! What the dialplan sets for one call reaches the agent of that call, and no other.

use crate::calls::{
    AGENT_HZ, SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::silence,
        offhook::Offhook,
        phone::Phone,
        vendor::Vendor,
    },
    ms, openai, openai_agents,
};

const DIALPLAN: &str = "
[lab-callers](+)
exten => did,1,Set(FROM_DID=493012345)
 same => n,Set(AI_DIRECTION=outbound)
 same => n,Set(AMDSTATUS=MACHINE)
 same => n,Stasis(offhook,support)
 same => n,Hangup()
";

async fn installation() -> (Vendor, Asterisk, Offhook) {
    let server = openai(ms(4_000)).await;
    let asterisk = Asterisk::start(Options { dialplan: DIALPLAN.into(), ..Options::default() }).await;
    let yaml = openai_agents(&server).replace("{call_direction}", "{call_direction}/{channel.AMDSTATUS}");
    let offhook = Offhook::attached(&asterisk, &yaml).await;
    (server, asterisk, offhook)
}

async fn dial(asterisk: &Asterisk, extension: &str) -> Phone {
    Phone::call_as(asterisk.sip_port(), extension, silence(ms(60_000)), "Ada Lovelace", "15550123").await
}

/// What the provider was told when the last session began.
fn instructions(server: &Vendor) -> String {
    server.told(server.sessions())[0]["session"]["instructions"].as_str().expect("a prompt").to_owned()
}

/// The words that it was asked to greet with in this session.
fn greeting(server: &Vendor, session: usize) -> String {
    server.of(session, |seen| seen.wishes[0].clone()).expect("words")
}

async fn a_greeting_and_an_audio_path_for_one_call() {
    const FRAMES: [&str; 2] = [
        "offhook_media_frames_sent_total{transport=\"audiosocket\"}",
        "offhook_media_frames_sent_total{transport=\"rtp\"}",
    ];
    let (server, asterisk, offhook) = installation().await;
    // The installation's audio is AudioSocket's; 7003 asks for RTP and for other words.
    let mut phone = dial(&asterisk, "7003").await;
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    phone.hang_up().await;
    offhook.wait_ended(1, SOON).await;
    assert_eq!(offhook.metric(FRAMES[0]).await, 0.0, "by AudioSocket, although this call asked for RTP");
    offhook.wait_metric(FRAMES[1], 20.0, SOON).await;
    let update = &server.told(1)[0];
    assert_eq!(update["session"]["audio"]["output"]["format"]["type"], "audio/pcmu", "{update}");
    let greeted = greeting(&server, 1);
    assert!(greeted.contains("Good evening. Our office is closed, but I can take a message."), "{greeted}");
    assert!(!greeted.contains("Hello Ada"), "the context's own words are not said as well: {greeted}");

    // The next caller of the same agent gets the usual.
    let mut phone = dial(&asterisk, "7001").await;
    phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
    phone.hang_up().await;
    offhook.wait_ended(2, SOON).await;
    offhook.wait_metric(FRAMES[0], 20.0, SOON).await;
    assert!(greeting(&server, 2).contains("Hello Ada Lovelace"));
    server.is_content();
}

async fn another_provider_for_one_call() {
    let (server, asterisk, offhook) = installation().await;
    let mut phone = dial(&asterisk, "7004").await;
    phone.wait_to_hear(800.0, ms(500), SOON).await;
    phone.hang_up().await;
    let ended = offhook.wait_ended(1, SOON).await;
    assert_eq!((&ended[0]["context"], &ended[0]["provider"]), (&"support".into(), &"scripted".into()));
    assert_eq!(server.sessions(), 0, "the context's own provider was not asked");
}

async fn who_called_which_number_and_what_the_dialplan_knows_reaches_the_prompt() {
    let (server, asterisk, offhook) = installation().await;
    let mut phone = dial(&asterisk, "7001").await;
    phone.wait_to_hear(AGENT_HZ, ms(100), SOON).await;
    phone.hang_up().await;
    assert_eq!(instructions(&server), "You are a test. Ada Lovelace with 15550123 dialled 7001, inbound/.");

    // Where the trunk says which number was dialled, that goes before the extension it became.
    let mut phone = dial(&asterisk, "did").await;
    phone.wait_to_hear(AGENT_HZ, ms(100), SOON).await;
    phone.hang_up().await;
    assert_eq!(
        instructions(&server),
        "You are a test. Ada Lovelace with 15550123 dialled 493012345, outbound/MACHINE."
    );
    offhook.wait_ended(2, SOON).await;
    let log = offhook.log();
    assert!(!log.contains("15550123") && !log.contains("493012345") && !log.contains("Lovelace"), "{log}");
}

crate::scenes! {
    both:
        a_greeting_and_an_audio_path_for_one_call,
        another_provider_for_one_call,
        who_called_which_number_and_what_the_dialplan_knows_reaches_the_prompt;
}
