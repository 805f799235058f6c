//! Callers whose telephone transfers the call with the agent to somebody else.

use crate::calls::{
    AGENT_HZ, CALLER_HZ, SOON, agent,
    kit::{
        asterisk::{Asterisk, Options},
        audio::{silence, tone},
        offhook::{Offhook, Place},
        phone::Phone,
        world,
    },
    ms,
};
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;
use tokio::time::sleep;

/// An agent that talks on, and hangs up on somebody who is there and says nothing for a second.
const TALKS: &str = "- tone: { hertz: 440, for: 2s }\n- listen: {}\n- tone: { hertz: 440, for: 60s }";
const IMPATIENT: &str = "    no_input: { after: 2s, prompts: 0 }\n";

const TOKEN: &str = "a token for programs";

struct Installation {
    asterisk: Asterisk,
    offhook: Offhook,
    records: TempDir,
}

async fn installation() -> Installation {
    let records = TempDir::with_prefix("offhook-taken-over-").expect("a temporary directory");
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let attached = place.yaml_with(&asterisk, TOKEN);
    let kept = format!("records: {{ directory: \"{}\" }}\n", records.path().display());
    let mut offhook = Offhook::start(place, &format!("{attached}{kept}{}", agent(TALKS, IMPATIENT))).await;
    offhook.ask_with(TOKEN);
    offhook.wait_ready(true).await;
    Installation { asterisk, offhook, records }
}

impl Installation {
    /// A caller who hears the agent.
    async fn caller(&self) -> Phone {
        let phone = Phone::call(self.asterisk.sip_port(), "7000", silence(ms(60_000))).await;
        phone.wait_to_hear(AGENT_HZ, ms(500), SOON).await;
        phone
    }

    /// The one call has ended, and nothing is left of it. Returns its record.
    async fn record(&self) -> Value {
        assert_eq!(self.offhook.wait_end_reason(SOON).await, "caller_hung_up");
        self.asterisk.wait_empty(SOON).await;
        assert_eq!(self.offhook.metric("offhook_calls_total").await, 1.0, "who takes it over is not a new call");
        assert_eq!(self.offhook.metric("offhook_media_repairs_total").await, 0.0);
        self.offhook.wait_metric("offhook_records_total", 1.0, SOON).await;
        let mut program = Command::new(offhook_kit::program());
        program.args(["calls", "--format", "json", "--records"]).arg(self.records.path());
        let records = world::output_of(program).await;
        serde_json::from_slice(&records.stdout).expect("a record in JSON")
    }
}

/// Entries of a record about those who took the caller's place.
fn parties(record: &Value) -> Vec<(&str, Option<&str>)> {
    let entries = record["entries"].as_array().expect("entries");
    let told = entries.iter().filter_map(|entry| Some((entry["event"].as_str()?, entry["number"].as_str())));
    told.filter(|(event, _)| event.starts_with("party_")).collect()
}

async fn who_is_called_by_a_transfer_takes_the_call_over_with_its_agent() {
    let house = installation().await;
    let mut ann = Phone::listen(tone(CALLER_HZ, ms(1_000))).await;
    let mut caller = house.caller().await;
    let extension = format!("8{}", ann.port());
    caller.transfer(house.asterisk.sip_port(), &extension).await;
    caller.wait_ended(SOON).await;
    ann.wait_established(SOON).await;
    ann.wait_to_hear(AGENT_HZ, ms(1_000), SOON).await;
    house.offhook.wait_active(1, SOON).await;
    ann.hang_up().await;
    let record = house.record().await;
    assert_eq!(parties(&record)[0].0, "party_changed");
    assert_eq!(record["caller_number"], "2025550100", "whom the call began with");
}

