//! Servers that sessions bring, beside each other and beside registered ones.

use super::*;
use crate::{config::Residency, vam::Agreed};

/// A gateway whose calls have every tool at once.
fn gateway() -> (Arc<ActionServers>, Arc<Fleet>, Arc<TempDir>) {
    let Gateway { servers, fleet, folder, .. } = Gateway::new(LOCAL);
    servers.attach(Arc::new(|exposed| Some(owned(exposed.strip_prefix("mcp_")?.strip_suffix("_lookup")?))));
    (Arc::new(servers), fleet, folder)
}

/// V answer 8: one session's servers have different tools; another session's do not count, and for who registers all of them do.
#[tokio::test]
async fn within_a_session_a_name_is_of_one_server() {
    let (one, two) = (endpoint(json!([tool("lookup")])).await, endpoint(json!([tool("lookup")])).await);
    let (servers, fleet, _folder) = gateway();
    let (session, other) = (Agreed::of_tests(Residency::OnPrem), Agreed::of_tests(Residency::OnPrem));
    let visit = async |agreed: &Agreed, address: SocketAddr| servers.visit(agreed, &at(address)).await.map_err(drop);
    let first = visit(&session, one).await.expect("nobody else has it");
    assert!(visit(&session, two).await.is_err(), "its only tool has the name of another's");
    let second = visit(&other, two).await.expect("another session has no other");
    assert!(visit(&session, two).await.is_err(), "also when it is here already");
    let market = || manifest("market", at(one), Vec::new());
    let refused = servers.register(market()).await.unwrap();
    let why = "lookup: another tool has this name already: one of a server that a session has brought";
    assert_eq!((refused.success, refused.message.as_str()), (false, why));
    drop((first, second));
    assert!(servers.register(market()).await.unwrap().success, "the name is free again");
    fleet.stop().await;
}
