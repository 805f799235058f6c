//! The file of accounts: changed by several programs, unreadable, and read while it changes.

use super::*;
use tempfile::TempDir;

const PASSWORD: &str = "correct horse battery";

fn accounts() -> (TempDir, Accounts) {
    let folder = TempDir::new().unwrap();
    let accounts = Accounts::new(&folder.path().join("accounts.json"));
    (folder, accounts)
}

#[test]
fn the_first_start_makes_an_admin_whose_password_is_told_once_and_only_its_owner_reads_the_file() {
    let (folder, accounts) = accounts();
    let password = accounts.first().unwrap().expect("a password");
    assert_eq!(accounts.first().unwrap(), None);
    assert_eq!(accounts.list().unwrap(), [("admin".into(), Role::Admin)]);
    let file = folder.path().join("accounts.json");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("$argon2id$v=19$m=19456,t=2,p=1$") && !text.contains(&password), "{text}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn mistakes_are_told_and_change_nothing() {
    let (folder, accounts) = accounts();
    accounts.add("ada", Role::Admin, PASSWORD).unwrap();
    accounts.add("bob", Role::Viewer, PASSWORD).unwrap();
    let before = fs::read_to_string(folder.path().join("accounts.json")).unwrap();
    let told = |result: Result<(), AccountError>| result.unwrap_err().to_string();
    for (result, expected) in [
        (accounts.add("ada", Role::Viewer, PASSWORD), "there is an account of this name"),
        (accounts.add("", Role::Viewer, PASSWORD), "a name has"),
        (accounts.add("../ada", Role::Viewer, PASSWORD), "a name has"),
        (accounts.add(&"x".repeat(65), Role::Viewer, PASSWORD), "a name has"),
        (accounts.add("cyd", Role::Viewer, "short"), "at least 12"),
        (accounts.set_password("bob", ""), "at least 12"),
        (accounts.set_password("cyd", PASSWORD), "no account"),
        (accounts.remove("cyd"), "no account"),
        (accounts.remove("ada"), "last account with the role admin"),
        (accounts.set_role("ada", Role::Operator), "last account with the role admin"),
        (accounts.set_role("cyd", Role::Operator), "no account"),
    ] {
        let told = told(result);
        assert!(told.contains(expected), "{told}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("accounts.json")).unwrap(), before);
    accounts.set_role("bob", Role::Admin).unwrap();
    accounts.set_role("ada", Role::Viewer).unwrap();
    assert_eq!(accounts.list().unwrap(), [("ada".into(), Role::Viewer), ("bob".into(), Role::Admin)]);
}

/// Whoever writes nonsense into it locks everybody out, and nothing is overwritten.
#[tokio::test]
async fn a_file_that_is_none_lets_nobody_in() {
    let (folder, accounts) = accounts();
    let file = folder.path().join("accounts.json");
    accounts.add("ada", Role::Admin, PASSWORD).unwrap();
    let accounts = Arc::new(accounts);
    accounts.refresh().await;
    assert!(accounts.get("ada").is_some());
    fs::write(&file, "{\"accounts\": 7}").unwrap();
    assert!(accounts.first().unwrap_err().to_string().contains("accounts.json is no file of accounts"));
    accounts.look();
    assert!(accounts.get("ada").is_none());
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\"accounts\": 7}");
}

#[test]
fn a_file_that_cannot_be_read_leaves_the_accounts_as_they_were_until_it_can() {
    let (folder, accounts) = accounts();
    let file = folder.path().join("accounts.json");
    accounts.add("ada", Role::Admin, PASSWORD).unwrap();
    let text = fs::read(&file).unwrap();
    // Root may read any file, but no folder as one, and no way that leads around in a circle.
    for in_its_place in ["a folder", "a circle"] {
        fs::remove_file(&file).unwrap();
        match in_its_place {
            "a folder" => fs::create_dir(&file).unwrap(),
            _ => std::os::unix::fs::symlink(&file, &file).unwrap(),
        }
        let before = accounts.looked().seen;
        accounts.look();
        assert!(accounts.get("ada").is_some(), "{in_its_place}");
        assert_eq!(accounts.looked().seen, before, "{in_its_place}: what was not read was not seen");
        fs::remove_dir(&file).or_else(|_| fs::remove_file(&file)).unwrap();
        fs::write(&file, "{\"accounts\": {}}").unwrap();
        accounts.look();
        assert!(accounts.get("ada").is_none(), "{in_its_place}");
        fs::write(&file, &text).unwrap();
        accounts.look();
        assert!(accounts.get("ada").is_some(), "{in_its_place}");
    }
    fs::remove_file(&file).unwrap();
    accounts.look();
    assert!(accounts.get("ada").is_none(), "it is gone");
}

/// A token that was revoked meanwhile would be good again.
#[test]
fn a_slow_look_does_not_put_an_older_file_in_the_place_of_a_newer_one() {
    let (folder, accounts) = accounts();
    let file = folder.path().join("accounts.json");
    accounts.add("ada", Role::Admin, PASSWORD).unwrap();
    let older = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| accounts.look());
        // Opens as soon as the look reads.
        let mut pipe = fs::File::options().write(true).open(&file).unwrap();
        fs::write(folder.path().join("newer"), "{\"accounts\": {}}").unwrap();
        fs::rename(folder.path().join("newer"), &file).unwrap();
        let next = scope.spawn(|| accounts.look());
        // It would be over by then if it did not wait for the first.
        (0..10_000).take_while(|_| !next.is_finished()).for_each(|_| std::thread::yield_now());
        pipe.write_all(&older).unwrap();
    });
    assert!(accounts.get("ada").is_none());
}

