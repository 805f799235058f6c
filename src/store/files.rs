//! A tenant's folder: one file per tool, named after it. Files are replaced whole or not at all.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};
use uuid::Uuid;

/// As much as the API takes, and room for an operator's comments.
const FILE_BYTES_MAX: u64 = 512 * 1024;
/// A folder with more in it is not a folder of tools.
const ENTRIES_MAX: usize = 10_000;
/// In the order in which they count when a tool has several: the API writes JSON, operators as they
/// like. So an API's change wins at the very moment its file is there.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];
const TEMPORARY: &str = "tmp";

/// Never leaves its folder: names are checked before they become paths, and a link that leads
/// elsewhere is not followed. (A link inside the folder is: mounted configuration is made of them.)
pub(super) struct Folder {
    root: PathBuf,
}

/// A tool's file as it was read.
pub(super) struct Found {
    pub text: String,
    pub is_json: bool,
    pub modified: SystemTime,
}

/// The names of the tools in a folder, and files that look like tools and are none.
#[derive(Default)]
pub(super) struct Listing {
    pub names: BTreeSet<String>,
    pub misnamed: Vec<String>,
}

/// Lower case with underscores; the first a letter. At most 64, as models' APIs have it.
pub(super) fn is_name(name: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= 64 && name.starts_with(|first: char| first.is_ascii_lowercase()) && name.bytes().all(rest)
}

