//! A real file, and an engine that reads it with the real checks.

use super::*;
use crate::{config, provider};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    sync::Mutex as StdMutex,
};
use tempfile::TempDir;

const GOOD: &str =
    "providers: { a: { scripted: { script: [silence] } } }\ncontexts:\n  sales: { prompt: Test, provider: a }\n";
const BAD: &str =
    "providers: { a: { scripted: { script: [silence] } } }\ncontexts:\n  sales: { promt: Test, provider: b }\n";

/// What the engine would do, without one.
struct Desk {
    file: PathBuf,
    running: StdMutex<(u64, Arc<str>)>,
    /// What a reload says, whatever the file holds.
    refuses: StdMutex<Option<String>>,
}

impl Loader for Desk {
    fn running(&self) -> (u64, Arc<str>) {
        self.running.lock().unwrap().clone()
    }

    fn check(&self, name: &str, text: &str) -> Result<Vec<Problem>, Vec<Problem>> {
        let loaded = config::load_str(name, text, &|_| None, provider::catalog());
        loaded.map(|config| config.warnings).map_err(|problems| problems.into_iter().collect())
    }

    fn schema(&self) -> String {
        config::schema_text(provider::catalog())
    }

    fn reload(&self) -> BoxFuture<'static, Result<ReloadReport, ReloadFailure>> {
        let refusal = self.refuses.lock().unwrap().clone();
        let result = match refusal {
            Some(problem) => Err(ReloadFailure { problems: vec![problem] }),
            None => {
                let mut running = self.running.lock().unwrap();
                *running = (running.0 + 1, fs::read_to_string(&self.file).unwrap().into());
                let report = ReloadReport {
                    generation: running.0,
                    changed: vec![],
                    needs_restart: vec![],
                    reload_pending: false,
                };
                Ok(report)
            }
        };
        std::future::ready(result).boxed()
    }
}

struct Place {
    folder: TempDir,
    engine: Arc<Desk>,
    configuration: FileConfiguration,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("offhook.yaml");
        fs::write(&file, GOOD).unwrap();
        let (running, refuses) = (StdMutex::new((1, GOOD.into())), StdMutex::default());
        let engine = Arc::new(Desk { file: file.clone(), running, refuses });
        let configuration = FileConfiguration::new(Some(file), engine.clone());
        Self { folder, engine, configuration }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.engine.file).unwrap()
    }

    /// Files beside the configuration, those of its versions as well.
    fn files(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
        }
        count(self.folder.path())
    }

    async fn version(&self) -> String {
        self.configuration.read().await.unwrap().version
    }

    async fn publish(&self, text: &str, based_on: &str, by: &str) -> Result<Published, ConfigurationError> {
        self.configuration.publish(Draft { text: text.into(), based_on: based_on.into(), by: by.into() }).await
    }
}

fn with(comment: &str) -> String {
    format!("{GOOD}# {comment}\n")
}

