//! API tokens: one for each program, with a name and a role of its own. The file of accounts has their hashes alone.

use super::{
    accounts::{AccountError, Accounts, Role, fit_name},
    sessions::{is_same, random},
};
use crate::wall_clock;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Beginning of every token, so that scanners for leaked secrets know it.
const PREFIX: &str = "offhook-";
/// More programs than ask one engine; the hash of each is compared at every request.
const TOKENS_MAX: usize = 64;

/// Token as the file has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptToken {
    role: Role,
    made: Timestamp,
    /// Account that made the token; `None` for `offhook token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// A token has 256 random bits, so its hash need not be slow.
    sha256: String,
}

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ApiToken {
    pub name: String,
    pub role: Role,
    pub made: Timestamp,
    /// Account that made it; `offhook token` has none.
    pub by: Option<String>,
}

/// Token that a program has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub name: String,
    pub role: Role,
    sha256: String,
}

impl Accounts {
    /// All tokens, by their names.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn tokens(&self) -> Result<Vec<ApiToken>, AccountError> {
        Ok(listed(&self.read()?.tokens))
    }

    /// All tokens as the file was when it was last looked at.
    pub(in crate::http) fn known_tokens(&self) -> Vec<ApiToken> {
        listed(&self.book.load().tokens)
    }

    /// Whether the file is known to have no token, as it was when it was last looked at.
    pub(super) fn has_no_token(&self) -> bool {
        let book = self.book.load();
        book.is_known && book.tokens.is_empty()
    }

    /// Makes a token and returns it; it is nowhere else. `by` is the account that asked for it.
    ///
    /// # Errors
    /// When the name is taken or not one, there are too many tokens, or the file cannot be written.
    pub fn add_token(&self, name: &str, role: Role, by: Option<&str>) -> Result<String, AccountError> {
        fit_name(name)?;
        let token = format!("{PREFIX}{}", random());
        let kept = KeptToken { role, made: wall_clock::now(), by: by.map(str::to_owned), sha256: hash(&token) };
        self.change(|book| {
            if book.tokens.contains_key(name) {
                return Err(AccountError::TokenExists);
            }
            if book.tokens.len() >= TOKENS_MAX {
                return Err(AccountError::TooManyTokens { most: TOKENS_MAX });
            }
            book.tokens.insert(name.to_owned(), kept);
            Ok(())
        })?;
        Ok(token)
    }

    /// Takes a token back: whoever shows it from now on is refused, and connections that are open by it end.
    ///
    /// # Errors
    /// When there is no such token, or the file cannot be written.
    pub fn remove_token(&self, name: &str) -> Result<(), AccountError> {
        self.change(|book| book.tokens.remove(name).map(drop).ok_or(AccountError::UnknownToken))
    }

    /// Finds a token by its secret, as the file was when it was last looked at.
    pub(super) fn by_token(&self, token: &str) -> Option<Shown> {
        let sha256 = hash(token);
        let book = self.book.load();
        let (name, kept) = book.tokens.iter().find(|(_, kept)| is_same(&kept.sha256, &sha256))?;
        Some(Shown { name: name.clone(), role: kept.role, sha256 })
    }

    /// Tells whether a token that was shown is still good.
    pub(super) fn still_has(&self, shown: &Shown) -> bool {
        let is_it = |kept: &KeptToken| kept.sha256 == shown.sha256 && kept.role == shown.role;
        self.book.load().tokens.get(&shown.name).is_some_and(is_it)
    }
}

fn listed(tokens: &std::collections::BTreeMap<String, KeptToken>) -> Vec<ApiToken> {
    let listed = |(name, kept): (&String, &KeptToken)| {
        let KeptToken { role, made, by, sha256: _ } = kept.clone();
        ApiToken { name: name.clone(), role, made, by }
    };
    tokens.iter().map(listed).collect()
}

fn hash(token: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, sync::Arc};
    use tempfile::TempDir;

    fn accounts() -> (TempDir, Arc<Accounts>) {
        let folder = TempDir::new().unwrap();
        let accounts = Arc::new(Accounts::new(&folder.path().join("accounts.json")));
        (folder, accounts)
    }

    #[tokio::test]
    async fn a_token_is_known_by_itself_alone_and_the_file_has_only_its_hash() {
        let (folder, accounts) = accounts();
        accounts.add("ada", Role::Admin, "correct horse battery").unwrap();
        let token = accounts.add_token("wallboard", Role::Viewer, None).unwrap();
        assert!(token.starts_with("offhook-") && token.len() == 51, "{token}");
        accounts.refresh().await;
        let shown = accounts.by_token(&token).unwrap();
        assert_eq!((&*shown.name, shown.role), ("wallboard", Role::Viewer));
        for wrong in ["", "offhook-", "wallboard", &token[8..], &token.to_uppercase(), &hash(&token)] {
            assert_eq!(accounts.by_token(wrong), None, "{wrong}");
        }
        let text = fs::read_to_string(folder.path().join("accounts.json")).unwrap();
        assert!(!text.contains(&token[8..]) && text.contains("wallboard"), "{text}");
        assert_eq!(accounts.list().unwrap().len(), 1, "the accounts are as they were");
    }

    #[tokio::test]
    async fn a_token_that_was_taken_back_or_made_anew_is_not_good_any_more() {
        let (_folder, accounts) = accounts();
        let token = accounts.add_token("wallboard", Role::Operator, None).unwrap();
        accounts.refresh().await;
        let shown = accounts.by_token(&token).unwrap();
        assert!(accounts.still_has(&shown));
        accounts.remove_token("wallboard").unwrap();
        assert!(!accounts.still_has(&shown) && accounts.by_token(&token).is_none());
        accounts.add_token("wallboard", Role::Operator, None).unwrap();
        assert!(!accounts.still_has(&shown) && accounts.by_token(&token).is_none());
    }

    #[tokio::test]
    async fn a_token_tells_who_made_it_and_files_that_do_not_say_are_read() {
        let (folder, accounts) = accounts();
        let file = folder.path().join("accounts.json");
        let made = "2026-11-20T09:30:00Z";
        let older = format!(
            r#"{{"accounts":{{}},"tokens":{{"crm":{{"role":"viewer","made":"{made}","sha256":"{}"}}}}}}"#,
            hash("offhook-older")
        );
        fs::write(file, older).unwrap();
        accounts.add_token("wallboard", Role::Viewer, Some("ada")).unwrap();
        let listed = accounts.tokens().unwrap();
        let by: Vec<_> = listed.iter().map(|token| (&*token.name, token.by.as_deref())).collect();
        assert_eq!(by, [("crm", None), ("wallboard", Some("ada"))]);
        accounts.refresh().await;
        assert!(accounts.by_token("offhook-older").is_some());
        assert_eq!(accounts.known_tokens(), listed);
    }

    #[test]
    fn mistakes_are_told_and_change_nothing() {
        let (_folder, accounts) = accounts();
        accounts.add_token("wallboard", Role::Viewer, None).unwrap();
        let told = |result: Result<(), AccountError>| result.unwrap_err().to_string();
        let made = |name: &str| accounts.add_token(name, Role::Viewer, None).map(drop);
        assert!(told(made("wallboard")).contains("there is a token of this name"));
        assert!(told(made("../wallboard")).contains("a name has"));
        assert!(told(accounts.remove_token("crm")).contains("no token of this name"));
        (1..TOKENS_MAX).for_each(|number| made(&format!("t{number}")).unwrap());
        assert!(told(made("one-more")).contains("64 tokens"));
        assert_eq!(accounts.tokens().unwrap().len(), TOKENS_MAX);
    }
}