impl Folder {
    /// For reading: nothing is made and nothing removed, since an engine may be writing here. A folder that is not there
    /// is an empty one.
    pub(super) fn look(path: &Path) -> io::Result<Self> {
        match fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { root: path.to_owned() }),
            root => Ok(Self { root: root? }),
        }
    }

    /// Makes the folder if it is not there, and clears away what a crash has left.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let folder = Self { root: fs::canonicalize(path)? };
        for entry in fs::read_dir(&folder.root)?.take(ENTRIES_MAX) {
            let path = entry?.path();
            let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if is_hidden && path.extension().is_some_and(|ending| ending == TEMPORARY) {
                fs::remove_file(&path)?;
            }
        }
        Ok(folder)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn list(&self) -> io::Result<Listing> {
        let mut listing = Listing::default();
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            entries => entries?,
        };
        for (count, entry) in entries.enumerate() {
            if count >= ENTRIES_MAX {
                return Err(io::Error::other("the folder has too many entries"));
            }
            let file = entry?.file_name().to_string_lossy().into_owned();
            match file.rsplit_once('.') {
                Some((name, ending)) if ENDINGS.contains(&ending) && !name.starts_with('.') => {
                    if is_name(name) {
                        listing.names.insert(name.to_owned());
                    } else {
                        listing.misnamed.push(file);
                    }
                }
                _ => {}
            }
        }
        Ok(listing)
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.root.join(format!("{name}.{ending}"))
    }

    /// Whether the name is taken, by a file that can be read or by one that cannot.
    pub(super) fn has(&self, name: &str) -> bool {
        is_name(name) && ENDINGS.iter().any(|ending| self.path(name, ending).symlink_metadata().is_ok())
    }

    pub(super) fn read(&self, name: &str) -> io::Result<Option<Found>> {
        if !is_name(name) {
            return Ok(None);
        }
        for ending in ENDINGS {
            let path = self.path(name, ending);
            match path.symlink_metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            let real = fs::canonicalize(&path)?;
            let metadata = fs::metadata(&real)?;
            if !real.starts_with(&self.root) || !metadata.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not a file of this folder"));
            }
            let mut text = String::new();
            File::open(&real)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
            if text.len() as u64 > FILE_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too long"));
            }
            return Ok(Some(Found { text, is_json: ending == "json", modified: metadata.modified()? }));
        }
        Ok(None)
    }

    /// Writes `name.json`. Whoever reads meanwhile, and whoever starts after a crash, finds the old
    /// file or the new one.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        if !is_name(name) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a tool's name"));
        }
        let temporary = self.root.join(format!(".{name}.{}.{TEMPORARY}", Uuid::new_v4().simple()));
        let written = self.write_through(&temporary, &self.path(name, "json"), text);
        if written.is_err() {
            // It may never have been there; the first error is the one that matters.
            let _ = fs::remove_file(&temporary);
        }
        written?;
        for ending in ["yaml", "yml"] {
            remove(&self.path(name, ending))?;
        }
        self.sync()
    }

    fn write_through(&self, temporary: &Path, target: &Path, text: &str) -> io::Result<()> {
        // Definitions may hold keys of services; `create_new` follows no link.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(temporary, target)?;
        self.sync()
    }

    /// The JSON file goes last: until then the tool is there as it was.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        if is_name(name) {
            for ending in ENDINGS.iter().rev() {
                remove(&self.path(name, ending))?;
            }
        }
        self.sync()
    }

    /// A rename or a removal is on the disk once the folder is.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.root)?.sync_all()
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(&dir.path().join("tools")).unwrap();
        (dir, folder)
    }

    fn text(folder: &Folder, name: &str) -> Option<String> {
        folder.read(name).unwrap().map(|found| found.text)
    }

    #[test]
    fn names_are_lower_case_with_underscores() {
        for good in ["a", "save_meal", "x2", &"a".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "_a", "2x", "A", "save-meal", "a.b", "a/b", "..", "../a", "a\0", "ä", &"a".repeat(65)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_an_operators_yaml_gives_way() {
        let (_dir, folder) = folder();
        fs::write(folder.root.join("meal.yaml"), "old").unwrap();
        assert_eq!(text(&folder, "meal").as_deref(), Some("old"));
        folder.write("meal", "new").unwrap();
        assert_eq!(text(&folder, "meal").as_deref(), Some("new"));
        let left: Vec<_> = fs::read_dir(&folder.root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["meal.json"]);
        let mode = fs::metadata(folder.root.join("meal.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        folder.remove("meal").unwrap();
        assert!(!folder.has("meal"));
    }

    #[test]
    fn a_link_is_followed_inside_the_folder_and_never_out_of_it() {
        let (dir, folder) = folder();
        let outside = dir.path().join("secret.json");
        fs::write(&outside, "secret").unwrap();
        symlink(&outside, folder.root.join("out.json")).unwrap();
        symlink("/nonexistent", folder.root.join("dangling.json")).unwrap();
        fs::create_dir(folder.root.join("dir.json")).unwrap();
        for name in ["out", "dangling", "dir"] {
            assert!(folder.has(name) && folder.read(name).is_err(), "{name}");
        }
        fs::create_dir(folder.root.join("..data")).unwrap();
        fs::write(folder.root.join("..data/in.json"), "inside").unwrap();
        symlink("..data/in.json", folder.root.join("in.json")).unwrap();
        assert_eq!(text(&folder, "in").as_deref(), Some("inside"));

        folder.write("out", "mine").unwrap();
        assert_eq!(fs::read_to_string(&outside).unwrap(), "secret", "the link was replaced, not what it led to");
        assert_eq!(text(&folder, "out").as_deref(), Some("mine"));
    }

    #[test]
    fn what_is_no_name_is_never_a_path() {
        let (dir, folder) = folder();
        fs::write(dir.path().join("secret.json"), "secret").unwrap();
        for name in ["../secret", "/etc/passwd", "", "."] {
            assert!(!folder.has(name) && folder.read(name).unwrap().is_none());
            assert!(folder.write(name, "x").is_err());
            folder.remove(name).unwrap();
        }
        assert!(dir.path().join("secret.json").exists());
    }

    #[test]
    fn files_that_are_too_long_or_misnamed_are_told_and_a_crashs_leavings_are_cleared() {
        let (_dir, folder) = folder();
        fs::write(folder.root.join("long.json"), "x".repeat(600 * 1024)).unwrap();
        assert!(folder.read("long").is_err());
        fs::write(folder.root.join("My Tool.yaml"), "").unwrap();
        fs::write(folder.root.join("notes.txt"), "").unwrap();
        fs::write(folder.root.join(".meal.1234.tmp"), "").unwrap();
        let listing = folder.list().unwrap();
        assert_eq!(listing.misnamed, ["My Tool.yaml"]);
        assert!(listing.names.iter().eq(["long"]));
        Folder::look(&folder.root).unwrap();
        assert!(folder.root.join(".meal.1234.tmp").exists(), "who only looks leaves a write that is under way alone");
        Folder::open(&folder.root).unwrap();
        assert!(!folder.root.join(".meal.1234.tmp").exists());
    }

    #[test]
    fn who_only_looks_makes_no_folder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tools");
        let folder = Folder::look(&path).unwrap();
        assert!(folder.list().unwrap().names.is_empty() && folder.read("meal").unwrap().is_none());
        assert!(!path.exists());
    }
}
