//! What of a server is taken, and what is not.

use super::*;
use crate::config::Reach;

/// V1, V14, V16, V17, V answer 7: a tool of the registry that keeps to it is accepted under the registry's name, whatever its
/// schema says to readers.
#[tokio::test]
async fn a_tool_of_the_registry_that_conforms_is_called_as_the_registry_calls_it() {
    let address = endpoint(json!([of_registry("enam_mandi_price"), of_registry("bhashini_translate")])).await;
    let gateway = Gateway::new(LOCAL);
    let tools = vec![declared("enam_mandi_price", true), declared("bhashini_translate", true)];
    let answer = gateway.register(manifest("market", at(address), tools)).await;
    assert!(answer.success, "{answer:?}");
    assert_eq!(answer.registered_tools, ["enam_mandi_price", "bhashini_translate"]);
    assert!(answer.rejected_tools.is_empty() && answer.message.is_empty() && answer.registered_at.is_some());
    assert_eq!(gateway.tools().await, ["bhashini_translate", "enam_mandi_price"]);
    gateway.fleet.stop().await;
}

/// V17, V answer 7: any difference from the registry's schema names the tool among the rejected; the others stay.
#[tokio::test]
async fn tools_that_deviate_from_the_registry_are_rejected_by_name() {
    let deviations: [fn(&mut Value); 7] = [
        |schema| schema["required"] = json!(["crop", "mandi", "state"]),
        |schema| schema["required"] = json!(["crop"]),
        |schema| schema["properties"]["crop"]["maxLength"] = 5.into(),
        |schema| schema["properties"]["district"] = json!({ "type": "string" }),
        |schema| drop(schema["properties"].as_object_mut().unwrap().remove("state")),
        |schema| schema["additionalProperties"] = false.into(),
        |schema| schema["properties"]["crop"]["type"] = json!(["string", "null"]),
    ];
    for (index, deviate) in deviations.into_iter().enumerate() {
        let mut odd = of_registry("enam_mandi_price");
        deviate(&mut odd["inputSchema"]);
        let address = endpoint(json!([odd, of_registry("bhashini_translate")])).await;
        let gateway = Gateway::new(LOCAL);
        let tools = vec![declared("enam_mandi_price", true), declared("bhashini_translate", true)];
        let answer = gateway.register(manifest("market", at(address), tools)).await;
        assert!(answer.success, "{index}");
        assert_eq!(answer.rejected_tools, ["enam_mandi_price"], "{index}");
        assert_eq!(answer.message, "enam_mandi_price: its inputSchema differs from that of the registry", "{index}");
        gateway.fleet.stop().await;
    }
}

