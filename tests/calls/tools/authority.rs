//! Who the caller was shown to be, and another gate's word.

use super::{Scene, Setting, TRUSTED, kind};
use crate::calls::{AGENT_HZ, SOON, ms};
use serde_json::json;
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

const BALANCE: &str = r#"
name: balance
description: Tells what is left.
actions: [{ type: api_call, url: "http://HOST/balance", method: GET }]
policy: { access: private_read, risk_domain: finance }
"#;

/// Two ways in that say the same; only one of them is the operator's own.
const DIALPLAN: &str = "[lab-callers](+)
exten => ours,1,Goto(from-bank,s,1)
exten => theirs,1,Goto(from-trunk,s,1)
[from-bank]
exten => s,1,Set(AI_AUTHORIZATION=authenticated)
 same => n,Stasis(offhook)
 same => n,Hangup()
[from-trunk]
exten => s,1,Set(AI_AUTHORIZATION=authenticated)
 same => n,Stasis(offhook)
 same => n,Hangup()
";

/// G answer 12: a dialplan that the operator trusts can say who the caller is; any other cannot.
async fn authorization_is_believed_from_a_trusted_context_of_the_dialplan_alone() {
    for (extension, outcome, requests) in [("ours", "OK", 1), ("theirs", "DEFERRED", 0)] {
        let scene = Scene::start(Setting {
            tools: &[("balance", BALANCE)],
            offered: "balance",
            sections: "policy: { identify: { trusted_contexts: [from-bank] } }",
            dialplan: DIALPLAN,
            ..Setting::default()
        })
        .await;
        let phone = scene.call(extension).await;
        let output = scene.tool("balance", json!({})).await;
        assert_eq!(kind(&output), outcome, "{extension}: {output}");
        assert_eq!(scene.service.requests().len(), requests, "{extension}");
        assert_eq!(scene.offhook.log().contains("not in trusted_contexts"), extension == "theirs", "{extension}");
        scene.ends(phone).await;
    }
}

const TRACK_PARCEL: &str = r#"
name: track_parcel
description: Finds a parcel by its number.
parameters: [{ name: parcel, type: string, required: true }]
actions: [{ type: api_call, url: "http://HOST/parcels/{{params.parcel}}", method: GET }]
policy: { access: public_read, risk_domain: customer_support }
"#;
const GATE_TOKEN: &str = "the-token-of-the-other-gate";
const GATE_WITHIN: Duration = Duration::from_secs(10);

/// `offhook gate` in a process of its own, which answers so many checks a minute and refuses the rest.
async fn other_gate(checks: u32) -> (Child, String) {
    let mut gate = Command::new(offhook_kit::program())
        .args(["gate", "--http", "127.0.0.1:0"])
        .env("AANA_BRIDGE_TOKEN", GATE_TOKEN)
        .env("AANA_RATE_LIMIT_PER_MINUTE", checks.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("cargo built the program");
    let mut log = BufReader::new(gate.stderr.take().expect("piped")).lines();
    let listening = async {
        loop {
            let line = log.next_line().await.expect("text").expect("the gate listens");
            if let Some((_, address)) = line.split_once("http://") {
                return address.trim().to_owned();
            }
        }
    };
    let address = timeout(GATE_WITHIN, listening).await.expect("the gate starts in time");
    (gate, address)
}

/// G answer 10: another gate is asked as well: its yes runs the tool, everything else stops it, and the call goes on.
async fn another_gate_is_asked_as_well_and_no_answer_is_a_refusal() {
    let (mut gate, address) = other_gate(1).await;
    // The other gate is another process: the default of half a second is a refusal where that is late.
    let sections = format!(
        "policy: {{ gate: {{ remote: {{ url: \"http://{address}/pre-tool-check\", token: {GATE_TOKEN}, timeout: 8s }} }} }}"
    );
    let setting = Setting {
        tools: &[("track_parcel", TRACK_PARCEL), ("balance", BALANCE)],
        offered: "track_parcel, balance, hangup_call",
        sections: &sections,
        tenant: TRUSTED,
        ..Setting::default()
    };
    let scene = Scene::start(setting).await;
    let phone = scene.call("7000").await;
    // What the built-in gate stops is not even asked about.
    assert_eq!(kind(&scene.tool("balance", json!({})).await), "DEFERRED");
    let output = scene.tool("track_parcel", json!({ "parcel": "PX-1" })).await;
    assert_eq!(kind(&output), "OK", "both say yes: {output}");
    assert_eq!(scene.service.requests().len(), 1);
    scene.caller_says("And the other one?");
    let output = scene.tool("track_parcel", json!({ "parcel": "PX-2" })).await;
    assert_eq!(kind(&output), "REFUSED", "the other gate says no: {output}");
    gate.kill().await.expect("its own child");
    let output = scene.tool("track_parcel", json!({ "parcel": "PX-3" })).await;
    assert_eq!(kind(&output), "REFUSED", "the other gate is down: {output}");
    assert_eq!(scene.service.requests().len(), 1);
    let routes: Vec<_> = scene.audits().iter().map(|audit| audit["gate_decision"].clone()).collect();
    assert_eq!(routes, ["fail", "pass", "fail", "fail"]);
    phone.wait_to_hear(AGENT_HZ, ms(1_100), SOON).await;
    scene.ends(phone).await;
    scene.is_private(&[GATE_TOKEN, "PX-"]).await;
}

crate::scenes! {
    both:
        authorization_is_believed_from_a_trusted_context_of_the_dialplan_alone;
    // The other gate is a program.
    only_real:
        another_gate_is_asked_as_well_and_no_answer_is_a_refusal;
}
