//! Callers whom a client identifies: what tools may read of them.

use super::{price::registered_with, *};
use crate::vam::price;
use tempfile::TempDir;

/// A client that shows it is believed who its callers are.
const TRUSTED: &str = "token-of-a-bank-4711";

/// An engine whose agent asks for a price, which is told to callers alone who are identified.
async fn engine(folder: &TempDir) -> Engine {
    let more = format!(", trusted_tokens: [{TRUSTED}], sessions: {{ context: farm, hosted: india_only }}");
    let call = r#"{ call: { tool: enam_mandi_price, arguments: { crop: wheat, mandi: Pune } } }"#;
    let agents = format!(
        "providers: {{ asks: {{ scripted: {{ script: [{call}, {{ tone: {{ hertz: 440, for: 400ms }} }}, silence] }} }} }}\n\
         tools: {{ enam_mandi_price: {{ access: private_read }} }}\n\
         contexts: {{ farm: {{ prompt: A, provider: asks, tools: [enam_mandi_price] }} }}\n"
    );
    super::engine(folder.path(), &more, &agents).await
}

fn converses(token: &str, authorization: &str) -> Value {
    let mut talk = price::converses(false, 1.0, json!([]));
    talk["session"]["auth_token"] = token.into();
    talk["session"]["metadata"] = json!({ "authorization": authorization });
    talk
}

#[test]
fn a_caller_is_who_a_trusted_client_says_and_no_other_client() {
    virtual_time::run(|| async {
        let folder = TempDir::new().unwrap();
        let engine = engine(&folder).await;
        let calls = registered_with(&engine, action_server().await).await;
        for (token, says, is_believed) in [
            (TOKEN, "authenticated", false),
            // Only the caller can say so.
            (TRUSTED, "confirmed", false),
            (TRUSTED, "authenticated", true),
        ] {
            let before = calls.lock().unwrap().len();
            let told = ask(&engine, json!([converses(token, says)])).await.remove(0);
            let ran = calls.lock().unwrap().len() > before;
            let named = told["init"]["degraded_capabilities"].to_string().contains("metadata.authorization");
            assert_eq!((ran, named), (is_believed, !is_believed), "{says} by {token}: {told}");
        }
        engine.stop().await;
    });
}