/// V17: each tool of the registry, for itself: one that conforms is accepted, and one with an argument that is missing or one too
/// many, another type, pattern or choice, or another word about what is required is rejected, by its name.
#[tokio::test]
async fn each_tool_of_the_registry_is_held_to_its_own_schema() {
    type Deviation = (&'static str, fn(&mut Value, &str));
    let deviations: [Deviation; 8] = [
        ("an argument is missing", |schema, name| drop(schema["properties"].as_object_mut().unwrap().remove(name))),
        ("another is there", |schema, _| schema["properties"]["district"] = json!({ "type": "string" })),
        ("another type", |schema, name| schema["properties"][name]["type"] = "integer".into()),
        ("an enum", |schema, name| schema["properties"][name]["enum"] = json!(["one"])),
        ("another pattern", |schema, name| schema["properties"][name]["pattern"] = "^.*$".into()),
        ("less is required", |schema, _| drop(schema["required"].as_array_mut().unwrap().pop())),
        ("more is required", |schema, _| schema["required"].as_array_mut().unwrap().push("district".into())),
        ("nothing is said of it", |schema, _| drop(schema.as_object_mut().unwrap().remove("required"))),
    ];
    let gateway = Gateway::new(&format!("{LOCAL}, action_servers: {{ all: {{ high_sensitivity: true }} }}"));
    let register = async |tool: Value, key: &str| {
        let address = endpoint(json!([tool])).await;
        gateway.register(manifest("all", at(address), vec![declared(key, true)])).await
    };
    for key in india::keys() {
        let answer = register(of_registry(key), key).await;
        assert_eq!((answer.success, answer.registered_tools), (true, vec![key.to_owned()]), "{}", answer.message);
        let schema = &india::canonical(key).unwrap().schema;
        for name in schema["properties"].as_object().unwrap().keys() {
            for (what, deviate) in deviations {
                let mut odd = of_registry(key);
                deviate(&mut odd["inputSchema"], name);
                let answer = register(odd, key).await;
                assert!(!answer.success, "{key}.{name}: {what}");
                assert_eq!(answer.rejected_tools, [key], "{key}.{name}: {what}");
                let message = format!("{key}: its inputSchema differs from that of the registry");
                assert_eq!(answer.message, message, "{key}.{name}: {what}");
            }
        }
    }
    gateway.fleet.stop().await;
}

/// V answers 7, 8: whose tools are all rejected is not registered; a tool that the server has not, and a key that the registry
/// has not, are rejected.
#[tokio::test]
async fn a_server_without_a_tool_that_can_be_used_is_refused() {
    let address = endpoint(json!([tool("lookup")])).await;
    let gateway = Gateway::new(LOCAL);
    let mut odd = declared("lookup", true);
    odd.registry_key = "upi_payment_initiate".into();
    let answer = gateway.register(manifest("bank", at(address), vec![odd, declared("missing", false)])).await;
    assert!(!answer.success);
    assert_eq!(answer.rejected_tools, ["lookup", "missing"]);
    assert!(answer.message.contains("lookup: the registry has no tool of this key"), "{}", answer.message);
    assert!(gateway.servers.list("").is_empty() && gateway.servers.servers().is_empty());
}

/// V answer 7: a name of the registry that is not declared as one of it is the server's own, under its prefix; without any
/// declaration all of a server's tools are its own.
#[tokio::test]
async fn a_custom_tool_is_under_the_prefix_of_its_server() {
    let address = endpoint(json!([of_registry("enam_mandi_price"), tool("lookUp")])).await;
    let gateway = Gateway::new(LOCAL);
    let answer = gateway.register(manifest("Market.1", at(address), Vec::new())).await;
    assert_eq!(answer.registered_tools, ["enam_mandi_price", "lookUp"]);
    assert_eq!(gateway.tools().await, ["mcp_vam_market_1_enam_mandi_price", "mcp_vam_market_1_look_up"]);
    gateway.fleet.stop().await;
}

/// V21, V answer 18: a tool of high sensitivity needs the operator's word about its server.
#[tokio::test]
async fn a_tool_of_high_sensitivity_needs_the_operators_word() {
    let address = endpoint(json!([of_registry("pan_validate")])).await;
    let tax = || manifest("tax", at(address), vec![declared("pan_validate", true)]);
    let without = Gateway::new(LOCAL).register(tax()).await;
    assert_eq!((without.success, without.rejected_tools), (false, vec!["pan_validate".to_owned()]));
    assert!(without.message.contains("vam.action_servers.tax.high_sensitivity"), "{}", without.message);
    let gateway = Gateway::new(&format!("{LOCAL}, action_servers: {{ tax: {{ high_sensitivity: true }} }}"));
    assert!(gateway.register(tax()).await.success);
    assert_eq!(gateway.tools().await, ["pan_validate"]);
    gateway.fleet.stop().await;
}

/// V answer 6: only hosts that the operator allows, only commands that the operator wrote, and nothing else at all.
#[tokio::test]
async fn endpoints_that_the_operator_did_not_allow_are_refused() {
    let address = endpoint(json!([tool("lookup")])).await;
    let gateway = Gateway::new("allowed_hosts: [tools.example.in, localhost]");
    for uri in [
        at(address),
        "stdio:market".into(),
        "stdio:sh -c id".into(),
        "file:///etc/passwd".into(),
        "gopher://localhost/".into(),
        "http://user:word@localhost/mcp".into(),
        "http://localhost/mcp?key=secret".into(),
        "http://localhost.evil.example/mcp".into(),
        "http:///mcp".into(),
        "localhost/mcp".into(),
        String::new(),
    ] {
        let answer = gateway.register(manifest("market", uri.clone(), Vec::new())).await;
        assert!(!answer.success && answer.message.starts_with("endpoint_uri: "), "{uri}: {}", answer.message);
        assert!(!answer.message.contains("secret") && !answer.message.contains("word@"), "{}", answer.message);
    }
    assert!(gateway.servers.list("").is_empty());
}

/// V answer 4: an endpoint that sends on to another is not followed.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let real = endpoint(json!([tool("lookup")])).await;
    let target = at(real);
    let sends_on =
        Router::new().route("/mcp", post(move || async move { axum::response::Redirect::temporary(&target) }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, sends_on).await });
    let gateway = Gateway::new(LOCAL);
    let answer = gateway.register(manifest("market", at(address), Vec::new())).await;
    assert!(!answer.success && answer.message.starts_with("its tools are not known: "), "{}", answer.message);
}

