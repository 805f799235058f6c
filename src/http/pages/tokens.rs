//! Tokens of programs, on *System*, for admins.

use super::{
    figures, shell, system,
    text::{self, operations as words},
};
use crate::http::{
    api::tokens::{NewToken, make, revoke},
    login::{Door, LoggedIn, Role, Who},
    routes::Routes,
    site::App,
};
use axum::{
    Form,
    extract::{State, rejection::FormRejection},
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use serde::Deserialize;

pub fn add(routes: &mut Routes) {
    routes.page(Method::POST, "/system/tokens", Door::Page(Role::Admin), act);
}

/// Form of a button.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
enum Asked {
    Make { name: String, role: Role },
    Revoke { name: String },
}

async fn act(State(app): State<App>, by: LoggedIn, form: Result<Form<Asked>, FormRejection>) -> Response {
    let who = &by.0;
    let Ok(Form(asked)) = form else {
        return shell::refusal(who, StatusCode::BAD_REQUEST, text::LOG_IN_INCOMPLETE);
    };
    let done = match asked {
        Asked::Make { name, role } => {
            let name = name.trim().to_owned();
            make(&app, &by, NewToken { name: name.clone(), role }).await.map(|token| made(&name, &token))
        }
        Asked::Revoke { name } => {
            let told = words::token_revoked(&name);
            revoke(&app, &by, name).await.map(|()| html! { p.notice.good role="status" { (told) } })
        }
    };
    match done {
        Ok(told) => system::show(&app, who, &told).into_response(),
        Err((status, why)) => {
            let told = html! { p.notice.bad role="alert" { (text::sentence(&why)) "." } };
            (status, system::show(&app, who, &told)).into_response()
        }
    }
}

fn made(name: &str, token: &str) -> Markup {
    html! {
        div.notice.good role="status" {
            p { strong { (words::token_made(name)) } }
            pre { code { (token) } }
        }
    }
}

pub fn section(app: &App, who: &Who) -> Markup {
    let tokens = app.gatekeeper.accounts.known_tokens();
    html! {
        section aria-labelledby="tokens" {
            h2 #tokens { (words::TOKENS) }
            p.soft { (words::TOKENS_HELP) }
            @if !tokens.is_empty() {
                div.scroll tabindex="0" role="group" aria-labelledby="tokens" {
                    table.cards {
                        thead { tr {
                            th scope="col" { (text::NAME) }
                            th scope="col" { (words::ROLE) }
                            th scope="col" { (words::MADE) }
                            th scope="col" { (words::MADE_BY) }
                            th scope="col" { span.hidden { (text::ACTION) } }
                        } }
                        tbody { @for token in &tokens {
                            tr {
                                th scope="row" { (token.name) }
                                td data-head=(words::ROLE) { (token.role) }
                                td data-head=(words::MADE) { (figures::moment(token.made)) }
                                td data-head=(words::MADE_BY) { (figures::or_dash(token.by.as_deref())) }
                                td.action {
                                    form method="post" action="/system/tokens" {
                                        (shell::csrf(who))
                                        input type="hidden" name="name" value=(token.name);
                                        button.quiet name="action" value="revoke" { (words::REVOKE) span.hidden { " " (token.name) } }
                                    }
                                }
                            }
                        } }
                    }
                }
            }
            form.filter.card method="post" action="/system/tokens" {
                (shell::csrf(who))
                label { span { (text::NAME) } input name="name" required maxlength="64" autocomplete="off"; }
                label { span { (words::ROLE) } select name="role" { @for role in Role::ALL { option value=(role) { (role) } } } }
                div.buttons { button name="action" value="make" { (words::MAKE_TOKEN) } }
            }
        }
    }
}
