//! Each word of the engine moves the metric of that name, and names stay bounded.

use super::*;

#[track_caller]
fn expect_line(metrics: &Metrics, line: &str) {
    let text = metrics.text();
    assert!(text.lines().any(|l| l == line), "no line {line:?} in:\n{text}");
}

#[test]
fn every_ending_stands_at_zero_before_the_first_call() {
    let metrics = Metrics::new("1.2.3");
    for reason in EndReason::all() {
        let (class, label) = (reason.class().label(), reason.label());
        expect_line(&metrics, &format!(r#"offhook_calls_total{{class="{class}",reason="{label}"}} 0"#));
    }
    expect_line(&metrics, r#"offhook_build_info{version="1.2.3"} 1"#);
}

#[test]
fn a_call_is_active_until_its_guard_is_dropped() {
    let metrics = Metrics::new("1.2.3");
    let first = metrics.call_started();
    let second = metrics.call_started();
    drop(first);
    expect_line(&metrics, "offhook_calls_active 1");
    drop(second);
    metrics.call_ended(EndReason::CallerHungUp);
    expect_line(&metrics, "offhook_calls_active 0");
    expect_line(&metrics, r#"offhook_calls_total{class="normal",reason="caller_hung_up"} 1"#);
}

#[test]
fn what_holds_at_a_scrape_is_told_as_it_is() {
    let metrics = Metrics::new("1.2.3");
    metrics.ready([("ari", false), ("media", true), ("providers", true), ("accepting", true)]);
    metrics.calls_limit(200);
    expect_line(&metrics, r#"offhook_ready{check="ari"} 0"#);
    expect_line(&metrics, r#"offhook_ready{check="media"} 1"#);
    expect_line(&metrics, "offhook_calls_limit 200");
    metrics.ready([("ari", true), ("media", true), ("providers", true), ("accepting", true)]);
    expect_line(&metrics, r#"offhook_ready{check="ari"} 1"#);
}

#[test]
fn a_tool_name_the_model_made_up_never_becomes_a_label() {
    let metrics = Metrics::new("1.2.3");
    metrics.know(["transfer"], ["main"]);
    expect_line(&metrics, r#"offhook_tool_calls_total{outcome="done",tool="transfer"} 0"#);
    metrics.tool_call("transfer", ToolCallEnd::Done);
    metrics.tool_call("call +4917012345", ToolCallEnd::Failed(ToolError::NotFound));
    expect_line(&metrics, r#"offhook_tool_calls_total{outcome="done",tool="transfer"} 1"#);
    expect_line(&metrics, r#"offhook_tool_calls_total{outcome="not_found",tool="unknown"} 1"#);
    assert!(!metrics.text().contains("4917012345"));
}

#[test]
fn names_stay_bounded_however_often_a_configuration_is_loaded() {
    let metrics = Metrics::new("1.2.3");
    for generation in 0..1_000 {
        metrics.know([], [format!("provider-{generation}").as_str()]);
    }
    let series = metrics.text().lines().filter(|line| line.starts_with("offhook_tokens_total{")).count();
    assert_eq!(series, 128 * Usage::TOKEN_KINDS.len());
    metrics.used("provider-999", &Usage { output_audio_tokens: 7, ..Usage::default() });
    expect_line(&metrics, r#"offhook_tokens_total{kind="output_audio",provider="unknown"} 7"#);
}

#[test]
fn a_turn_is_told_by_provider_as_a_whole_and_by_its_stages() {
    let metrics = Metrics::new("1.2.3");
    metrics.know([], ["main"]);
    let ms = Duration::from_millis;
    metrics.turn(
        "main",
        &TurnTimes {
            turn: 3,
            endpointing: ms(500),
            thinking: ms(250),
            speaking: ms(90),
            playout: ms(10),
            tools: false,
            filled: false,
        },
    );
    for line in [
        r#"offhook_turn_latency_seconds_bucket{provider="main",le="0.8"} 0"#,
        r#"offhook_turn_latency_seconds_bucket{provider="main",le="0.9"} 1"#,
        r#"offhook_turn_latency_seconds_sum{provider="main"} 0.85"#,
        r#"offhook_turn_stage_seconds_sum{provider="main",stage="endpointing"} 0.5"#,
        r#"offhook_turn_stage_seconds_sum{provider="main",stage="thinking"} 0.25"#,
        r#"offhook_turn_stage_seconds_sum{provider="main",stage="speaking"} 0.09"#,
        r#"offhook_turn_stage_seconds_sum{provider="main",stage="playout"} 0.01"#,
    ] {
        expect_line(&metrics, line);
    }
}

#[test]
fn what_is_paid_for_counts_by_provider_and_costs_only_where_there_is_a_price() {
    let metrics = Metrics::new("1.2.3");
    metrics.know([], ["main", "spare"]);
    metrics.know_price("main", "USD");
    expect_line(&metrics, r#"offhook_cost_total{currency="USD",provider="main"} 0"#);
    let usage = Usage {
        input_text_tokens: 5,
        transcription_output_tokens: 7,
        connected: Duration::from_millis(1_500),
        ..Usage::default()
    };
    metrics.used("main", &usage);
    metrics.cost("main", "USD", 0.25);
    metrics.cost("spare", "USD", 4.0);
    metrics.cost("main", "EUR", 4.0);
    for line in [
        r#"offhook_tokens_total{kind="input_text",provider="main"} 5"#,
        r#"offhook_tokens_total{kind="transcription_output",provider="main"} 7"#,
        r#"offhook_tokens_total{kind="input_text",provider="spare"} 0"#,
        r#"offhook_connected_seconds_total{provider="main"} 1.5"#,
        r#"offhook_cost_total{currency="USD",provider="main"} 0.25"#,
    ] {
        expect_line(&metrics, line);
    }
    assert_eq!(metrics.text().matches("offhook_cost_total{").count(), 1);
}

#[test]
fn each_tool_outcome_counts_under_its_own_name() {
    for error in ToolError::ALL {
        let label = ToolCallEnd::LABELS[ToolCallEnd::Failed(error).index()];
        assert_eq!(label, error.label().to_ascii_lowercase());
    }
    assert_eq!(ToolCallEnd::LABELS[ToolCallEnd::Cancelled.index()], "cancelled");
}

#[test]
fn each_word_of_the_engine_moves_the_metric_of_that_name() {
    let metrics = Metrics::new("1.2.3");
    metrics.call_declined(Declined::Full);
    metrics.context_unknown();
    metrics.setup(Duration::from_millis(40));
    metrics.first_audio(Duration::from_millis(120));
    metrics.barge_in_stop(Duration::from_millis(12));
    metrics.tick(Duration::from_micros(700));
    metrics.slots_missed(2);
    metrics.frames_dropped(FrameDrop::AgentFull, 3);
    metrics.reload(Reload::Refused);
    for line in [
        r#"offhook_calls_declined_total{status="full"} 1"#,
        "offhook_context_unknown_total 1",
        r#"offhook_setup_seconds_bucket{le="0.025"} 0"#,
        r#"offhook_setup_seconds_bucket{le="0.05"} 1"#,
        r#"offhook_first_audio_seconds_bucket{le="0.15"} 1"#,
        r#"offhook_barge_in_stop_seconds_bucket{le="0.015"} 1"#,
        r#"offhook_tick_lateness_seconds_bucket{le="0.0005"} 0"#,
        r#"offhook_tick_lateness_seconds_bucket{le="0.001"} 1"#,
        "offhook_slots_missed_total 2",
        r#"offhook_frames_dropped_total{reason="agent_full"} 3"#,
        r#"offhook_reloads_total{outcome="refused"} 1"#,
        r#"offhook_reloads_total{outcome="loaded"} 0"#,
    ] {
        expect_line(&metrics, line);
    }
}

#[test]
fn the_status_a_dialplan_reads_is_the_label_in_upper_case() {
    for why in Declined::ALL {
        assert_eq!(why.status().to_ascii_lowercase(), why.label());
    }
}
