//! The file of registrations, written whole or not at all.

use super::registration::Registration;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

/// All that may be registered, with the longest texts, is below this.
const BYTES_MAX: u64 = 64 << 20;
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    servers: Vec<Registration>,
}

/// By the servers' ids; a file that is not there has none.
///
/// # Errors
/// What is wrong with the file, and the remedy.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Registration>, String> {
    let broken = |why: &dyn std::fmt::Display| {
        format!("{}: {why}; move the file away to begin without registered action servers", path.display())
    };
    let mut text = String::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(broken(&error)),
        Ok(file) => file.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| broken(&error))?,
    };
    let written: Written = serde_json::from_str(&text).map_err(|error| broken(&error))?;
    if written.version != VERSION {
        return Err(broken(&format!("is of version {}, and this offhook knows {VERSION}", written.version)));
    }
    Ok(written.servers.into_iter().map(|server| (server.server_id.clone(), server)).collect())
}

pub(super) fn text(servers: &BTreeMap<String, Registration>) -> String {
    let written = Written { version: VERSION, servers: servers.values().cloned().collect() };
    // Texts, numbers and lists can always be written.
    serde_json::to_string_pretty(&written).unwrap_or_default() + "\n"
}

/// Whoever starts after a crash finds the old file or the new one.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let put = || -> io::Result<()> {
        fs::create_dir_all(parent)?;
        let mut file = tempfile::NamedTempFile::new_in(parent)?;
        // Addresses may have secrets in their paths.
        file.as_file().set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        File::open(parent)?.sync_all()
    };
    put().map_err(|error| format!("{} cannot be written: {error}", path.display()))
}
