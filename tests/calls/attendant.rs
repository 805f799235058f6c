//! `config/attendant.yaml` on a real line: a caller who speaks or presses keys is understood, and what they asked for is done.

use crate::calls::{
    SOON,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{Sound, silence, tone},
        built,
        offhook::{Launch, Offhook, Place},
        phone::Phone,
        project, spoken,
    },
    mcp, ms,
    pipeline::{loud, wait_for_a_pause, wait_to_hear_speech},
};
use std::time::Duration;

const ANN_HZ: f64 = 1000.0;
const CALLER_HZ: f64 = 700.0;
/// The attendant reads the whole weather before it is asked for something else.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a caller does to be served.
#[derive(Debug, Clone, Copy)]
enum Asks {
    Says(&'static str),
    Presses(char),
}

use Asks::{Presses, Says};

struct Scene {
    asterisk: Asterisk,
    offhook: Offhook,
    phone: Phone,
}

/// The committed file, word for word but for ports and folders, which are this test's own.
fn shipped(place: &Place) -> String {
    let text = std::fs::read_to_string(project().join("config/attendant.yaml")).expect("a committed file");
    let own = [
        ("127.0.0.1:9092", format!("127.0.0.1:{}", place.audiosocket)),
        ("127.0.0.1:15000", format!("127.0.0.1:{}", place.http)),
        ("[aviation_atis,", format!("[{:?},", built("aviation_atis"))),
        ("--config, aviation_atis.yaml", format!("--config, {:?}", project().join("config/aviation_atis.yaml"))),
        ("../mcp_servers", project().join("mcp_servers").display().to_string()),
    ];
    own.iter().fold(text, |text, (theirs, ours)| {
        assert_eq!(text.matches(theirs).count(), 1, "{theirs} in config/attendant.yaml");
        text.replace(theirs, ours)
    })
}

impl Scene {
    /// A caller who has heard the greeting. `human` takes calls for people; anything that `Dial()` takes.
    async fn greeted(human: &str, ring: &str) -> Self {
        let asterisk = Asterisk::start(Options::default()).await;
        asterisk.set_global("OFFHOOK_HUMAN", human).await;
        let place = Place::free();
        let yaml = shipped(&place).replace("ring: 25s", &format!("ring: {ring}"));
        let env = asterisk.environment();
        let offhook = Offhook::launch(place, &yaml, Launch { env: &env, ..Launch::default() }).await;
        offhook.wait_ready(true).await;
        let server = async {
            while !mcp::is_up(&offhook.json("mcp/status").await["servers"]["aviation_atis"]) {
                tokio::time::sleep(ms(50)).await;
            }
        };
        tokio::time::timeout(SOON, server).await.expect("the server is up");
        let phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
        wait_to_hear_speech(&phone, 0, ms(3_000)).await;
        wait_for_a_pause(&phone).await;
        Self { asterisk, offhook, phone }
    }

    async fn ask(&mut self, asks: Asks) {
        match asks {
            Presses(key) => self.phone.dtmf(key).await,
            Says(words) => {
                self.phone.say(Sound { samples: spoken::says(words, "en-us+f3").await }).await;
            }
        }
    }

    /// Waits until this tool has been called and has worked: only who was understood gets there.
    async fn wait_done(&self, tool: &str) {
        let metric = format!("offhook_tool_calls_total{{outcome=\"done\",tool=\"{tool}\"}}");
        self.offhook.wait_metric(&metric, 1.0, SOON).await;
    }

    fn now(&self) -> usize {
        self.phone.heard().samples.len()
    }

