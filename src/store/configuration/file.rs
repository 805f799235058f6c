//! The file itself, and the folder of its versions beside it: `offhook.yaml.versions/`, for nobody else to read. Each version
//! is a file of its own, the text as it was; its name says when, which text, and who: `TIME_VERSION_ACCOUNT.yaml`.

use crate::{
    http::{ConfigurationError, TEXT_BYTES_MAX},
    wall_clock,
};
use jiff::Timestamp;
use rustix::fs::{Access, access};
use sha2::{Digest as _, Sha256};
use std::{
    fmt::Write as _,
    fs::{self, DirBuilder, File, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// Weeks of work on it; each is some kilobytes.
const VERSIONS_MAX: usize = 50;
/// A folder with more in it is not a folder of versions.
const ENTRIES_MAX: usize = 1_000;
/// Letters of a text's version that stand in a name: enough to tell fifty apart.
const SHORT: usize = 16;
/// Letters of an account's name.
const NAME_MAX: usize = 64;
const ENDING: &str = ".yaml";
const TIME: &str = "%Y%m%dT%H%M%S.%3fZ";

pub(super) struct Home {
    file: PathBuf,
}

/// A version as its name tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub id: String,
    pub at: Timestamp,
    pub by: Option<String>,
    short: String,
}

impl Kept {
    fn read(name: &str) -> Option<Self> {
        let id = name.strip_suffix(ENDING)?;
        let mut parts = id.splitn(3, '_');
        let (time, short, by) = (parts.next()?, parts.next()?, parts.next()?);
        let (seconds, millis) = time.strip_suffix('Z')?.split_once('.')?;
        let at = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S", seconds).ok()?;
        let at = at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        let at = at + jiff::SignedDuration::from_millis(millis.parse().ok().filter(|millis| *millis < 1_000)?);
        let by = (!by.is_empty()).then(|| by.to_owned());
        Some(Self { id: id.to_owned(), at, by, short: short.to_owned() })
    }

    /// Whether it is the text of this version.
    pub fn is_of(&self, version: &str) -> bool {
        version.get(..SHORT) == Some(&self.short)
    }
}

/// Of a text.
pub(super) fn version_of(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, byte| {
        // A text takes everything.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

impl Home {
    pub fn new(file: PathBuf) -> Self {
        Self { file }
    }

    pub fn shown(&self) -> String {
        self.file.display().to_string()
    }

    pub fn read(&self) -> Result<String, ConfigurationError> {
        read(&self.file).map_err(self.cannot("be read"))
    }

    pub fn changed_at(&self) -> Option<Timestamp> {
        Timestamp::try_from(fs::metadata(&self.file).ok()?.modified().ok()?).ok()
    }

    /// Why it cannot be changed here, as far as that shows without trying.
    pub fn read_only(&self) -> Option<String> {
        let found = self.real().and_then(|file| Ok((fs::metadata(&file)?, folder(&file))));
        let (metadata, folder) = match found {
            Ok(found) => found,
            Err(error) => return Some(format!("{} cannot be read: {error}", self.shown())),
        };
        if metadata.mode() & 0o222 == 0 {
            return Some(format!("{} is for reading only", self.shown()));
        }
        let mounted = fs::metadata(&folder).is_ok_and(|folder| folder.dev() != metadata.dev());
        if mounted {
            return Some(format!("{} is mounted as a single file; mount its folder instead", self.shown()));
        }
        let writable = access(&folder, Access::WRITE_OK | Access::EXEC_OK);
        writable.err().map(|error| format!("the folder {} is not for offhook to write in: {error}", folder.display()))
    }

    /// Replaces the text. Whoever reads meanwhile, and whoever starts after a crash, finds the old one or the new one.
    pub fn write(&self, text: &str) -> Result<(), ConfigurationError> {
        let write = || {
            let file = self.real()?;
            let before = fs::metadata(&file)?;
            put(&file, text, |new| {
                // Only root may give a file away; for all others it stays the engine's own.
                let _ = fchown(new, Some(before.uid()), Some(before.gid()));
                new.set_permissions(Permissions::from_mode(before.mode() & 0o7777))
            })
        };
        write().map_err(self.cannot("be written"))
    }

    /// Keeps what somebody wrote into the file without being asked who they are.
    pub fn keep_found(&self, text: &str) -> Result<(), ConfigurationError> {
        let version = version_of(text);
        if self.versions()?.iter().any(|kept| kept.is_of(&version)) {
            return Ok(());
        }
        self.keep(text, None, self.changed_at().unwrap_or_else(wall_clock::now), text)
    }

    /// A moment behind the newest version: names tell the order, also of two in one millisecond, and when the clock was put back.
    pub fn next_moment(&self) -> Result<Timestamp, ConfigurationError> {
        let newest = self.versions()?.first().map(|kept| kept.at + jiff::SignedDuration::from_millis(1));
        Ok(newest.into_iter().fold(wall_clock::now(), Timestamp::max))
    }

    /// The oldest give way, except for what was just replaced: whoever did that can still go back.
    pub fn keep(&self, text: &str, by: Option<&str>, at: Timestamp, replaced: &str) -> Result<(), ConfigurationError> {
        let keep = || -> io::Result<()> {
            let folder = self.versions_folder()?;
            if !folder.exists() {
                DirBuilder::new().mode(0o700).create(&folder)?;
            }
            let version = version_of(text);
            let short = version.get(..SHORT).unwrap_or_default();
            let name = format!("{}_{short}_{}{ENDING}", at.strftime(TIME), in_a_name(by.unwrap_or_default()));
            put(&folder.join(name), text, |new| new.set_permissions(Permissions::from_mode(0o600)))?;
            let replaced = version_of(replaced);
            for old in self.list()?.into_iter().skip(VERSIONS_MAX).filter(|old| !old.is_of(&replaced)) {
                fs::remove_file(folder.join(old.id + ENDING))?;
            }
            Ok(())
        };
        keep().map_err(self.cannot("be kept among its versions"))
    }

    /// The newest first.
    pub fn versions(&self) -> Result<Vec<Kept>, ConfigurationError> {
        self.list().map_err(self.cannot("tell its versions"))
    }

    /// Only what is in the list is a version: no name that somebody sends becomes a path.
    pub fn version(&self, id: &str) -> Result<Option<(Kept, String)>, ConfigurationError> {
        let Some(kept) = self.versions()?.into_iter().find(|kept| kept.id == id) else { return Ok(None) };
        let text = self.versions_folder().and_then(|folder| read(&folder.join(format!("{}{ENDING}", kept.id))));
        Ok(Some((kept, text.map_err(self.cannot("tell this version"))?)))
    }

    fn list(&self) -> io::Result<Vec<Kept>> {
        let entries = match fs::read_dir(self.versions_folder()?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.take(ENTRIES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut found: Vec<Kept> = names.filter_map(|name| Kept::read(&name)).collect();
        found.sort_by(|a, b| b.id.cmp(&a.id));
        Ok(found)
    }

    /// Where the file is: a link stays one.
    fn real(&self) -> io::Result<PathBuf> {
        fs::canonicalize(&self.file)
    }

    fn versions_folder(&self) -> io::Result<PathBuf> {
        let mut name = self.real()?.into_os_string();
        name.push(".versions");
        Ok(name.into())
    }

    fn cannot(&self, what: &'static str) -> impl Fn(io::Error) -> ConfigurationError {
        move |error| ConfigurationError::Storage(format!("{} cannot {what}: {error}", self.shown()))
    }
}

/// Accounts' names are fit for it, unless somebody wrote the file of accounts by hand.
fn in_a_name(account: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@') { c } else { '-' };
    account.chars().map(fit).take(NAME_MAX).collect()
}

fn folder(file: &Path) -> PathBuf {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

fn read(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(file)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > TEXT_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {} KiB", TEXT_BYTES_MAX >> 10)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text in UTF-8"))
}

/// Whole or not at all, and on the disk when it is done.
fn put(target: &Path, text: &str, prepare: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let folder = folder(target);
    let mut file = NamedTempFile::new_in(&folder)?;
    file.write_all(text.as_bytes())?;
    prepare(file.as_file())?;
    file.as_file().sync_all()?;
    file.persist(target)?;
    File::open(&folder)?.sync_all()
}
