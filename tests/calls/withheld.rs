//! Callers who withhold their name and number.

use crate::calls::{
    SOON,
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

const NAME: &str = "Ada Byron";
const NUMBER: &str = "15550199";
const ANN_HZ: f64 = 1000.0;

const DIALPLAN: &str = "
[lab-callers](+)
exten => withheld,1,Set(CALLERID(pres)=prohib_passed_screen)
 same => n,Stasis(offhook,front)
 same => n,Hangup()
";

/// A caller who withholds their number is connected with Ann. Returns the call's record, and who Ann's telephone showed.
async fn a_call(setting: &str) -> (Value, (String, String)) {
    let folder = TempDir::with_prefix("offhook-withheld-").expect("a temporary directory");
    let mut ann = Phone::listen(tone(ANN_HZ, ms(60_000))).await;
    let asterisk = Asterisk::start(Options { dialplan: DIALPLAN.into(), ..Options::default() }).await;
    let place = Place::free();
    let attached = place.yaml(Some(&asterisk)).replace("app: offhook", &format!("app: offhook{setting}"));
    let yaml = format!(
        "{attached}records: {{ directory: \"{}\" }}\n\
         default_context: front\n\
         providers:\n  script:\n    scripted:\n      script:\n        - tone: {{ hertz: 600, for: 600ms }}\n        \
         - call: {{ tool: transfer, arguments: {{ destination: there }} }}\n        - listen: {{}}\n\
         destinations:\n  there: {{ description: People, dial: [\"PJSIP/anonymous/sip:phone@127.0.0.1:{}\"] }}\n\
         contexts:\n  front: {{ prompt: A test, provider: script, tools: [hangup_call, transfer] }}\n",
        folder.path().display(),
        ann.port()
    );
    let offhook = Offhook::start(place, &yaml).await;
    offhook.wait_ready(true).await;
    let mut caller = Phone::call_as(asterisk.sip_port(), "withheld", silence(ms(60_000)), NAME, NUMBER).await;
    caller.wait_to_hear(ANN_HZ, ms(500), SOON).await;
    assert_eq!(offhook.wait_end_reason(SOON).await, "transferred");
    let shown = ann.seen().peer;
    caller.hang_up().await;
    ann.wait_ended(SOON).await;
    asterisk.wait_empty(SOON).await;
    offhook.wait_metric("offhook_records_total", 1.0, SOON).await;
    let mut program = Command::new(offhook_kit::program());
    program.args(["calls", "--format", "json", "--records"]).arg(folder.path());
    let records = world::output_of(program).await;
    (serde_json::from_slice(&records.stdout).expect("a record in JSON"), shown)
}

/// The SIP phone shows what is in `From`.
fn nobody() -> (String, String) {
    ("Anonymous".into(), "sip:anonymous@anonymous.invalid".into())
}

async fn a_withheld_number_is_neither_kept_nor_shown_where_the_caller_is_transferred_to() {
    let (record, shown) = a_call("").await;
    assert_eq!((&record["caller_number"], &record["caller_name"]), (&Value::Null, &Value::Null));
    assert_eq!(shown, nobody());
}

async fn a_withheld_number_that_is_kept_is_not_shown_where_the_caller_is_transferred_to() {
    let (record, shown) = a_call(", withheld_numbers: keep").await;
    assert_eq!((&record["caller_number"], &record["caller_name"]), (&NUMBER.into(), &NAME.into()));
    assert_eq!(shown, nobody());
}

crate::scenes! {
    real:
        a_withheld_number_is_neither_kept_nor_shown_where_the_caller_is_transferred_to;
    both:
        a_withheld_number_that_is_kept_is_not_shown_where_the_caller_is_transferred_to;
}
