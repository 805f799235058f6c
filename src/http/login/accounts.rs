//! Who may log in: a file of names, roles and hashes of passwords, with the tokens of programs.
//!
//! `offhook run` makes the first account, `offhook account` and `offhook token` change the file, and a running engine sees that
//! within a second. The engine itself writes it where somebody makes a token on the page or by the API. The file is written
//! whole, for nobody else to read.

use super::{password, tokens::KeptToken};
use arc_swap::ArcSwap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};
use tracing::warn;

/// The name that the first start makes.
pub const FIRST: &str = "admin";
/// A file that somebody changed is seen after this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for another program that is changing the file, which takes milliseconds on a disk that works.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);
const LOCK_RETRY: Duration = Duration::from_millis(20);
/// A thousand accounts have a fifth of it.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
const NAME_BYTES_MAX: usize = 64;

/// What somebody may do; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees what happens and what happened, in figures: no words, names or numbers of callers.
    Viewer,
    /// Sees all of a call, and may end one.
    Operator,
    /// May delete records and change how the engine runs.
    Admin,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|role| role.label() == text);
        known.ok_or_else(|| "expected viewer, operator or admin".into())
    }
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    pub role: Role,
    /// In PHC's string format.
    pub(super) password: String,
}

impl Account {
    /// Another one after every change of the account; a session that began with another one is over.
    pub(super) fn stamp(&self) -> [u8; 32] {
        Sha256::new().chain_update(self.role.label()).chain_update([0]).chain_update(&self.password).finalize().into()
    }
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Book {
    accounts: BTreeMap<String, Account>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tokens: BTreeMap<String, KeptToken>,
    /// Whether this is what the file says, or that there is none; `false` before the first look, and for a file that makes no sense.
    #[serde(skip)]
    pub(super) is_known: bool,
}

/// Why the accounts could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("{file}: {error}; http.accounts must be a file that this user may read and write")]
    File { file: String, error: io::Error },
    #[error("{file} is no file of accounts: {error}; mend it, or move it away and start anew")]
    Unreadable { file: String, error: String },
    #[error("a name has 1 to {NAME_BYTES_MAX} letters, digits, dots, hyphens, underscores or at signs")]
    Name,
    #[error("there is an account of this name")]
    Exists,
    #[error("there is no account of this name; `offhook account list` tells all")]
    Unknown,
    #[error("there is a token of this name; remove it first")]
    TokenExists,
    #[error("there is no token of this name; `offhook token list` tells all")]
    UnknownToken,
    #[error("there are {most} tokens, as many as may be; remove one first")]
    TooManyTokens { most: usize },
    #[error("another change of the accounts is under way and has not ended; nothing was changed, try again")]
    Busy,
    #[error("this is the last account with the role admin: make another one first")]
    LastAdmin,
    #[error(transparent)]
    Password(#[from] password::Unfit),
}

/// State of the file, to tell one from another: `None` where there is no file.
type Seen = Option<(u64, u64, i64, i64)>;

/// Result of the last look at the file.
#[derive(Default)]
struct Looked {
    /// State of the file that the book was read from; `None` before the first read, and after a change by this process.
    seen: Option<Seen>,
    /// Whether the last look failed: the log is told once.
    failed: bool,
}

pub struct Accounts {
    file: PathBuf,
    pub(super) book: ArcSwap<Book>,
    /// Locked from the file's state to the stored book, so that an older book never replaces a newer one.
    looked: Mutex<Looked>,
    /// End of the last look.
    looked_at: Mutex<Option<Instant>>,
    /// Turn to look at the file; requests wait for it without a thread of their own.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// One permit: one change waits for other programs, and parks a thread; further ones are refused at once.
    waiting: Semaphore,
}

impl Accounts {
    /// Reads nothing yet.
    pub fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            book: ArcSwap::default(),
            looked: Mutex::default(),
            looked_at: Mutex::default(),
            turn: Arc::default(),
            waiting: Semaphore::new(1),
        }
    }

    pub fn path(&self) -> &Path {
        &self.file
    }

    /// What is typed in a shell to do something to these accounts, such as `list`: the program and the file as this process was
    /// told them, so it has to be typed in the folder where that was started.
    pub fn command(&self, action: &str) -> String {
        self.command_of(&format!("account {action}"))
    }

    /// Like `command`, for the token of this name.
    pub fn revocation(&self, token: &str) -> String {
        self.command_of(&format!("token remove {token}"))
    }

    fn command_of(&self, words: &str) -> String {
        let called = std::env::args().next().unwrap_or_default();
        // A program that has this engine inside has a name of its own.
        let program = if Path::new(&called).ends_with("offhook") { quoted(&called) } else { "offhook".into() };
        format!("{program} {words} --accounts {}", quoted(&self.shown()))
    }

    /// The command that lets somebody in who has no password, as far as is known: the first account, or another password.
    pub fn rescue(&self) -> String {
        let nobody = self.book.load().accounts.is_empty() && self.list().is_ok_and(|all| all.is_empty());
        self.command(&if nobody { format!("add {FIRST} --role admin") } else { format!("password {FIRST}") })
    }

    /// Makes the first account where there is none, and returns its password, which is nowhere else.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn first(&self) -> Result<Option<String>, AccountError> {
        if !self.read()?.accounts.is_empty() {
            return Ok(None);
        }
        let password = password::random();
        self.add(FIRST, Role::Admin, &password)?;
        Ok(Some(password))
    }

    /// Everybody's name and role.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(&self) -> Result<Vec<(String, Role)>, AccountError> {
        Ok(self.read()?.accounts.into_iter().map(|(name, account)| (name, account.role)).collect())
    }

    /// # Errors
    /// When the name is taken or no name, the password is too weak, or the file cannot be written.
    pub fn add(&self, name: &str, role: Role, password: &str) -> Result<(), AccountError> {
        fit_name(name)?;
        let password = password::hash(password)?;
        self.change(|book| match book.accounts.contains_key(name) {
            true => Err(AccountError::Exists),
            false => {
                book.accounts.insert(name.to_owned(), Account { role, password });
                Ok(())
            }
        })
    }

    /// Ends the account's sessions as well.
    ///
    /// # Errors
    /// When there is no such account, the password is too weak, or the file cannot be written.
    pub fn set_password(&self, name: &str, password: &str) -> Result<(), AccountError> {
        let password = password::hash(password)?;
        self.change(|book| {
            book.accounts.get_mut(name).ok_or(AccountError::Unknown)?.password = password;
            Ok(())
        })
    }

    /// Ends the account's sessions as well.
    ///
    /// # Errors
    /// When there is no such account, it is the last admin, or the file cannot be written.
    pub fn set_role(&self, name: &str, role: Role) -> Result<(), AccountError> {
        self.change(|book| {
            let account = book.accounts.get_mut(name).ok_or(AccountError::Unknown)?;
            let was = std::mem::replace(&mut account.role, role);
            book.keeps_an_admin(was)
        })
    }

    /// # Errors
    /// When there is no such account, it is the last admin, or the file cannot be written.
    pub fn remove(&self, name: &str) -> Result<(), AccountError> {
        self.change(|book| {
            let gone = book.accounts.remove(name).ok_or(AccountError::Unknown)?;
            book.keeps_an_admin(gone.role)
        })
    }

    /// As the file was when it was last looked at.
    pub(super) fn get(&self, name: &str) -> Option<Account> {
        self.book.load().accounts.get(name).cloned()
    }

    /// Looks at the file if that is some time ago.
    pub(super) async fn refresh(self: &Arc<Self>) {
        if !self.is_due() {
            return;
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // Another request may have looked while this one waited.
        if self.is_due() {
            let accounts = Arc::clone(self);
            let look = move || {
                accounts.look();
                drop(turn);
            };
            // The turn goes with the look, which ends also where nobody waits for it any more.
            let _ = tokio::task::spawn_blocking(look).await;
        }
    }

    fn is_due(&self) -> bool {
        let looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY)
    }

    /// A file that cannot be read leaves the accounts as they were, and the next look tries again.
    fn look(&self) {
        let mut looked = self.looked();
        match self.read_unless(looked.seen) {
            Ok(None) => looked.failed = false,
            Ok(Some((seen, book))) => {
                self.book.store(Arc::new(book));
                *looked = Looked { seen: Some(seen), failed: false };
            }
            Err(error) => {
                if !std::mem::replace(&mut looked.failed, true) {
                    warn!(%error, "the file of accounts cannot be read; who may log in stays as it was");
                }
            }
        }
        *self.looked_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Reads the file and its state, unless it is in the state that was seen before.
    fn read_unless(&self, before: Option<Seen>) -> Result<Option<(Seen, Book)>, AccountError> {
        let seen = match fs::metadata(&self.file) {
            Ok(file) => Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(self.file_error()(error)),
        };
        if before == Some(seen) {
            return Ok(None);
        }
        let book = match self.read() {
            Err(error @ AccountError::Unreadable { .. }) => {
                warn!(%error, "nobody can log in");
                Book::default()
            }
            read => read?,
        };
        Ok(Some((seen, book)))
    }

    fn looked(&self) -> std::sync::MutexGuard<'_, Looked> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> String {
        self.file.display().to_string()
    }

    fn file_error(&self) -> impl Fn(io::Error) -> AccountError {
        let file = self.shown();
        move |error| AccountError::File { file: file.clone(), error }
    }

    pub(super) fn read(&self) -> Result<Book, AccountError> {
        let file = match fs::File::open(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Book { is_known: true, ..Book::default() });
            }
            opened => opened.map_err(self.file_error())?,
        };
        let mut text = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut text).map_err(self.file_error())?;
        let book: Book = serde_json::from_slice(&text)
            .map_err(|error| AccountError::Unreadable { file: self.shown(), error: error.to_string() })?;
        Ok(Book { is_known: true, ..book })
    }

    /// One change after the other, also by several programs; the file is always whole.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut Book) -> Result<(), AccountError>,
    ) -> Result<(), AccountError> {
        self.change_within(LOCK_WAIT_MAX, change)
    }

    fn change_within(
        &self,
        wait: Duration,
        change: impl FnOnce(&mut Book) -> Result<(), AccountError>,
    ) -> Result<(), AccountError> {
        let parent = self.file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = parent.unwrap_or(Path::new("."));
        let one_at_a_time = fs::File::open(folder).map_err(self.file_error())?;
        self.lock(&one_at_a_time, wait)?;
        let mut book = self.read()?;
        change(&mut book)?;
        let text = serde_json::to_string_pretty(&book).unwrap_or_default();
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o600))?;
            // Root may change it for an engine that is somebody else, who has to be able to read it.
            if rustix::process::geteuid().is_root()
                && let Ok(before) = fs::metadata(&self.file).or_else(|_| fs::metadata(folder))
            {
                fchown(file.as_file(), Some(before.uid()), Some(before.gid()))?;
            }
            writeln!(file, "{text}")?;
            file.as_file().sync_all()?;
            file.persist(&self.file)?;
            one_at_a_time.sync_all()
        };
        write().map_err(self.file_error())?;
        let mut looked = self.looked();
        self.book.store(Arc::new(book));
        // Somebody may have written the file since by hand: the next look reads it.
        looked.seen = None;
        Ok(())
    }

    /// Locks the folder until it is closed.
    #[allow(
        clippy::disallowed_methods,
        reason = "on a thread for what blocks; nothing tells when another program lets go"
    )]
    fn lock(&self, folder: &fs::File, wait: Duration) -> Result<(), AccountError> {
        let _turn = self.waiting.try_acquire().map_err(|_| AccountError::Busy)?;
        let began = std::time::Instant::now();
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) if began.elapsed() < wait => std::thread::sleep(LOCK_RETRY),
                Err(TryLockError::WouldBlock) => return Err(AccountError::Busy),
                Err(TryLockError::Error(error)) => return Err(self.file_error()(error)),
            }
        }
    }
}

impl Book {
    /// After an account that had this role was changed.
    fn keeps_an_admin(&self, was: Role) -> Result<(), AccountError> {
        let admins = self.accounts.values().filter(|account| account.role == Role::Admin).count();
        if was == Role::Admin && admins == 0 { Err(AccountError::LastAdmin) } else { Ok(()) }
    }
}

/// Tells whether an account or a token may have this name.
pub(super) fn fit_name(name: &str) -> Result<(), AccountError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    let is_fit = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(good);
    if is_fit { Ok(()) } else { Err(AccountError::Name) }
}

/// As a shell reads it back.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text.into() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests;
