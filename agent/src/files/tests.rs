use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tokio::sync::mpsc::Receiver;

use super::*;
use crate::tasks::Tasks;

/// Rule 38 of the DNS contract; the poll alone keeps it, too.
const DEADLINE: Duration = Duration::from_secs(3);

struct Watched {
    dir: tempfile::TempDir,
    paths: watch::Sender<Paths>,
    events: Receiver<Event>,
    _tasks: Tasks,
}

impl Watched {
    fn start(lay: impl Fn(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        lay(dir.path());
        let paths = Paths {
            config: dir.path().join("config"),
            hosts: Some(dir.path().join("mount/hosts")),
            key: None,
            resolvers: None,
            hosts_max_bytes: 64,
        };
        let (paths, paths_out) = watch::channel(paths);
        let (events_in, events) = mpsc::channel(8);
        let mut tasks = Tasks::new();
        tasks.start("file watcher", watch(paths_out, events_in));
        Self {
            dir,
            paths,
            events,
            _tasks: tasks,
        }
    }

    /// The next file seen, as `Which: content or fault`.
    async fn next(&mut self) -> String {
        let event = tokio::time::timeout(DEADLINE, self.events.recv()).await;
        match event.expect("nothing seen within the deadline") {
            Some(Event::File(FileSeen {
                which,
                path: _,
                content,
            })) => match content {
                Ok(content) => format!("{which:?}: {}", String::from_utf8_lossy(&content.bytes)),
                Err(fault) => format!("{which:?}: {fault:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    async fn expect(&mut self, expected: &[&str]) {
        for expected in expected {
            assert_eq!(&self.next().await, expected);
        }
    }
}

fn mounted(dir: &Path, version: &str, content: &str) {
    let mount = dir.join("mount");
    fs::create_dir_all(mount.join(version)).unwrap();
    fs::write(mount.join(version).join("hosts"), content).unwrap();
    symlink(version, mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    if !mount.join("hosts").exists() {
        symlink("..data/hosts", mount.join("hosts")).unwrap();
    }
}

fn plain(dir: &Path) {
    fs::write(dir.join("config"), "c1").unwrap();
    mounted(dir, "..1", "h1");
}

// Holds rules 37 and 38.
#[tokio::test]
async fn a_swapped_symlink_is_seen_also_with_equal_size_and_time() {
    let mut watched = Watched::start(plain);
    watched.expect(&["Config: c1", "Hosts: h1"]).await;
    mounted(watched.dir.path(), "..2", "h2");
    let old = fs::metadata(watched.dir.path().join("mount/..1/hosts")).unwrap();
    let new = fs::File::options()
        .write(true)
        .open(watched.dir.path().join("mount/hosts"))
        .unwrap();
    new.set_modified(old.modified().unwrap()).unwrap();
    watched.expect(&["Hosts: h2"]).await;
    mounted(watched.dir.path(), "..3", "h3");
    watched.expect(&["Hosts: h3"]).await;
}

// Holds rule 38.
#[tokio::test]
async fn a_plain_write_and_an_editors_rename_over_are_seen() {
    let mut watched = Watched::start(plain);
    watched.expect(&["Config: c1", "Hosts: h1"]).await;
    fs::write(watched.dir.path().join("config"), "c2").unwrap();
    watched.expect(&["Config: c2"]).await;
    fs::write(watched.dir.path().join("config~"), "c3").unwrap();
    fs::rename(
        watched.dir.path().join("config~"),
        watched.dir.path().join("config"),
    )
    .unwrap();
    watched.expect(&["Config: c3"]).await;
}

// Holds rule 39.
#[tokio::test]
async fn a_file_that_vanishes_comes_back_or_grows_too_large_is_told_once_each() {
    let mut watched = Watched::start(plain);
    watched.expect(&["Config: c1", "Hosts: h1"]).await;
    fs::remove_dir_all(watched.dir.path().join("mount")).unwrap();
    watched.expect(&["Hosts: Missing"]).await;
    mounted(watched.dir.path(), "..4", "h4");
    watched.expect(&["Hosts: h4"]).await;
    mounted(watched.dir.path(), "..5", &"h".repeat(65));
    watched.expect(&["Hosts: TooLarge { max: 64 }"]).await;
}

#[tokio::test]
async fn a_file_that_is_written_in_place_is_not_seen_empty_but_one_that_stays_empty_is() {
    let mut watched = Watched::start(plain);
    watched.expect(&["Config: c1", "Hosts: h1"]).await;
    let path = watched.dir.path().join("config");
    fs::write(&path, "").unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    fs::write(&path, "c2").unwrap();
    watched.expect(&["Config: c2"]).await;
    fs::write(&path, "").unwrap();
    watched.expect(&["Config: "]).await;
}

#[tokio::test]
async fn another_path_is_read_as_soon_as_it_is_named() {
    let mut watched = Watched::start(plain);
    watched.expect(&["Config: c1", "Hosts: h1"]).await;
    let other = watched.dir.path().join("other");
    fs::write(&other, "o1").unwrap();
    watched.paths.send_modify(|paths| paths.hosts = Some(other));
    watched.expect(&["Hosts: o1"]).await;
}

#[tokio::test]
async fn a_file_that_is_named_again_is_told_again_though_it_did_not_change() {
    let mut watched = Watched::start(plain);
    watched.expect(&["Config: c1", "Hosts: h1"]).await;
    let hosts = watched.dir.path().join("mount/hosts");
    watched.paths.send_modify(|paths| paths.hosts = None);
    fs::write(watched.dir.path().join("config"), "c2").unwrap();
    watched.expect(&["Config: c2"]).await;
    watched.paths.send_modify(|paths| paths.hosts = Some(hosts));
    watched.expect(&["Hosts: h1"]).await;
}

fn content(text: &str) -> Result<Content, ReadFault> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    read_capped(file.path(), 64)
}

#[tokio::test(start_paused = true)]
async fn a_file_is_empty_only_after_a_second_whatever_it_was_before() {
    let path = Path::new("hosts");
    let mut reported = Reported::default();
    let mut news =
        |content: Result<Content, ReadFault>| reported.is_news(Which::Hosts, path, &content);
    assert!(news(content("h1")));
    for round in 0..20 {
        // Written in place again and again, each time empty for a moment.
        assert!(!news(content("")), "round {round}");
        tokio::time::advance(Duration::from_millis(80)).await;
        assert!(news(content(&format!("h2 {round}"))));
        tokio::time::advance(Duration::from_millis(150)).await;
    }
    assert!(news(Err(ReadFault::Missing)));
    assert!(!news(content("")), "the names from before are in force");
    tokio::time::advance(WRITING).await;
    assert!(news(content("")), "it stays empty");
    assert!(!news(content("")));
    assert!(news(content("h3")));
}
