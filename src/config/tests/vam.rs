//! The section `vam`: what is right, and every mistake told with its place.

use super::{mistakes::told, *};

/// What is said about a section that is written so.
fn about(section: &str) -> String {
    problems_with(&format!("vam: {{ {section} }}\n"))
}

const TOKEN: &str = "tokens: [a-token-of-the-tests]";

fn vam(section: &str) -> VamConfig {
    loaded(&format!("{SMALL}vam: {{ {TOKEN}, {section} }}\n")).vam.unwrap()
}

/// V9, V answer 3: without another word an action may take 5 s, and callers' words stay in India.
#[test]
fn what_is_not_written_is_as_the_specification_has_it() {
    let written = vam("");
    assert_eq!((written.action_timeout.as_millis(), written.residency), (5_000, Residency::IndiaOnly));
    assert!(written.bind.ip().is_loopback() && written.allowed_hosts.is_empty() && written.action_servers.is_empty());
    assert!(loaded(SMALL).vam.is_none() && written.sessions.is_none());
    let sessions = vam("sessions: {}").sessions.unwrap();
    assert_eq!((sessions.hosted, sessions.ttl.as_secs(), sessions.limit), (Residency::Any, 3_600, 200));
}

#[test]
fn mistakes_of_the_section_are_told_with_their_place() {
    let cases = [
        "",
        "tokens: []",
        "tokens: [short]",
        "tokens: [a-token-of-the-tests, a-token-of-the-tests]",
        "tokens: [a-token-of-the-tests], trusted_tokens: [a-token-of-the-tests, short]",
        "tokens: ['a token of the tests']",
        "tokens: [a-token-of-the-tests], residency: eu_only",
        "tokens: [a-token-of-the-tests], action_timeout: 0s",
        "tokens: [a-token-of-the-tests], bind: '0.0.0.0:50051'",
        "tokens: [a-token-of-the-tests], tls: { certificate: missing.pem }",
        "tokens: [a-token-of-the-tests], allowed_hosts: ['https://tools.example.in', tools.example.in]",
        "tokens: [a-token-of-the-tests], action_servers: { tax: { env: { A: b } } }",
        "tokens: [a-token-of-the-tests], action_servers: { tax: { command: [] } }",
        "tokens: [a-token-of-the-tests], limits: { action_servers: 0, message_bytes: 1 }",
        "tokens: [a-token-of-the-tests], hosts: []",
        "tokens: [a-token-of-the-tests], sessions: { context: desc, hosted: here, limit: 0, ttl: 0s }",
        "tokens: [a-token-of-the-tests], sessions: { languages: [hi-IN, Hindi, 'hi_IN', h] }",
    ];
    insta::assert_snapshot!(told(&cases, about));
}

/// A token is in no message and in no debug print.
#[test]
fn tokens_are_not_shown() {
    assert!(!about("tokens: [swordfish]").contains("swordfish"));
    assert!(!format!("{:?}", vam("")).contains("a-token-of-the-tests"));
}

/// Names that action servers may bring can be listed, and given rules; with no section they are nobody's.
#[test]
fn contexts_list_what_action_servers_may_bring() {
    let with = |section: &str, tool: &str| format!("{SMALL}    tools: [{tool}]\n{section}");
    let section = format!("vam: {{ {TOKEN} }}\n");
    assert_eq!(problems(&with(&section, "enam_mandi_price, mcp_vam_market_book")), "none");
    let rules = format!("{section}tools: {{ mcp_vam_market_book: {{ access: write }} }}\n");
    assert_eq!(problems(&with(&rules, "mcp_vam_market_book")), "none");
    assert!(loaded(&with(&rules, "mcp_vam_market_book")).warnings.is_empty());
    let warned = loaded(&with(&section, "enam_mandi_price, mcp_vam_market_book")).warnings;
    assert_eq!(warned.len(), 1, "only the tool that nobody has classified");
    assert!(warned[0].to_string().contains("\"mcp_vam_market_book\" is not classified and will never run"));
    for unknown in ["mcp_vam_", "mcp_vam_market", "mcp_other_book"] {
        assert!(problems(&with(&section, unknown)).contains("unknown tool"), "{unknown}");
    }
    assert!(problems(&with("", "enam_mandi_price")).contains("unknown tool"));
}

/// Nobody takes the names of registered servers by writing one down.
#[test]
fn servers_of_the_configuration_have_other_names_than_registered_ones() {
    let servers = format!("vam: {{ {TOKEN} }}\nmcp: {{ servers: {{ vam_market: {{ command: [x] }} }} }}\n");
    assert_eq!(
        problems_with(&servers),
        "test.yaml:8: mcp.servers.vam_market: names that begin with vam_ are those of registered action servers"
    );
}