/// V answer 4: what was found on the local network is held to it at every connection.
#[tokio::test]
async fn an_endpoint_is_kept_where_it_was_found() {
    let address = endpoint(json!([tool("lookup")])).await;
    let gateway = Gateway::new("allowed_hosts: [localhost]");
    let uri = format!("http://localhost:{}/mcp", address.port());
    assert!(gateway.register(manifest("market", uri, Vec::new())).await.success);
    let server = gateway.servers.servers().remove(0);
    let config::McpTransport::Http { reach, .. } = server.transport else { panic!("it is an endpoint") };
    assert_eq!(reach, Reach::Local);
    gateway.fleet.stop().await;
}

/// V5, V answer 6: `stdio:` names a command of the configuration.
#[tokio::test]
async fn a_command_of_the_configuration_registers_by_its_name() {
    let script = crate::project("tests/kit/mcp/faulty.py");
    let gateway = Gateway::new(&format!("action_servers: {{ odd: {{ command: [python3, {script:?}, plain] }} }}"));
    let answer = gateway.register(manifest("odd", "stdio:odd".into(), vec![declared("echo", false)])).await;
    assert!(answer.success, "{}", answer.message);
    assert_eq!(gateway.tools().await, ["mcp_vam_odd_echo"]);
    gateway.fleet.stop().await;
}

/// V answer 8: the same id again replaces; a name that another server has is rejected, and so is an id that is too much like
/// another.
#[tokio::test]
async fn one_name_belongs_to_one_server() {
    let address = endpoint(json!([of_registry("enam_mandi_price"), tool("lookup")])).await;
    let gateway = Gateway::new(LOCAL);
    let price = || vec![declared("enam_mandi_price", true)];
    assert!(gateway.register(manifest("one", at(address), price())).await.success);
    let other = gateway.register(manifest("two", at(address), price())).await;
    assert_eq!(
        (other.success, other.message.as_str()),
        (false, "enam_mandi_price: another tool has this name already: one of \"one\"")
    );
    let like = gateway.register(manifest("One", at(address), Vec::new())).await;
    assert!(!like.success && like.message.contains("too much like \"one\""), "{}", like.message);
    assert!(gateway.register(manifest("one", at(address), vec![declared("lookup", false)])).await.success);
    assert_eq!(gateway.tools().await, ["mcp_vam_one_lookup"]);
    assert!(gateway.register(manifest("two", at(address), price())).await.success, "the name is free again");
    gateway.fleet.stop().await;
}