    async fn ends(&self, reason: &str) {
        assert_eq!(self.offhook.wait_end_reason(SOON).await, reason);
        self.asterisk.wait_empty(SOON).await;
        for private in ["front desk", "Trondheim", "talk to a person"] {
            assert!(!self.offhook.log().contains(private), "{private:?} reached the log");
        }
    }
}

async fn the_weather_is_told(asks: Asks, farewell: Asks) {
    let mut scene = Scene::greeted("Local/desk@lab-targets", "25s").await;
    let since = scene.now();
    scene.ask(asks).await;
    scene.wait_done("mcp_aviation_atis").await;
    // "One moment", and then a report of some twenty seconds; nothing else that it says is half as long.
    tokio::time::timeout(PATIENCE, async {
        while loud(&scene.phone, since) < ms(12_000) {
            tokio::time::sleep(ms(100)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{asks:?}: {:?} heard", loud(&scene.phone, since)));
    tokio::time::timeout(PATIENCE, wait_for_a_pause(&scene.phone)).await.expect("the report ends");
    scene.ask(farewell).await;
    scene.wait_done("hangup_call").await;
    scene.ends("agent_hung_up").await;
}

async fn who_asks_for_the_weather_hears_what_the_tool_of_the_server_says() {
    the_weather_is_told(Says("What is the weather"), Says("Goodbye")).await;
}

async fn keys_do_the_same() {
    the_weather_is_told(Presses('2'), Presses('9')).await;
}

async fn who_asks_for_a_person_talks_to_one() {
    for asks in [Says("Talk to a person"), Presses('0')] {
        let ann = Phone::listen(tone(ANN_HZ, ms(60_000))).await;
        let human = format!("PJSIP/anonymous/sip:phone@127.0.0.1:{}", ann.port());
        let mut scene = Scene::greeted(&human, "25s").await;
        let since = scene.now();
        scene.ask(asks).await;
        scene.wait_done("transfer").await;
        scene.phone.wait_to_hear(ANN_HZ, ms(500), SOON).await;
        assert!(loud(&scene.phone, since) >= ms(500), "{asks:?}: the caller was told");
        scene.phone.say(tone(CALLER_HZ, ms(5_000))).await;
        ann.wait_to_hear(CALLER_HZ, ms(1_000), SOON).await;
        assert_eq!(scene.offhook.wait_end_reason(SOON).await, "transferred", "{asks:?}");
        scene.phone.hang_up().await;
        scene.ends("transferred").await;
    }
}

/// The message is spoken into the mailbox: it is the caller's own words that are kept.
async fn a_message_is_left(scene: &mut Scene, asks: Asks) {
    scene.ask(asks).await;
    scene.wait_done("leave_voicemail").await;
    assert_eq!(scene.offhook.wait_end_reason(SOON).await, "transferred", "{asks:?}");
    // Two seconds of silence end the message, also at its beginning.
    scene.phone.say(tone(CALLER_HZ, ms(60_000))).await;
    scene.asterisk.wait_logged("Recording the message", SOON).await;
    scene.phone.say(tone(CALLER_HZ, ms(2_500))).await;
    // Silence ends the message, and the dialplan the call.
    scene.phone.wait_ended(SOON).await;
    scene.ends("transferred").await;
    let messages = scene.asterisk.voicemails("100");
    assert_eq!(messages.len(), 1, "{asks:?}");
    assert!(messages[0].time_of(CALLER_HZ) >= ms(1_500), "{asks:?}: {:?}", messages[0].loud_spans());
}

async fn who_asks_to_leave_a_message_speaks_to_the_mailbox() {
    for asks in [Says("Leave a message"), Presses('3')] {
        a_message_is_left(&mut Scene::greeted("Local/desk@lab-targets", "25s").await, asks).await;
    }
}

async fn whom_nobody_takes_is_told_so_and_can_leave_a_message() {
    let mut bob = Phone::listen_without_answering().await;
    let human = format!("PJSIP/anonymous/sip:phone@127.0.0.1:{}", bob.port());
    let mut scene = Scene::greeted(&human, "8s").await;
    scene.ask(Says("Talk to a person")).await;
    bob.wait_ringing(SOON).await;
    bob.wait_ended(SOON).await;
    let since = scene.now();
    // "I could not connect you", and why.
    wait_to_hear_speech(&scene.phone, since, ms(1_500)).await;
    wait_for_a_pause(&scene.phone).await;
    a_message_is_left(&mut scene, Says("Leave a message")).await;
}

crate::scenes! {
    // The shipped configuration has an MCP server and a recognizer, which are programs.
    only_real:
        who_asks_for_the_weather_hears_what_the_tool_of_the_server_says,
        whom_nobody_takes_is_told_so_and_can_leave_a_message;
    // Of these the two above show the words, the transfer and the message; `keys` of other scenes the rest.
    on_request:
        keys_do_the_same,
        who_asks_for_a_person_talks_to_one,
        who_asks_to_leave_a_message_speaks_to_the_mailbox;
}