/// `sudo offhook account …`, while the engine is a user of its own.
#[test]
fn the_file_stays_its_owners_and_a_new_one_is_the_folders() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make files somebody else's");
        return;
    }
    let (folder, accounts) = accounts();
    let file = folder.path().join("accounts.json");
    fchown(fs::File::open(folder.path()).unwrap(), Some(4_711), Some(4_712)).unwrap();
    let owner = || fs::metadata(&file).map(|file| (file.uid(), file.gid(), file.permissions().mode() & 0o777));
    accounts.add("ada", Role::Admin, PASSWORD).unwrap();
    assert_eq!(owner().unwrap(), (4_711, 4_712, 0o600));
    std::os::unix::fs::chown(&file, Some(4_713), Some(4_714)).unwrap();
    accounts.set_password("ada", PASSWORD).unwrap();
    assert_eq!(owner().unwrap(), (4_713, 4_714, 0o600));
}

#[test]
fn commands_name_the_file_so_that_a_shell_finds_it() {
    let accounts = Accounts::new(Path::new("/srv/my phone's/accounts.json"));
    assert_eq!(accounts.command("list"), r"offhook account list --accounts '/srv/my phone'\''s/accounts.json'");
    assert!(accounts.rescue().starts_with("offhook account add admin --role admin --accounts "));
    assert!(accounts.revocation("crm").starts_with("offhook token remove crm --accounts "));
    let (_folder, accounts) = self::accounts();
    accounts.first().unwrap();
    assert!(accounts.rescue().starts_with("offhook account password admin --accounts "));
}

#[test]
fn several_programs_can_change_it_at_once() {
    let (folder, accounts) = accounts();
    accounts.add("ada", Role::Admin, PASSWORD).unwrap();
    let file = folder.path().join("accounts.json");
    std::thread::scope(|scope| {
        for number in 0..4 {
            let file = &file;
            scope.spawn(move || Accounts::new(file).add(&format!("bob{number}"), Role::Viewer, PASSWORD).unwrap());
        }
    });
    assert_eq!(accounts.list().unwrap().len(), 5);
}

/// A program that holds the file, as on a disk that hangs, costs one thread for a while.
#[test]
fn a_change_waits_for_another_program_for_a_while_and_further_ones_not_at_all() {
    let (folder, accounts) = accounts();
    accounts.add_token("crm", Role::Viewer, None).unwrap();
    let other = fs::File::open(folder.path()).unwrap();
    other.lock().unwrap();
    assert!(matches!(accounts.change_within(Duration::from_millis(50), |_| Ok(())), Err(AccountError::Busy)));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| accounts.change_within(Duration::from_secs(60), |_| Ok(())));
        while accounts.waiting.available_permits() > 0 {
            std::thread::yield_now();
        }
        assert!(matches!(accounts.remove_token("crm"), Err(AccountError::Busy)));
        assert!(!first.is_finished(), "refused at once");
        drop(other);
        first.join().unwrap().unwrap();
    });
    accounts.remove_token("crm").unwrap();
}