/// V answer 8: an envelope has a tool's own name and not its server, so that is of one server alone as well, whatever models call
/// it; the answer names who has it.
#[tokio::test]
async fn the_name_in_an_envelope_is_of_one_server() {
    let address = endpoint(json!([of_registry("enam_mandi_price"), tool("lookup"), tool("book")])).await;
    let gateway = Gateway::new(LOCAL);
    let tools = || vec![declared("lookup", false), declared("book", false)];
    assert!(gateway.register(manifest("one", at(address), vec![declared("lookup", false)])).await.success);
    let other = gateway.register(manifest("two", at(address), tools())).await;
    assert_eq!((other.success, other.registered_tools), (true, vec!["book".to_owned()]));
    assert_eq!(other.rejected_tools, ["lookup"]);
    assert_eq!(other.message, "lookup: another tool has this name already: one of \"one\"");
    // A tool of the registry is called by its own name there, too.
    let mut price = declared("lookup", true);
    price.registry_key = "enam_mandi_price".into();
    assert!(!gateway.register(manifest("three", at(address), vec![price])).await.success);
    assert_eq!(gateway.tools().await, ["mcp_vam_one_lookup", "mcp_vam_two_book"]);
    gateway.fleet.stop().await;
}

/// A server that takes its time holds up those that ask the same id for, and nobody else.
#[tokio::test]
async fn a_slow_server_holds_up_nobody_else() {
    let (slow, quick) = (silent().await, endpoint(json!([tool("lookup")])).await);
    let gateway = Arc::new(Gateway::new(LOCAL));
    let waits = tokio::spawn({
        let (gateway, uri) = (Arc::clone(&gateway), at(slow.0));
        async move { gateway.register(manifest("slow", uri, Vec::new())).await }
    });
    slow.1.notified().await;
    assert!(gateway.register(manifest("quick", at(quick), Vec::new())).await.success);
    assert_eq!(gateway.servers.deregister("quick").await, Ok(true));
    assert!(!waits.is_finished(), "it is still being asked");
    waits.abort();
    gateway.fleet.stop().await;
}

/// No more of them are asked at once than there is room for; the next is told so at once.
#[tokio::test]
async fn registrations_at_once_are_limited() {
    let slow = silent().await;
    let gateway = Arc::new(Gateway::new(LOCAL));
    let mut waiting = Vec::new();
    for n in 0..8 {
        let (gateway, uri) = (Arc::clone(&gateway), at(slow.0));
        let register = async move { gateway.register(manifest(&format!("slow{n}"), uri, Vec::new())).await };
        waiting.push(tokio::spawn(register));
        slow.1.notified().await;
    }
    let quick = endpoint(json!([tool("lookup")])).await;
    assert!(gateway.servers.register(manifest("quick", at(quick), Vec::new())).await.is_err());
    waiting.pop().unwrap().abort();
    while gateway.servers.register(manifest("quick", at(quick), Vec::new())).await.is_err() {
        tokio::task::yield_now().await;
    }
    waiting.into_iter().for_each(|task| task.abort());
    gateway.fleet.stop().await;
}

/// All that is wrong is told at once, each with its field, and no more of it than somebody reads.
#[tokio::test]
async fn all_mistakes_of_a_manifest_are_told_at_once() {
    let gateway = Gateway::new(LOCAL);
    let uri = "ftp://user:word@tools.example.in/mcp?key=secret".into();
    let mut odd = manifest("a b", uri, vec![declared("", false), declared("x", false), declared("x", false)]);
    odd.data_residency = "EU_ONLY".into();
    let message = gateway.register(odd).await.message;
    for told in [
        "server_id: ",
        "data_residency: ",
        "tools[0].name: has to be",
        "tools[2].name: is in the list already",
        "endpoint_uri: is no http://",
        "endpoint_uri: must not have a user",
        "endpoint_uri: must not have a query",
        "endpoint_uri: its host is not one",
    ] {
        assert!(message.contains(told), "{told} is not in {message}");
    }
    assert!(!message.contains("secret") && !message.contains("word@"), "{message}");
    let many = manifest("market", "http://127.0.0.1:9/mcp".into(), vec![declared("", false); 50]);
    let message = gateway.register(many).await.message;
    assert!(message.ends_with("; and 83 more") && message.matches("tools[").count() == 16, "{message}");
}

