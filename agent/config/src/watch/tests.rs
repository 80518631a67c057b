//! Tests of the watch on real files.

use std::{fs, os::unix::fs::symlink, time::Duration};

use tokio::time::{sleep, timeout};

use super::*;

/// Maximum time until a change is reported; only a defect makes a test wait this long.
const PATIENCE: Duration = Duration::from_secs(20);

struct Watch {
    changes: mpsc::Receiver<Result<Config, Error>>,
    request: watch::Sender<()>,
}

fn reloads() -> Reloads {
    crate::metrics::reloads(&rdma_health_instrument::Registry::new())
}

impl Watch {
    /// Watches with a short rest. Most tests pass a long `look`, so that only notifications count.
    fn new(path: &Path, look: Duration) -> Self {
        let current = super::super::load(Some(path), &Overrides::default()).unwrap();
        let (sender, changes) = mpsc::channel(1);
        let rest = Duration::from_millis(30);
        let (request, requests) = watch::channel(());
        let file = Watched {
            path: path.to_owned(),
            follower: Follower::new(Pace { look, rest }, requests),
            reloads: reloads(),
        };
        tokio::spawn(run(file, Overrides::default(), current, sender));
        Self { changes, request }
    }

    async fn next(&mut self) -> Result<Config, Error> {
        timeout(PATIENCE, self.changes.recv())
            .await
            .expect("no change was reported")
            .unwrap()
    }

    async fn interval(&mut self) -> u64 {
        self.next().await.unwrap().interval.as_secs()
    }

    async fn nothing(&mut self) {
        let received = timeout(Duration::from_millis(400), self.changes.recv()).await;
        assert!(received.is_err(), "{received:?}");
    }
}

const NEVER: Duration = Duration::from_secs(3600);

/// Waits until the watch is set up, so that later changes cause notifications.
async fn settle() {
    sleep(Duration::from_millis(200)).await;
}

#[tokio::test]
async fn a_write_in_place_is_reported_unless_the_configuration_is_the_same() {
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
async fn each_replacement_by_an_editor_is_noticed() {
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
async fn each_swapped_link_of_a_config_map_is_noticed() {
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
async fn an_invalid_file_is_reported_once_and_then_the_corrected_one() {
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
    // The same configuration as before the error is reported, because the error is fixed.
    fs::write(&path, "interval: 10s\n").unwrap();
    assert_eq!(watch.interval().await, 10);
}

#[tokio::test]
async fn a_recreated_directory_is_found() {
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
async fn a_change_between_loading_and_watching_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    fs::write(&path, "interval: 20s\n").unwrap();
    let (_request, requests) = watch::channel(());
    let mut changes = super::watch(path, Overrides::default(), Config::default(), requests, reloads());
    let received = timeout(PATIENCE, changes.recv()).await.unwrap().unwrap().unwrap();
    assert_eq!(received.interval, Duration::from_secs(20));
}

#[tokio::test]
async fn a_file_that_is_empty_while_it_is_written_does_not_reset_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    fs::write(&path, "interval: 10s\n").unwrap();
    let mut watch = Watch::new(&path, NEVER);
    settle().await;
    fs::write(&path, "").unwrap();
    sleep(Duration::from_millis(120)).await;
    fs::write(&path, "interval: 20s\n").unwrap();
    assert_eq!(watch.interval().await, 20);
    // A file that stays empty is a valid configuration.
    fs::write(&path, "").unwrap();
    assert_eq!(watch.next().await.unwrap(), Config::default());
}

#[tokio::test]
async fn a_fifo_in_place_of_the_file_is_an_error_and_a_later_file_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    fs::write(&path, "interval: 10s\n").unwrap();
    let mut watch = Watch::new(&path, NEVER);
    settle().await;
    fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    loop {
        let error = watch.next().await.unwrap_err().to_string();
        // The moment without a file may be noticed first.
        if error.contains("not a regular file") {
            break;
        }
        assert!(error.contains("No such file"), "{error}");
    }
    fs::remove_file(&path).unwrap();
    fs::write(&path, "interval: 20s\n").unwrap();
    while watch
        .next()
        .await
        .ok()
        .is_none_or(|config| config.interval != Duration::from_secs(20))
    {}
}

#[tokio::test]
async fn a_request_reads_the_file_without_a_notification() {
    let directory = tempfile::tempdir().unwrap();
    let (real, path) = (directory.path().join("real"), directory.path().join("etc"));
    fs::create_dir(&path).unwrap();
    fs::write(&real, "interval: 10s\n").unwrap();
    // Only the directory of the link is watched.
    symlink(&real, path.join("config.yaml")).unwrap();
    let mut watch = Watch::new(&path.join("config.yaml"), NEVER);
    settle().await;
    fs::write(&real, "interval: 20s\n").unwrap();
    watch.nothing().await;
    watch.request.send_replace(());
    assert_eq!(watch.interval().await, 20);
}
