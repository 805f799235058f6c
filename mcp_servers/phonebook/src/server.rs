//! The tools that a client sees.

use crate::{
    book::Book,
    number::{DiallingPlan, NotANumber, Number, TEXT_MAX},
    store::{Added, Contact, Entry},
    text::{self, COMPANY_MAX, NAME_MAX, NOTE_MAX, SEARCH_MAX},
};
use rmcp::{
    Json, ServerHandler,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    model::{Implementation, ServerCapabilities, ServerConfig},
    tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone)]
pub struct Phonebook {
    book: Book,
    plan: DiallingPlan,
    tool_router: ToolRouter<Self>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ByNumber {
    /// The number as the telephone network gives it, such as "+49 30 1234" or "030 1234"
    #[schemars(length(max = TEXT_MAX))]
    number: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ByText {
    /// Part of a person's or a company's name
    #[schemars(length(min = 1, max = SEARCH_MAX))]
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewContact {
    /// The telephone number, best with its country code
    #[schemars(length(min = 1, max = TEXT_MAX))]
    number: String,
    /// The person's name
    #[schemars(length(min = 1, max = NAME_MAX))]
    name: String,
    /// The company the person works for
    #[serde(default)]
    #[schemars(length(max = COMPANY_MAX))]
    company: String,
    /// What should be known before talking to the person
    #[serde(default)]
    #[schemars(length(max = NOTE_MAX))]
    note: String,
    /// Whether the person is to be treated with preference
    #[serde(default)]
    vip: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewNote {
    /// The telephone number of a contact
    #[schemars(length(min = 1, max = TEXT_MAX))]
    number: String,
    /// The new note, in place of the old one; empty for none
    #[schemars(length(max = NOTE_MAX))]
    note: String,
}

/// A contact as clients see it; what is not known is left out.
#[derive(Serialize, JsonSchema, Default)]
struct Card {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    company: String,
    /// For whoever talks to the person; not to be read out
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
    /// In international form, or an extension
    #[serde(skip_serializing_if = "String::is_empty")]
    number: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    vip: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    found: bool,
    /// A sentence to be spoken
    message: String,
    #[serde(flatten)]
    card: Card,
}

#[derive(Serialize, JsonSchema)]
struct Matches {
    contacts: Vec<Card>,
    /// Whether there are more than are shown
    more: bool,
    /// A sentence to be spoken
    message: String,
}

#[derive(Serialize, JsonSchema)]
struct Changed {
    changed: bool,
    /// A sentence to be spoken
    message: String,
}

impl From<Contact> for Card {
    fn from(contact: Contact) -> Self {
        let Contact { number, name, company, note, vip } = contact;
        Self { name, company, note, number, vip: Some(vip) }
    }
}

impl Found {
    fn nobody(message: &str, number: Option<Number>) -> Json<Self> {
        let number = number.map(|number| number.as_str().to_owned()).unwrap_or_default();
        Json(Self { found: false, message: message.into(), card: Card { number, ..Card::default() } })
    }
}

// The error of a tool is told as the text of a result with `isError`. The macro reads the schema of results off
// the words of the type: an alias would hide it.
#[tool_router(router = reading)]
impl Phonebook {
    /// Tells who a telephone number belongs to. A withheld or unknown number is a normal result with found: false.
    #[tool(annotations(
        title = "Find by number",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn find_by_number(
        &self,
        Parameters(ByNumber { number }): Parameters<ByNumber>,
    ) -> Result<Json<Found>, String> {
        let number = match self.number(&number) {
            Ok(number) => number,
            Err(Unread::TooLong(why)) => return Err(why),
            Err(Unread::No(NotANumber::Withheld)) => {
                return Ok(Found::nobody("The caller's number is withheld.", None));
            }
            Err(Unread::No(_)) => {
                return Ok(Found::nobody("That is not a telephone number that can be looked up.", None));
            }
        };
        let wanted = number.clone();
        let found = self.book.run(move |store| store.find(&wanted)).await.map_err(failed)?;
        Ok(match found {
            None => Found::nobody("That number is not in the phone book.", Some(number)),
            Some(contact) => {
                let message = text::sentence(&text::spoken(&contact));
                Json(Found { found: true, message, card: contact.into() })
            }
        })
    }

    /// Finds contacts by a part of their name or company, at most ten.
    #[tool(annotations(
        title = "Search",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn search(&self, Parameters(ByText { text }): Parameters<ByText>) -> Result<Json<Matches>, String> {
        let text = text::checked("text", &text, SEARCH_MAX)?;
        if text.is_empty() {
            return Err("text: it is empty; give a part of a name or a company".into());
        }
        let (contacts, more) = self.book.run(move |store| store.search(&text)).await.map_err(failed)?;
        let names: Vec<String> = contacts.iter().map(text::spoken).collect();
        let message = match (names.len(), more) {
            (0, _) => "Nobody of that name is in the phone book.".into(),
            (_, false) => text::sentence(&names.join(", ")),
            (_, true) => format!("{}, and more.", names.join(", ")),
        };
        Ok(Json(Matches { contacts: contacts.into_iter().map(Card::from).collect(), more, message }))
    }
}

#[tool_router(router = writing)]
impl Phonebook {
    /// Adds a contact. A number that is somebody's already stays as it is.
    #[tool(annotations(
        title = "Add a contact",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn add_contact(&self, Parameters(new): Parameters<NewContact>) -> Result<Json<Changed>, String> {
        let number = self.number(&new.number).map_err(|why| format!("number: {}", why.told()))?;
        let name = text::checked("name", &new.name, NAME_MAX)?;
        if name.is_empty() {
            return Err("name: it is empty".into());
        }
        let company = Some(text::checked("company", &new.company, COMPANY_MAX)?);
        let note = Some(text::checked("note", &new.note, NOTE_MAX)?);
        let entry = Entry { number, name, company, note, vip: Some(new.vip) };
        let added = self.book.run(move |store| store.add(entry)).await.map_err(failed)?;
        let (changed, message) = match added {
            Added::Done(contact) => (true, format!("{} is in the phone book now.", text::spoken(&contact))),
            Added::Taken(contact) => (false, format!("That number is already there, as {}", text::spoken(&contact))),
        };
        Ok(Json(Changed { changed, message: text::sentence(&message) }))
    }

    /// Replaces the note about the contact with this number.
    #[tool(annotations(
        title = "Set a note",
        read_only_hint = false,
        destructive_hint = true,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn set_note(
        &self,
        Parameters(NewNote { number, note }): Parameters<NewNote>,
    ) -> Result<Json<Changed>, String> {
        let number = self.number(&number).map_err(|why| format!("number: {}", why.told()))?;
        let note = text::checked("note", &note, NOTE_MAX)?;
        let contact = self.book.run(move |store| store.set_note(&number, &note)).await.map_err(failed)?;
        let message = match &contact {
            Some(contact) => format!("The note about {} is set.", text::spoken(contact)),
            None => "That number is not in the phone book.".into(),
        };
        Ok(Json(Changed { changed: contact.is_some(), message }))
    }
}

impl Phonebook {
    /// `writable` adds the tools that change the book.
    pub fn new(book: Book, plan: DiallingPlan, writable: bool) -> Self {
        let tool_router = if writable { Self::reading() + Self::writing() } else { Self::reading() };
        Self { book, plan, tool_router }
    }

    fn number(&self, text: &str) -> Result<Number, Unread> {
        if text.chars().count() > TEXT_MAX {
            return Err(Unread::TooLong(format!("number: more than {TEXT_MAX} characters")));
        }
        Number::parse(text, &self.plan).map_err(Unread::No)
    }
}

/// Why there is no number to look for.
enum Unread {
    TooLong(String),
    No(NotANumber),
}

impl Unread {
    fn told(&self) -> String {
        match self {
            Self::TooLong(why) => why.clone(),
            Self::No(why) => why.to_string(),
        }
    }
}

/// For the client, and for the log of whoever runs the server: neither says what was asked for.
fn failed(error: anyhow::Error) -> String {
    let error = format!("the phone book cannot be used: {error:#}");
    eprintln!("phonebook: {error}");
    error
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Phonebook {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")))
            .with_instructions("The telephone directory of a company: who calls, and how somebody is reached.")
    }
}
