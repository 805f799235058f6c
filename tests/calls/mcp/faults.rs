//! Servers that rage while somebody is on the telephone.

use super::*;
use crate::calls::kit::audio::Span;

/// With hardly a pause between two starts, and as many as there is time for.
const RESTLESS: &str = ", restart: { backoff_ms: 10, max_restarts: 1000 }";
/// What is allowed for caches, logs and answers under way; a leak of one of these floods is past it in seconds.
const GROWTH_MAX: f64 = 96e6;

/// M5: servers that print without end on either output, never answer, end every second and send results of 10 MB into
/// another call: who is on the telephone hears every frame, the engine stays ready, and its memory bounded.
async fn a_call_notices_nothing_of_servers_that_rage() {
    let asterisk = Asterisk::start(Options::default()).await;
    let place = Place::free();
    let modes = ["noise", "megabytes", "stderr-flood", "exit-every-second", "mute", "exit", "many", "crumbs"];
    let raging: String =
        modes.iter().map(|mode| format!("    {}: {}\n", mode.replace('-', "_"), faulty(mode, "", RESTLESS))).collect();
    // Other arguments each time: what has failed twice is not asked a third time.
    let asks: String = (0..60)
        .map(|n| format!("{{ call: {{ tool: mcp_huge_huge, arguments: {{ n: {n} }} }} }}, {{ tone: {{ hertz: 900, for: 200ms }} }}, "))
        .collect();
    let yaml = format!(
        "{}default_context: front\nproviders:\n  tone: {{ scripted: {{ script: [{{ tone: {{ hertz: {AGENT_HZ}, for: 60s }} }}] }} }}\n  \
         asker: {{ scripted: {{ script: [{asks}] }} }}\n\
         policy: {{ budgets: {{ retrieval: 100, total: 100 }} }}\n\
         contexts:\n  front: {{ prompt: Test, provider: tone, tools: [mcp_noise_echo] }}\n  \
         support: {{ prompt: Test, provider: asker, tools: [mcp_huge_huge] }}\n\
         mcp:\n  servers:\n    huge: {}\n{raging}",
        place.yaml(Some(&asterisk)),
        faulty("huge-result", "", ""),
    );
    let offhook = Offhook::launch(place, &yaml, Launch { log: "info", ..Launch::default() }).await;
    offhook.wait_ready(true).await;
    offhook.wait_metric("ai_agent_mcp_server_up{server=\"huge\"}", 1.0, PATIENCE).await;
    let restarts = |server: &str| format!("ai_agent_mcp_server_restarts_total{{server=\"{server}\"}}");
    offhook.wait_metric(&restarts("exit_every_second"), 1.0, PATIENCE).await;
    let huge = "ai_agent_mcp_tool_calls_total{server=\"huge\",status=\"error\",tool=\"huge\"}";
    let mut other = Phone::call(asterisk.sip_port(), "7001", silence(ms(60_000))).await;
    offhook.wait_metric(huge, 1.0, SOON).await;

    let before = offhook.metric("process_resident_memory_bytes").await;
    let (results, ended) = (offhook.metric(huge).await, offhook.metric(&restarts("exit_every_second")).await);
    let mut phone = Phone::call(asterisk.sip_port(), "7000", silence(ms(60_000))).await;
    phone.wait_to_hear(AGENT_HZ, ms(300), SOON).await;
    let until = Instant::now() + ms(6_000);
    while Instant::now() < until {
        let (status, body) = offhook.page("ready").await;
        assert_eq!(status, 200, "{body}");
        tokio::time::sleep(ms(100)).await;
    }
    // 10 MB, again and again.
    offhook.wait_metric(huge, results + 3.0, PATIENCE).await;
    phone.hang_up().await;
    other.hang_up().await;

    let heard = phone.heard();
    let spans: Vec<Span> = heard.spans_of(AGENT_HZ);
    assert_eq!(spans.len(), 1, "the tone without a hole: {spans:?}");
    assert!(spans[0].length() >= ms(6_000), "{spans:?}");
    let after = offhook.metric("process_resident_memory_bytes").await;
    println!("{:.0} MB before, {:.0} MB after", before / 1e6, after / 1e6);
    assert!(after - before < GROWTH_MAX, "{before} bytes before, {after} after");
    // They did rage.
    offhook.wait_metric(&restarts("exit_every_second"), ended + 2.0, SOON).await;
    offhook.wait_metric(&restarts("megabytes"), 1.0, SOON).await;
    let log = offhook.log();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert!(lines("something happened, and something else") >= 20 && lines("no JSON at all, only words") >= 20);
    assert!(lines("printed more lines than are logged") >= 2);
    assert!(log.len() < 4_000_000, "{} bytes of log", log.len());
}

crate::scenes! {
    // MCP servers are programs of their own, which work while no clock of ours holds.
    only_real:
        a_call_notices_nothing_of_servers_that_rage;
}
