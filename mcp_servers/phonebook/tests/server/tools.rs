//! The tools as an MCP client meets them.

use super::support::{Client, Desk};
use serde_json::{Value, json};

const CONTACTS: &str = "number,name,company,note,vip
030 23125 010,Anna Meier,Meier Ltd.,Call back after two,yes
030 23125 011,Jürgen Öztürk,Übersee GmbH,,
+44 20 7946 0123,Carol Whitfield,100% Freight_Co,,no
6001,Front desk,,,
";

async fn filled(more: &[&str]) -> (Desk, Client) {
    let desk = Desk::new();
    desk.import(CONTACTS).await;
    let client = Client::start(desk.phonebook(more)).await;
    (desk, client)
}

fn names(found: &Value) -> Vec<&str> {
    found["contacts"].as_array().unwrap().iter().map(|contact| contact["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_number_in_any_form_finds_its_owner_with_a_sentence_to_speak() {
    let (_desk, client) = filled(&[]).await;
    for number in ["+493023125010", "0049 30 23125-010", "030/23125010", "+49 (0)30 23125 010", "493023125010"] {
        let found = client.call("find_by_number", json!({ "number": number })).await;
        assert_eq!(
            found,
            json!({
                "found": true, "message": "Anna Meier of Meier Ltd.", "name": "Anna Meier", "company": "Meier Ltd.",
                "note": "Call back after two", "number": "+493023125010", "vip": true,
            }),
            "{number}"
        );
    }
    let desk = client.call("find_by_number", json!({ "number": "sip:6001@pbx.example" })).await;
    assert_eq!(
        desk,
        json!({ "found": true, "message": "Front desk.", "name": "Front desk", "number": "6001", "vip": false })
    );
}

#[tokio::test]
async fn a_number_that_is_nobodys_or_is_withheld_is_a_normal_result() {
    let (_desk, client) = filled(&[]).await;
    let stranger = client.call("find_by_number", json!({ "number": "030 23125 099" })).await;
    let message = "That number is not in the phone book.";
    assert_eq!(stranger, json!({ "found": false, "message": message, "number": "+493023125099" }));
    for number in ["", "anonymous", "Anonymous", "unknown", "<unknown>", "sip:anonymous@anonymous.invalid"] {
        let found = client.call("find_by_number", json!({ "number": number })).await;
        assert_eq!(found, json!({ "found": false, "message": "The caller's number is withheld." }), "{number:?}");
    }
    for number in ["{caller_number}", "Anna", "+", "+49 30 23125 010 or so"] {
        let found = client.call("find_by_number", json!({ "number": number })).await;
        assert_eq!(found["found"], false, "{number:?}");
        assert_eq!(found["message"], "That is not a telephone number that can be looked up.", "{number:?}");
    }
}

#[tokio::test]
async fn a_search_takes_any_part_of_a_name_or_company_in_any_case() {
    let (_desk, client) = filled(&[]).await;
    for (text, expected) in [
        ("meier", vec!["Anna Meier"]),
        ("ÖZTÜRK", vec!["Jürgen Öztürk"]),
        ("übersee", vec!["Jürgen Öztürk"]),
        (" a ", vec!["Anna Meier", "Carol Whitfield"]),
        ("100%", vec!["Carol Whitfield"]),
        ("%", vec!["Carol Whitfield"]),
        ("t_c", vec!["Carol Whitfield"]),
        ("a_n", vec![]),
        ("zebra", vec![]),
    ] {
        let found = client.call("search", json!({ "text": text })).await;
        assert_eq!((names(&found), &found["more"]), (expected, &json!(false)), "{text:?}");
    }
    let found = client.call("search", json!({ "text": "MEIER" })).await;
    assert_eq!(found["message"], "Anna Meier of Meier Ltd.");
    assert_eq!(found["contacts"][0]["number"], "+493023125010");
    let nobody = client.call("search", json!({ "text": "zebra" })).await;
    assert_eq!(nobody["message"], "Nobody of that name is in the phone book.");
}

#[tokio::test]
async fn a_search_shows_ten_and_says_when_there_are_more() {
    let desk = Desk::new();
    let rows = |count: u32| -> String { (0..count).map(|row| format!("60{row:02},Person {row:02}\n")).collect() };
    for (count, shown, more) in [(10, 10, false), (11, 10, true), (40, 10, true)] {
        desk.import(&format!("number,name\n{}", rows(count))).await;
        let client = Client::start(desk.phonebook(&[])).await;
        let found = client.call("search", json!({ "text": "person" })).await;
        assert_eq!((names(&found).len(), &found["more"]), (shown, &json!(more)), "{count} rows");
        assert_eq!(names(&found)[..2], ["Person 00", "Person 01"]);
        assert_eq!(found["message"].as_str().unwrap().ends_with(", and more."), more);
    }
}

#[tokio::test]
async fn tools_that_write_are_there_only_when_asked_for_and_are_marked_as_such() {
    let hints = |tools: Vec<Value>| -> Vec<(String, Value)> {
        let hint = |tool: &Value| {
            let hints = &tool["annotations"];
            let all =
                ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"].map(|key| hints[key].clone());
            (tool["name"].as_str().unwrap().to_owned(), json!(all))
        };
        tools.iter().map(hint).collect()
    };
    let reads = |name: &str| (name.to_owned(), json!([true, false, true, false]));
    let (desk, reader) = filled(&[]).await;
    assert_eq!(hints(reader.tools().await), [reads("find_by_number"), reads("search")]);
    let refusal = reader.refused("add_contact", json!({ "number": "6002", "name": "Eve" })).await;
    assert!(refusal.contains("not found"), "{refusal}");

    let writer = Client::start(desk.phonebook(&["--writable"])).await;
    assert_eq!(
        hints(writer.tools().await),
        [
            ("add_contact".to_owned(), json!([false, false, true, false])),
            reads("find_by_number"),
            reads("search"),
            ("set_note".to_owned(), json!([false, true, true, false])),
        ]
    );
}

#[tokio::test]
async fn every_declaration_says_what_the_tool_does_and_limits_its_arguments() {
    let (_desk, client) = filled(&["--writable"]).await;
    for tool in client.tools().await {
        let (input, output) = (&tool["inputSchema"], &tool["outputSchema"]);
        assert!(tool["description"].as_str().is_some_and(|words| words.len() > 20), "{tool}");
        assert_eq!((&input["type"], &output["type"]), (&json!("object"), &json!("object")), "{tool}");
        assert_eq!(input["additionalProperties"], false, "{tool}");
        for (name, property) in input["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{name} of {tool}");
            assert!(property["type"] != "string" || property["maxLength"].is_u64(), "{name} of {tool}");
        }
        assert!(output["properties"]["message"].is_object(), "{tool}");
    }
}

#[tokio::test]
async fn a_contact_is_added_once_and_its_note_is_replaced() {
    let (_desk, client) = filled(&["--writable"]).await;
    let new =
        json!({ "number": "0171 39200 01", "name": " Eve Adler ", "company": "Adler", "note": "New", "vip": true });
    let added = client.call("add_contact", new.clone()).await;
    assert_eq!(added, json!({ "changed": true, "message": "Eve Adler of Adler is in the phone book now." }));
    let again = client.call("add_contact", new).await;
    assert_eq!(again, json!({ "changed": false, "message": "That number is already there, as Eve Adler of Adler." }));

    let set = json!({ "number": "+49 171 3920001", "note": "Moved" });
    for _ in 0..2 {
        let done = client.call("set_note", set.clone()).await;
        assert_eq!(done, json!({ "changed": true, "message": "The note about Eve Adler of Adler is set." }));
    }
    let found = client.call("find_by_number", json!({ "number": "01713920001" })).await;
    assert_eq!((&found["note"], &found["vip"], &found["name"]), (&json!("Moved"), &json!(true), &json!("Eve Adler")));
    client.call("set_note", json!({ "number": "01713920001", "note": "" })).await;
    assert!(client.call("find_by_number", json!({ "number": "01713920001" })).await.get("note").is_none());

    let nobody = client.call("set_note", json!({ "number": "030 23125 099", "note": "x" })).await;
    assert_eq!(nobody, json!({ "changed": false, "message": "That number is not in the phone book." }));
}

#[tokio::test]
async fn bad_arguments_are_refused_in_words_that_name_them_and_the_server_goes_on() {
    let (_desk, client) = filled(&["--writable"]).await;
    let long = |length| "7".repeat(length);
    for (tool, arguments, word) in [
        ("find_by_number", json!({}), "number"),
        ("find_by_number", json!({ "number": 4930 }), "string"),
        ("find_by_number", json!({ "number": long(129) }), "number: more than 128 characters"),
        ("find_by_number", json!({ "number": "6001", "country": "DE" }), "country"),
        ("search", json!({ "text": "" }), "text: it is empty"),
        ("search", json!({ "text": " \t" }), "text: it is empty"),
        ("search", json!({ "text": long(101) }), "text: more than 100 characters"),
        ("search", json!({ "text": "a\u{0}b" }), "text: it holds a control character"),
        ("add_contact", json!({ "number": "anonymous", "name": "Eve" }), "number: the number is withheld"),
        ("add_contact", json!({ "number": "Eve", "name": "Eve" }), "number: this is no telephone number"),
        ("add_contact", json!({ "number": "6002", "name": " " }), "name: it is empty"),
        ("add_contact", json!({ "number": "6002", "name": long(101) }), "name: more than 100 characters"),
        ("add_contact", json!({ "number": "6002", "name": "Eve", "note": long(1001) }), "note: more than 1000"),
        ("add_contact", json!({ "number": "6002", "name": "Eve", "company": "a\nb" }), "company: it holds"),
        ("set_note", json!({ "number": "6001", "note": long(1001) }), "note: more than 1000 characters"),
        ("no_such_tool", json!({}), "not found"),
    ] {
        let told = client.refused(tool, arguments.clone()).await;
        assert!(told.contains(word), "{tool} {arguments}: {told}");
    }
    assert_eq!(client.call("find_by_number", json!({ "number": "6001" })).await["found"], true);
    assert_eq!(client.call("find_by_number", json!({ "number": "6002" })).await["found"], false);
}

#[tokio::test]
async fn text_that_looks_like_sql_is_only_text() {
    let (_desk, client) = filled(&["--writable"]).await;
    let evil = "'; DROP TABLE contacts; --\" OR 1=1";
    assert_eq!(client.call("find_by_number", json!({ "number": evil })).await["found"], false);
    assert_eq!(names(&client.call("search", json!({ "text": evil })).await), Vec::<&str>::new());
    let new = json!({ "number": "6666", "name": evil, "company": evil, "note": evil });
    assert_eq!(client.call("add_contact", new).await["changed"], true);
    assert_eq!(names(&client.call("search", json!({ "text": evil })).await), [evil]);
    assert_eq!(client.call("set_note", json!({ "number": "6666", "note": format!("{evil}2") })).await["changed"], true);
    assert_eq!(client.call("find_by_number", json!({ "number": "6001" })).await["name"], "Front desk");
}
