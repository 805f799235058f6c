//! What all pages have around them.

use super::{PAGES, assets, figures, text};
use crate::http::{
    Why,
    login::{CSRF_FIELD, Who},
};
use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use maud::{DOCTYPE, Markup, html};

/// A page of somebody who is logged in. `path` is where it stands in the navigation.
pub fn page(who: &Who, path: &str, title: &str, main: &Markup) -> Markup {
    let header = html! {
        header.top {
            a.brand href="/" { (mark()) "offhook" }
            nav aria-label=(text::NAVIGATION) {
                ul {
                    @for page in PAGES.iter().filter(|page| who.may(page.role)) {
                        li { a href=(page.path) aria-current=[(page.path == path).then_some("page")] { (page.name) } }
                    }
                }
            }
            div.account {
                span title=(text::ROLE) { (who.name) " " span.role { (who.role) } }
                form method="post" action="/logout" { (csrf(who)) button.quiet { (text::LOG_OUT) } }
            }
        }
    };
    document(title, who.csrf(), &html! { (header) main #main tabindex="-1" { (main) } footer { (figures::zone()) } })
}

fn document(title: &str, csrf: &str, body: &Markup) -> Markup {
    let [style, script, icon, _] = assets::paths();
    html! {
        (DOCTYPE)
        html lang=(text::LANGUAGE) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if !csrf.is_empty() { meta name="csrf" content=(csrf); }
                title { (title) " · offhook" }
                link rel="icon" href=(icon);
                link rel="stylesheet" href=(style);
                script type="module" src=(script) {}
            }
            body { a.skip href="#main" { (text::SKIP) } (body) }
        }
    }
}

fn mark() -> Markup {
    html! {
        svg.mark aria-hidden="true" viewBox="0 0 24 24" width="24" height="24" {
            path d="M4 12h1.500M8.500 8v8M12 5v14M15.500 9v6M19 12h1" {}
        }
    }
}

/// What every form that changes something carries.
pub fn csrf(who: &Who) -> Markup {
    html! { input type="hidden" name=(CSRF_FIELD) value=(who.csrf()); }
}

/// `rescue`: the command for somebody without a password.
pub fn log_in(status: StatusCode, next: Option<&str>, wrong: Option<&str>, rescue: &str) -> Response {
    let main = html! {
        main.door #main tabindex="-1" {
            form.card method="post" action="/login" {
                div.brand { (mark()) "offhook" }
                h1 { (text::LOG_IN) }
                @if let Some(wrong) = wrong { p.notice.bad role="alert" { (wrong) } }
                label { span { (text::NAME) } input name="name" autocomplete="username" autocapitalize="none" required autofocus; }
                label { span { (text::PASSWORD) } input name="password" type="password" autocomplete="current-password" required; }
                @if let Some(next) = next { input type="hidden" name="next" value=(next); }
                button { (text::LOG_IN) }
                details.soft { summary { (text::FIRST_TIME) } p { (text::FIRST_TIME_HELP) } p { code { (rescue) } } p { (text::FIRST_TIME_WHERE) } }
            }
        }
    };
    (status, document(text::LOG_IN, "", &main)).into_response()
}

/// A page that says why there is none.
pub fn refusal(who: &Who, status: StatusCode, why: &str) -> Response {
    let title = title(status);
    let main = html! { div.empty { (told(title, why)) } };
    (status, page(who, "", title, &main)).into_response()
}

/// The same for somebody of whom it is not known who they are.
fn refusal_to_anybody(status: StatusCode, why: &str) -> Response {
    let title = title(status);
    let main =
        html! { main.door #main tabindex="-1" { div.card { div.brand { (mark()) "offhook" } (told(title, why)) } } };
    (status, document(title, "", &main)).into_response()
}

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::ACCEPTED | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
            text::NOT_HERE
        }
        _ => text::NOT_DONE,
    }
}

fn told(title: &str, why: &str) -> Markup {
    html! { h1 { (title) } p { (why) } p { a href="/" { (text::TO_LIVE) } } }
}

/// Errors in a browser's window are pages.
pub async fn readable_errors(request: Request, next: Next) -> Response {
    let in_a_window = is_for_a_window(&request);
    let answer = next.run(request).await;
    if in_a_window { readable(answer) } else { answer }
}

/// Browsers ask for what they show in a window as HTML; scripts and programs do not.
fn is_for_a_window(request: &Request) -> bool {
    let kinds = request.headers().get_all(header::ACCEPT).iter().filter_map(|kinds| kinds.to_str().ok());
    let mut kinds = kinds.flat_map(|kinds| kinds.split(','));
    !request.uri().path().starts_with("/api/") && kinds.any(|kind| kind.trim().starts_with("text/html"))
}

/// What is no error, or a page already, stays; so does a report in JSON, such as that of `/ready`.
fn readable(answer: Response) -> Response {
    let status = answer.status();
    let kind = answer.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let why = answer.extensions().get::<Why>().map(|Why(why)| format!("{}.", text::sentence(why)));
    // A request that reached no handler has an answer of the library's, in words for programmers.
    let unhandled = kind.is_none_or(|kind| kind.starts_with(b"text/plain"));
    let why = why.or_else(|| unhandled.then(|| text::wrong(status).to_owned()));
    let Some(why) = why.filter(|_| status.is_client_error() || status.is_server_error()) else { return answer };
    let mut page = match answer.extensions().get::<Who>() {
        Some(who) => refusal(who, status, &why),
        None => refusal_to_anybody(status, &why),
    };
    let of_the_body = [header::CONTENT_TYPE, header::CONTENT_LENGTH];
    let others = answer.headers().iter().filter(|(name, _)| !of_the_body.contains(name));
    page.headers_mut().extend(others.map(|(name, value)| (name.clone(), value.clone())));
    page
}
