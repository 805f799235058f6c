//! Calls through an engine over every transport.

use super::{SOON, desk::Desk, ms};
use crate::kit::{
    asterisk::{DESK_HZ, Options},
    audio::{silence, tone},
    exchange::{Exchange, ExchangePhone as Phone},
};

const AGENT_HZ: f64 = 440.0;
const CALLER_HZ: f64 = 700.0;

#[tokio::test(start_paused = true)]
async fn a_caller_hears_the_agent_and_itself_over_every_leg() {
    for leg in [
        "audiosocket/slin",
        "audiosocket/slin16",
        "audiosocket/slin48",
        "rtp/ulaw",
        "rtp/alaw",
        "rtp/slin16",
        "websocket/slin",
        "websocket/slin16",
        "websocket/ulaw",
        "websocket/opus",
    ] {
        let asterisk = Exchange::start(&Options::default()).await;
        let desk = Desk::attached(&asterisk, "- tone: { hertz: 440, for: 1s }\n- echo: 20s", &format!("    audio: {leg}\n")).await;
        let says = silence(ms(2500)) + tone(CALLER_HZ, ms(1000)) + silence(ms(20_000));
        let mut phone = Phone::call(asterisk.sip_port(), "7000", says).await;
        phone.wait_to_hear(AGENT_HZ, ms(900), SOON).await;
        phone.wait_to_hear(CALLER_HZ, ms(900), SOON).await;
        phone.dtmf('5').await;
        tokio::time::sleep(ms(500)).await;
        phone.hang_up().await;
        let heard = phone.heard();
        for (hz, length) in [(AGENT_HZ, ms(1000)), (CALLER_HZ, ms(1000))] {
            let spans = heard.spans_of(hz);
            assert_eq!(spans.len(), 1, "{leg}: {hz} Hz without a hole: {spans:?}");
            assert!(spans[0].length().abs_diff(length) <= ms(40), "{leg}: {spans:?}");
        }
        asterisk.wait_empty(SOON).await;
        let view = desk.engine.calls().view();
        assert_eq!(view.recent[0].reason.label(), "caller_hung_up", "{leg}");
        assert_eq!(desk.metric("offhook_media_faults_total"), 0.0, "{leg}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_transferred_to_the_dialplan() {
    let script = "- tone: { hertz: 440, for: 600ms }\n- call: { tool: transfer, arguments: { destination: desk } }\n- listen: {}";
    let asterisk = Exchange::start(&Options::default()).await;
    let _desk = Desk::attached(&asterisk, script, "").await;
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    phone.wait_to_hear(DESK_HZ, ms(500), SOON).await;
    phone.hang_up().await;
    asterisk.wait_empty(SOON).await;
}
