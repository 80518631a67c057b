//! Tests of the watch on real files.

use std::{fs, os::unix::fs::symlink};

use super::*;

/// How long a change may take to be told; only a defect makes a test wait this long.
const PATIENCE: Duration = Duration::from_secs(20);

struct Watch {
    changes: mpsc::Receiver<Result<Config, Error>>,
}

impl Watch {
    /// Watches with a short rest; `look` is long so that only what is noticed counts, unless a test says otherwise.
    fn new(path: &Path, look: Duration) -> Self {
        let current = super::super::load(Some(path), &Overrides::default()).unwrap();
        let (sender, changes) = mpsc::channel(1);
        let rest = Duration::from_millis(30);
        tokio::spawn(run(
            path.to_owned(),
            Overrides::default(),
            current,
            sender,
            look,
            rest,
        ));
        Self { changes }
    }

    async fn next(&mut self) -> Result<Config, Error> {
        timeout(PATIENCE, self.changes.recv())
            .await
            .expect("no change was told")
            .unwrap()
    }

    async fn interval(&mut self) -> u64 {
        self.next().await.unwrap().interval.as_secs()
    }

    async fn nothing(&mut self) {
        let told = timeout(Duration::from_millis(400), self.changes.recv()).await;
        assert!(told.is_err(), "{told:?}");
    }
}

const NEVER: Duration = Duration::from_secs(3600);

/// Gives the watch time to be set up, so that what follows is noticed and not just read.
async fn settle() {
    sleep(Duration::from_millis(200)).await;
}

#[tokio::test]
async fn a_write_in_place_is_told_and_one_without_effect_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    fs::write(&path, "interval: 10s\n").unwrap();
    let mut watch = Watch::new(&path, NEVER);
    settle().await;
    fs::write(&path, "interval: 20s\n").unwrap();
    assert_eq!(watch.interval().await, 20);
    fs::write(&path, "interval: 20s\n").unwrap();
    fs::write(&path, "# a comment\ninterval: 20s\n").unwrap();
    fs::write(directory.path().join("other"), "x").unwrap();
    watch.nothing().await;
}

#[tokio::test]
async fn an_editor_that_puts_a_new_file_in_place_is_noticed_each_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    fs::write(&path, "interval: 10s\n").unwrap();
    let mut watch = Watch::new(&path, NEVER);
    settle().await;
    for seconds in [20, 30, 40] {
        let new = directory.path().join(".config.yaml.swp");
        fs::write(&new, format!("interval: {seconds}s\n")).unwrap();
        fs::rename(&path, directory.path().join("config.yaml~")).unwrap();
        fs::rename(&new, &path).unwrap();
        assert_eq!(watch.interval().await, seconds);
    }
}

#[tokio::test]
async fn the_swapped_link_of_a_config_map_is_noticed_each_time() {
    let volume = tempfile::tempdir().unwrap();
    let version = |number: u64| {
        let name = format!("..2026_{number}");
        fs::create_dir(volume.path().join(&name)).unwrap();
        fs::write(
            volume.path().join(&name).join("config.yaml"),
            format!("interval: {number}s\n"),
        )
        .unwrap();
        symlink(&name, volume.path().join("..data_tmp")).unwrap();
        fs::rename(volume.path().join("..data_tmp"), volume.path().join("..data")).unwrap();
    };
    version(10);
    let path = volume.path().join("config.yaml");
    symlink("..data/config.yaml", &path).unwrap();
    let mut watch = Watch::new(&path, NEVER);
    settle().await;
    for number in [20, 30, 40] {
        version(number);
        assert_eq!(watch.interval().await, number);
        fs::remove_dir_all(volume.path().join(format!("..2026_{}", number - 10))).unwrap();
    }
    watch.nothing().await;
}

#[tokio::test]
async fn a_bad_file_is_told_once_and_a_good_one_after_it_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    fs::write(&path, "interval: 10s\n").unwrap();
    let mut watch = Watch::new(&path, NEVER);
    settle().await;
    fs::write(&path, "intervall: 10s\n").unwrap();
    assert!(
        watch
            .next()
            .await
            .unwrap_err()
            .to_string()
            .contains("did you mean `interval`?")
    );
    watch.nothing().await;
    // The same as before the error, and told all the same: the error is over.
    fs::write(&path, "interval: 10s\n").unwrap();
    assert_eq!(watch.interval().await, 10);
}

#[tokio::test]
async fn a_directory_that_vanishes_and_comes_back_is_found_again() {
    let above = tempfile::tempdir().unwrap();
    let directory = above.path().join("etc");
    let path = directory.join("config.yaml");
    fs::create_dir(&directory).unwrap();
    fs::write(&path, "interval: 10s\n").unwrap();
    let mut watch = Watch::new(&path, Duration::from_millis(200));
    settle().await;
    fs::remove_dir_all(&directory).unwrap();
    assert!(
        watch
            .next()
            .await
            .unwrap_err()
            .to_string()
            .contains("No such file")
    );
    fs::create_dir(&directory).unwrap();
    fs::write(&path, "interval: 20s\n").unwrap();
    assert_eq!(watch.interval().await, 20);
    fs::write(&path, "interval: 30s\n").unwrap();
    assert_eq!(watch.interval().await, 30);
}

#[tokio::test]
async fn a_change_between_loading_and_watching_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    fs::write(&path, "interval: 20s\n").unwrap();
    let mut changes = watch(path, Overrides::default(), Config::default());
    let told = timeout(PATIENCE, changes.recv()).await.unwrap().unwrap().unwrap();
    assert_eq!(told.interval, Duration::from_secs(20));
}

#[tokio::test]
async fn a_file_that_is_empty_while_it_is_written_is_not_taken_for_the_defaults() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    fs::write(&path, "interval: 10s\n").unwrap();
    let mut watch = Watch::new(&path, NEVER);
    settle().await;
    fs::write(&path, "").unwrap();
    sleep(Duration::from_millis(120)).await;
    fs::write(&path, "interval: 20s\n").unwrap();
    assert_eq!(watch.interval().await, 20);
    // One that stays empty is meant so.
    fs::write(&path, "").unwrap();
    assert_eq!(watch.next().await.unwrap(), Config::default());
}

/// A directory on a file system that hangs cannot be made here; a pool of threads that is busy holds up just what waits
/// for it.
#[test]
fn a_directory_that_hangs_holds_up_no_more_than_its_own_watch() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (release, hung) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || hung.recv());
        let directory = tempfile::tempdir().unwrap();
        let (notice, _noticed) = mpsc::channel(1);
        let watching = watch_directory(directory.path(), None, &notice);
        tokio::pin!(watching);
        tokio::select! {
            biased;
            _ = &mut watching => panic!("it was looked at in the runtime's thread"),
            () = tokio::task::yield_now() => {}
        }
        release.send(()).unwrap();
        busy.await.unwrap().unwrap();
        assert!(watching.await.is_some());
    });
}
