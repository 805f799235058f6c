//! Who asks, and what they may.
//!
//! People log in and have a session in a cookie; programs have a token, of their own or that of `http.admin_token`. Whoever comes with a
//! session and wants to change something has to show that the request comes from one of our own pages: by where the
//! browser says it comes from, and by the session's token against forged requests (CSRF).

mod accounts;
mod attempts;
mod door;
mod pages;
mod password;
mod sessions;
mod tokens;

pub use accounts::{Account, AccountError, Accounts, Role};
pub(super) use door::{CSRF_FIELD, CSRF_HEADER, Door, Gatekeeper, LoggedIn, Who, admit};
pub(super) use pages::{Credentials, Session, log_in, log_in_by_api, log_in_page, log_out, log_out_by_api, session};
pub use password::random as random_password;
pub use tokens::ApiToken;