/// V answer 8: names that offhook or a server of the configuration has are taken as well.
#[tokio::test]
async fn a_name_that_calls_know_already_is_rejected() {
    let address = endpoint(json!([tool("lookup")])).await;
    let gateway = Gateway::new(LOCAL);
    gateway.servers.attach(Arc::new(|exposed| (exposed == "mcp_vam_one_lookup").then(|| owned("offhook"))));
    let answer = gateway.register(manifest("one", at(address), Vec::new())).await;
    assert_eq!(answer.rejected_tools, ["lookup"]);
}

/// What is wrong with a manifest is told with its field, and nobody is asked.
#[tokio::test]
async fn manifests_that_cannot_be_right_are_refused_with_their_field() {
    let gateway = Gateway::new(LOCAL);
    let fine = || manifest("market", "http://127.0.0.1:9/mcp".into(), Vec::new());
    let refused = async |change: fn(&mut ActionServerManifest)| {
        let mut odd = fine();
        change(&mut odd);
        gateway.register(odd).await.message
    };
    for (message, field) in [
        (refused(|odd| odd.server_id = String::new()).await, "server_id: "),
        (refused(|odd| odd.server_id = "a b".into()).await, "server_id: "),
        (refused(|odd| odd.server_id = "-".into()).await, "server_id: "),
        (refused(|odd| odd.server_id = "a".repeat(60)).await, "server_id: "),
        (refused(|odd| odd.display_name = "two\nlines".into()).await, "display_name: "),
        (refused(|odd| odd.version = "1".repeat(201)).await, "version: "),
        (refused(|odd| odd.data_residency = "EU_ONLY".into()).await, "data_residency: "),
        (refused(|odd| odd.tools = vec![declared("", false)]).await, "tools[0].name: "),
        (refused(|odd| odd.tools = vec![declared("a", false); 2]).await, "tools[1].name: "),
        (refused(|odd| odd.tools = vec![declared("a", false); 257]).await, "tools: more than 256"),
    ] {
        assert!(message.starts_with(field), "{message:?} does not begin with {field}");
    }
    let message = gateway.register(fine()).await.message;
    let why = message.strip_prefix("its tools are not known: ").expect("nobody answers there");
    assert!(why.contains("error sending request"), "{message}");
}

/// No more servers than the configuration says; one that is there already may register anew.
#[tokio::test]
async fn the_number_of_servers_is_limited() {
    let address = endpoint(json!([tool("lookup")])).await;
    let gateway = Gateway::new(&format!("{LOCAL}, limits: {{ action_servers: 1 }}"));
    assert!(gateway.register(manifest("one", at(address), Vec::new())).await.success);
    let answer = gateway.register(manifest("two", at(address), Vec::new())).await;
    assert_eq!(answer.message, "1 action servers are registered, as many as the gateway takes");
    assert!(gateway.register(manifest("one", at(address), Vec::new())).await.success);
    gateway.fleet.stop().await;
}

/// V18: of a tool that only servers in India may have, an endpoint elsewhere has to say that it is there.
#[test]
fn a_tool_for_servers_in_india_needs_their_word() {
    use crate::{
        tool::mcp::Offered,
        vam::{manifest::sort, registration::Registration},
    };
    let folder = TempDir::new().unwrap();
    let config = config(&folder, "action_servers: { ids: { high_sensitivity: true } }");
    let offered = [Offered::read(&of_registry("ration_card_lookup")).unwrap()];
    let declared = [declared("ration_card_lookup", true)];
    let accepted = |claim: &str, local: bool| {
        let registration = Registration {
            server_id: "ids".into(),
            display_name: String::new(),
            endpoint_uri: "https://ids.example.in/mcp".into(),
            version: String::new(),
            data_residency: claim.into(),
            registered_at: jiff::Timestamp::UNIX_EPOCH,
            local,
            tools: Vec::new(),
        };
        sort(&declared, &offered, &registration, &config, |_, _| None).accepted.len() == 1
    };
    assert_eq!(["", "ANY", "IN_ONLY", "ON_PREM"].map(|claim| accepted(claim, false)), [false, false, true, true]);
    assert!(accepted("", true));
}