/// The emulated exchange tells that number as Asterisk's `Dial()` tells a Local channel whom it has called.
async fn a_record_and_the_live_view_tell_who_has_taken_the_call_over() {
    let house = installation().await;
    let mut ann = Phone::listen(tone(CALLER_HZ, ms(1_000))).await;
    let mut caller = house.caller().await;
    let extension = format!("8{}", ann.port());
    caller.transfer(house.asterisk.sip_port(), &extension).await;
    ann.wait_to_hear(AGENT_HZ, ms(1_000), SOON).await;
    let is_with_ann = |live: &Value| live.to_string().contains(&format!(r#""caller_number":"{extension}""#));
    house.offhook.wait_answer("api/v1/live", is_with_ann, SOON).await;
    ann.hang_up().await;
    let record = house.record().await;
    assert_eq!(parties(&record).last(), Some(&("party_known", Some(&*extension))));
}

/// Longer than somebody who is there may be silent: nobody is hung up on, and no repair undoes the transfer.
async fn the_agent_waits_for_a_telephone_that_rings_for_a_transfer() {
    let house = installation().await;
    let mut ann = Phone::listen_without_answering().await;
    let mut caller = house.caller().await;
    caller.transfer(house.asterisk.sip_port(), &format!("8{}", ann.port())).await;
    ann.wait_ringing(SOON).await;
    caller.wait_ended(SOON).await;
    house.offhook.wait_active_where(|call| call["phase"] == "on_hold", SOON).await;
    sleep(ms(6_000)).await;
    assert!(ann.seen().ended.is_none() && ann.seen().established.is_none(), "{:?}", ann.seen());
    ann.answer().await;
    ann.wait_established(SOON).await;
    ann.say(tone(CALLER_HZ, ms(1_000))).await;
    ann.wait_to_hear(AGENT_HZ, ms(1_000), SOON).await;
    ann.hang_up().await;
    house.record().await;
}

async fn a_transfer_that_nobody_answers_ends_the_call() {
    let house = installation().await;
    let mut ann = Phone::listen_without_answering().await;
    let mut caller = house.caller().await;
    caller.transfer(house.asterisk.sip_port(), &format!("8{}", ann.port())).await;
    ann.wait_ringing(SOON).await;
    caller.wait_ended(SOON).await;
    ann.hang_up().await;
    house.record().await;
}

/// The real phone hangs up when its transfer is refused.
async fn a_transfer_to_nowhere_leaves_the_caller_with_the_agent() {
    let house = installation().await;
    let mut caller = house.caller().await;
    caller.transfer(house.asterisk.sip_port(), "nowhere").await;
    caller.say(tone(CALLER_HZ, ms(1_000))).await;
    caller.wait_to_hear(AGENT_HZ, ms(3_500), SOON).await;
    caller.hang_up().await;
    assert_eq!(parties(&house.record().await), []);
}

/// Ann consults the agent on her second line, and then hands her first caller to it.
async fn who_is_handed_to_the_agent_goes_on_with_it() {
    let house = installation().await;
    let mut ann = Phone::listen(silence(ms(60_000))).await;
    let mut carol = Phone::call_as(
        house.asterisk.sip_port(),
        &format!("8{}", ann.port()),
        silence(ms(4_000)) + tone(CALLER_HZ, ms(1_000)),
        "Carol",
        "2025550111",
    )
    .await;
    carol.wait_established(SOON).await;
    let mut second_line = house.caller().await;
    ann.transfer_to(&mut second_line).await;
    carol.wait_to_hear(AGENT_HZ, ms(3_000), SOON).await;
    carol.hang_up().await;
    assert_eq!(parties(&house.record().await), [("party_changed", None)]);
}

#[test]
fn a_transfer_to_nowhere_leaves_the_caller_with_the_agent_of_an_emulated_exchange() {
    world::emulated(a_transfer_to_nowhere_leaves_the_caller_with_the_agent);
}

/// Only these phones have two calls.
#[test]
fn who_is_handed_to_the_agent_of_an_emulated_exchange_goes_on_with_it() {
    world::emulated(who_is_handed_to_the_agent_goes_on_with_it);
}

#[test]
fn a_record_and_the_live_view_tell_who_has_taken_the_call_over_on_an_emulated_exchange() {
    world::emulated(a_record_and_the_live_view_tell_who_has_taken_the_call_over);
}

crate::scenes! {
    both:
        who_is_called_by_a_transfer_takes_the_call_over_with_its_agent,
        the_agent_waits_for_a_telephone_that_rings_for_a_transfer,
        a_transfer_that_nobody_answers_ends_the_call;
}
