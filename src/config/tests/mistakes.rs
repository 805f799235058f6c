//! Every kind of mistake, and that none hides another.

use super::*;
use proptest::prelude::*;

#[test]
fn many_mistakes_at_once_are_all_told() {
    let told = problems(
        r#"
asterisk:
  password: ${ARI_PASSWROD}
  user: anna
limits:
  calls: many
default_context: recption
providers:
  front: { scripted: }
contexts:
  reception:
    prompt: Be kind.
    provider: frnt
    tools: [hangup_call, trasfer]
"#,
    );
    insta::assert_snapshot!(told, @"");
}