#[tokio::test]
async fn what_is_published_is_in_the_file_and_in_force_and_what_was_there_is_kept_with_who_and_when() {
    let place = Place::new();
    fs::set_permissions(&place.engine.file, fs::Permissions::from_mode(0o640)).unwrap();
    let published = place.publish(&with("one"), &place.version().await, "ada").await.unwrap();
    assert_eq!((published.report.generation, place.text()), (2, with("one")));
    assert_eq!(published.version, place.version().await);
    assert_eq!(fs::metadata(&place.engine.file).unwrap().permissions().mode() & 0o777, 0o640);
    let versions = place.configuration.versions().await.unwrap();
    let told: Vec<_> = versions.iter().map(|version| (version.by.as_deref(), version.current)).collect();
    assert_eq!(told, [(Some("ada"), true), (None, false)]);
    let first = place.configuration.version(versions[1].id.clone()).await.unwrap();
    assert_eq!((first.text.as_str(), first.difference.contains("-# one")), (GOOD, true));
    let folder = place.folder.path().join("offhook.yaml.versions");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    for version in fs::read_dir(&folder).unwrap() {
        assert_eq!(version.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn of_two_who_edit_at_once_the_second_is_told_who_was_first_and_changes_nothing() {
    let place = Place::new();
    let seen = place.version().await;
    place.publish(&with("ada"), &seen, "ada").await.unwrap();
    let Err(ConfigurationError::Changed { version, by, at }) = place.publish(&with("bob"), &seen, "bob").await else {
        panic!("it was changed meanwhile")
    };
    assert_eq!((version, by.as_deref(), at.is_some()), (place.version().await, Some("ada"), true));
    assert_eq!(place.text(), with("ada"));
    // Somebody with an editor is not known by name.
    fs::write(&place.engine.file, with("by hand")).unwrap();
    let refused = place.publish(&with("bob"), &seen, "bob").await.unwrap_err();
    assert!(matches!(refused, ConfigurationError::Changed { by: None, at: Some(_), .. }));
    assert_eq!(place.text(), with("by hand"));
}

#[tokio::test]
async fn of_many_who_publish_at_the_same_moment_one_does() {
    let place = Place::new();
    let seen = place.version().await;
    let texts: Vec<String> = (0..8).map(|number| with(&number.to_string())).collect();
    let all = futures_util::future::join_all(texts.iter().map(|text| place.publish(text, &seen, "ada"))).await;
    assert_eq!(all.iter().filter(|result| result.is_ok()).count(), 1);
    let others = all.iter().filter(|result| matches!(result, Err(ConfigurationError::Changed { .. })));
    assert_eq!(others.count(), 7);
}

#[tokio::test]
async fn a_text_with_problems_is_told_all_of_them_with_their_lines_and_leaves_no_trace() {
    let place = Place::new();
    let Err(ConfigurationError::Invalid(verdict)) = place.publish(BAD, &place.version().await, "ada").await else {
        panic!("it has problems")
    };
    let told: Vec<_> = verdict.problems.iter().map(|problem| (problem.line, problem.path.as_str())).collect();
    assert_eq!(told, [(3, "contexts.sales.promt"), (3, "contexts.sales.provider")]);
    assert!(verdict.problems[0].hint.as_deref().is_some_and(|hint| hint.contains("prompt")));
    assert!(
        verdict.difference.contains("-  sales: { prompt: Test") && verdict.difference.contains("+  sales: { promt")
    );
    assert_eq!(place.configuration.check(BAD.into()).await.unwrap(), verdict, "a check says the same");
    assert_eq!((place.text().as_str(), place.files(), place.engine.running().0), (GOOD, 1, 1));
}

#[tokio::test]
async fn a_text_that_the_engine_refuses_after_all_leaves_the_file_as_it_was() {
    let place = Place::new();
    *place.engine.refuses.lock().unwrap() = Some("the studio is closed".into());
    let Err(ConfigurationError::Invalid(verdict)) = place.publish(&with("one"), &place.version().await, "ada").await
    else {
        panic!("the engine refuses it")
    };
    assert_eq!(verdict.problems[0].message, "the studio is closed");
    assert_eq!(place.text(), GOOD);
}

/// Anchors that grow tenfold at each step: ten thousand million nodes in a few lines.
#[tokio::test]
async fn a_yaml_bomb_and_a_text_without_end_are_refused_in_no_time() {
    let place = Place::new();
    let mut bomb = "a0: &a0 [x]\n".to_owned();
    for step in 1..=10 {
        let before = vec![format!("*a{}", step - 1); 10].join(", ");
        bomb += &format!("a{step}: &a{step} [{before}]\n");
    }
    let deep = format!("a: {}", "[".repeat(100_000));
    let began = tokio::time::Instant::now();
    for text in [bomb, deep] {
        let verdict = place.configuration.check(text).await.unwrap();
        assert!(!verdict.problems.is_empty());
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let endless = "#".repeat(TEXT_BYTES_MAX + 1);
    assert_eq!(place.configuration.check(endless.clone()).await, Err(ConfigurationError::TooLong));
    let refused = place.publish(&endless, &place.version().await, "ada").await;
    assert_eq!(refused, Err(ConfigurationError::TooLong));
    assert_eq!((place.text().as_str(), place.files()), (GOOD, 1));
}

/// Names tell the order, and two scripts can publish in one millisecond.
#[tokio::test]
async fn versions_are_in_the_order_in_which_they_were_published() {
    let place = Place::new();
    for number in 0..40 {
        place.publish(&with(&number.to_string()), &place.version().await, "ada").await.unwrap();
        let newest = place.configuration.versions().await.unwrap()[0].id.clone();
        assert_eq!(place.configuration.version(newest).await.unwrap().text, with(&number.to_string()));
    }
    let moments: Vec<_> = place.configuration.versions().await.unwrap().iter().map(|version| version.at).collect();
    assert!(moments.windows(2).all(|two| two[0] > two[1]), "{moments:?}");
}

#[tokio::test]
async fn the_newest_fifty_versions_are_kept_and_nothing_but_a_version_is_one() {
    let place = Place::new();
    for number in 0..55 {
        place.publish(&with(&number.to_string()), &place.version().await, "ada").await.unwrap();
    }
    let versions = place.configuration.versions().await.unwrap();
    assert_eq!((versions.len(), versions.iter().filter(|version| version.current).count()), (50, 1));
    let newest = place.configuration.version(versions[0].id.clone()).await.unwrap();
    assert_eq!(newest.text, with("54"));
    fs::write(place.folder.path().join("offhook.yaml.versions/notes.yaml"), "x").unwrap();
    for id in ["notes", "../offhook", "", "/etc/passwd", "%2e%2e"] {
        assert_eq!(place.configuration.version(id.into()).await.err(), Some(ConfigurationError::Unknown), "{id}");
    }
    assert_eq!(place.configuration.versions().await.unwrap().len(), 50);
}

/// An old file that was copied into place has an old date.
#[tokio::test]
async fn what_was_just_replaced_is_kept_however_old_it_is() {
    let place = Place::new();
    for number in 0..55 {
        place.publish(&with(&number.to_string()), &place.version().await, "ada").await.unwrap();
    }
    let file = place.folder.path().join("offhook.yaml");
    fs::write(&file, with("from a backup")).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    place.publish(&with("new"), &place.version().await, "ada").await.unwrap();
    let oldest = place.configuration.versions().await.unwrap().pop().unwrap();
    let kept = place.configuration.version(oldest.id).await.unwrap();
    assert_eq!(kept.text, with("from a backup"));
}

/// A name from a file of accounts that somebody wrote by hand.
#[tokio::test]
async fn an_accounts_name_never_becomes_a_path() {
    let place = Place::new();
    place.publish(&with("one"), &place.version().await, "../../ada_\u{e4}").await.unwrap();
    let versions = place.configuration.versions().await.unwrap();
    assert_eq!(versions[0].by.as_deref(), Some("..-..-ada_-"));
}

#[tokio::test]
async fn a_link_stays_a_link() {
    let place = Place::new();
    let link = place.folder.path().join("link.yaml");
    symlink(&place.engine.file, &link).unwrap();
    let configuration = FileConfiguration::new(Some(link.clone()), place.engine.clone());
    let draft = Draft { text: with("one"), based_on: place.version().await, by: "ada".into() };
    configuration.publish(draft).await.unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(place.text(), with("one"));
}

#[tokio::test]
async fn a_file_for_reading_and_a_configuration_of_the_program_are_shown_and_say_why_they_stay() {
    let place = Place::new();
    fs::set_permissions(&place.engine.file, fs::Permissions::from_mode(0o444)).unwrap();
    let built_in = FileConfiguration::new(None, place.engine.clone());
    for (configuration, why) in [(&place.configuration, "for reading only"), (&built_in, "part of the program")] {
        let found = configuration.read().await.unwrap();
        assert_eq!((found.text.as_str(), found.running), (GOOD, true));
        assert!(found.read_only.is_some_and(|told| told.contains(why)));
        let draft = Draft { text: with("one"), based_on: found.version, by: "ada".into() };
        let refused = configuration.publish(draft).await.unwrap_err();
        assert!(matches!(&refused, ConfigurationError::ReadOnly(told) if told.contains(why)), "{refused}");
    }
    assert_eq!((place.text().as_str(), place.files()), (GOOD, 1));
    assert!(built_in.versions().await.unwrap().is_empty());
}

/// "No problems" alone would hide what an admin may not have meant.
#[tokio::test]
async fn what_runs_is_told_with_its_warnings() {
    let place = Place::new();
    assert_eq!(place.configuration.read().await.unwrap().verdict, Verdict::default());
    let recorded = GOOD.replace("prompt: Test,", "prompt: Test, recording: true,");
    let recorded = format!("{recorded}records: {{ directory: records }}\n");
    place.publish(&recorded, &place.version().await, "ada").await.unwrap();
    let found = place.configuration.read().await.unwrap();
    assert!(found.running && found.verdict.problems.is_empty() && !found.verdict.warnings.is_empty());
    assert_eq!(found.verdict, place.configuration.check(recorded).await.unwrap());
}

#[tokio::test]
async fn a_file_that_was_changed_by_hand_is_told_with_its_problems_and_how_it_differs() {
    let place = Place::new();
    fs::write(&place.engine.file, BAD).unwrap();
    let found = place.configuration.read().await.unwrap();
    assert!(!found.running && found.verdict.problems.len() == 2 && found.verdict.difference.contains("promt"));
    fs::remove_file(&place.engine.file).unwrap();
    let gone = place.configuration.read().await.err().unwrap();
    assert!(gone.to_string().contains("offhook.yaml cannot be read"), "{gone}");
}
