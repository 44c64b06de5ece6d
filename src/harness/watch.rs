//! Notices that a folder has changed, whatever way it is saved, and waits until it holds still.
//!
//! Events only wake the reader: what counts is what two reads, one debounce apart, both find. Events get lost, so the
//! folder is also read now and then without one.

use std::ffi::OsStr;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Problem, Source, disk};

/// What reading a folder gives.
pub(super) type Reading = Result<Source, Vec<Problem>>;

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Between two reads that must agree.
    pub(super) debounce: Duration,
    /// Between two reads without an event.
    pub(super) poll: Duration,
}

/// A folder that is followed.
pub(super) trait Folder: Send {
    /// Listens for changes from now on, where it can.
    fn listen(&mut self) -> impl Future<Output = ()> + Send;
    /// Reads it now.
    fn read(&self) -> impl Future<Output = Reading> + Send;
    /// Whether this differs from what was taken last.
    fn is_news(&self, reading: &Reading) -> bool;
    /// Takes a state that held still.
    fn take(&mut self, reading: Reading) -> impl Future<Output = ()> + Send;
    /// Called every poll, and once a state was taken.
    fn tick(&mut self) -> impl Future<Output = ()> + Send;
}

/// Follows the folder for ever. An event is a wake-up; many at once are one.
pub(super) async fn follow(
    folder: &mut impl Folder,
    events: &mut mpsc::Receiver<()>,
    timing: Timing,
) {
    folder.listen().await;
    loop {
        let reading = folder.read().await;
        if folder.is_news(&reading) {
            let settled = settle(folder, events, timing, reading).await;
            if folder.is_news(&settled) {
                folder.take(settled).await;
            }
        }
        folder.tick().await;
        tokio::select! {
            Some(()) = events.recv() => {}
            () = sleep(timing.poll) => {}
        }
        // Folders that came or went need ears of their own; whatever happened before is read next.
        folder.listen().await;
    }
}

/// Reads until two reads, one debounce apart, agree: the last state wins.
async fn settle(
    folder: &mut impl Folder,
    events: &mut mpsc::Receiver<()>,
    timing: Timing,
    first: Reading,
) -> Reading {
    let mut last = first;
    loop {
        sleep(timing.debounce).await;
        // What is told from here on may not be in the read that follows, and wakes the next round.
        while events.try_recv().is_ok() {}
        let now = folder.read().await;
        if now == last {
            return now;
        }
        last = now;
        folder.listen().await;
    }
}

/// The system's events about one folder and the place that it lies in.
#[derive(Debug)]
pub(super) struct Ears {
    dir: PathBuf,
    wake: mpsc::Sender<()>,
    watcher: Option<RecommendedWatcher>,
    watched: Vec<PathBuf>,
    /// The last complaint, so that each is told once.
    complaint: Option<String>,
}

impl Ears {
    /// Ears for `dir`, and where they call.
    pub(super) fn new(dir: &Path) -> (Self, mpsc::Receiver<()>) {
        // One waiting wake-up says all that many would.
        let (wake, events) = mpsc::channel(1);
        (
            Self {
                dir: dir.to_owned(),
                wake,
                watcher: None,
                watched: Vec::new(),
                complaint: None,
            },
            events,
        )
    }

    /// Listens to every folder there is now. Blocks on the file system.
    ///
    /// Watches are made anew each time: one on a folder that was deleted and made again would stay silent.
    pub(super) fn listen(&mut self) {
        let mut folders = disk::folders(&self.dir);
        folders.extend(parent(&self.dir));
        let wake = self.wake.clone();
        let dir = self.dir.clone();
        let handler = move |event: notify::Result<Event>| {
            if event.as_ref().map_or(true, |event| matters(event, &dir)) {
                // Full: a wake-up is already waiting.
                let _ = wake.try_send(());
            }
        };
        let mut complaint = None;
        match RecommendedWatcher::new(handler, notify::Config::default()) {
            Ok(mut watcher) => {
                for folder in &folders {
                    if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                        // One that cannot be watched is read by polling; the others are watched all the same.
                        complaint.get_or_insert_with(|| format!("{}: {error}", folder.display()));
                    }
                }
                self.watcher = Some(watcher);
            }
            Err(error) => complaint = Some(error.to_string()),
        }
        self.watched = folders;
        if complaint != self.complaint {
            if let Some(reason) = &complaint {
                tracing::warn!(directory = %self.dir.display(), reason, "changes are found by polling only");
            }
            self.complaint = complaint;
        }
    }
}

fn parent(dir: &Path) -> Option<PathBuf> {
    dir.canonicalize()
        .ok()
        .as_deref()
        .unwrap_or(dir)
        .parent()
        .map(Path::to_owned)
}

/// Whether an event may be about the folder: reading is none, and neither are its neighbours' affairs.
fn matters(event: &Event, dir: &Path) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {}
        EventKind::Access(_) => return false,
        _ => {}
    }
    let name = dir.file_name();
    let beside = parent(dir);
    event.paths.is_empty()
        || event.paths.iter().any(|path| {
            let outside = path.parent() == beside.as_deref();
            // A mount swaps a hidden link beside what it shows.
            let hidden = path
                .file_name()
                .and_then(OsStr::to_str)
                .is_some_and(|name| name.starts_with(".."));
            !outside || hidden || path.file_name() == name
        })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const TIMING: Timing = Timing {
        debounce: Duration::from_millis(100),
        poll: Duration::from_secs(5),
    };

    /// A folder whose reads are written down beforehand; the last one repeats.
    struct Script {
        readings: std::sync::Mutex<VecDeque<Reading>>,
        taken: Vec<Reading>,
        wanted: usize,
        done: Option<tokio::sync::oneshot::Sender<Vec<Reading>>>,
    }

    fn state(text: &str) -> Reading {
        let mut source = Source::default();
        source.insert("a", text.as_bytes());
        Ok(source)
    }

    impl Folder for Script {
        async fn listen(&mut self) {}

        async fn read(&self) -> Reading {
            let mut readings = self.readings.lock().expect("not poisoned");
            if readings.len() > 1 {
                readings.pop_front()
            } else {
                readings.front().cloned()
            }
            .expect("one is left")
        }

        fn is_news(&self, reading: &Reading) -> bool {
            self.taken.last() != Some(reading)
        }

        async fn take(&mut self, reading: Reading) {
            self.taken.push(reading);
            if self.taken.len() == self.wanted
                && let Some(done) = self.done.take()
            {
                let _ = done.send(self.taken.clone());
            }
        }

        async fn tick(&mut self) {}
    }

    /// Everything that is taken of these readings.
    async fn taken(readings: Vec<Reading>, wanted: usize, events: &[u64]) -> Vec<Reading> {
        let (done, result) = tokio::sync::oneshot::channel();
        let mut script = Script {
            readings: std::sync::Mutex::new(readings.into()),
            taken: Vec::new(),
            wanted,
            done: Some(done),
        };
        let (wake, mut receiver) = mpsc::channel(1);
        let following =
            tokio::spawn(async move { follow(&mut script, &mut receiver, TIMING).await });
        for wait in events {
            sleep(Duration::from_millis(*wait)).await;
            let _ = wake.try_send(());
        }
        let taken = result.await.expect("all are taken");
        following.abort();
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_counts_once_two_reads_agree_and_the_last_one_wins() {
        let empty = || Err(vec![Problem::of("a", "is empty")]);
        let readings = vec![
            state("1"),
            state("1"),
            state("1"),
            empty(),
            state("half"),
            state("2"),
            state("2"),
            state("2"),
        ];
        let taken = taken(readings, 2, &[6000]).await;
        assert_eq!(taken, [state("1"), state("2")]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_stays_broken_is_taken_as_broken() {
        let broken = || Err(vec![Problem::of("a", "is empty")]);
        assert_eq!(
            taken(vec![state("1"), state("1"), broken()], 2, &[1]).await,
            [state("1"), broken()]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_followed_at_once_and_a_lost_one_within_a_poll() {
        for (events, at_most) in [(&[1000][..], 1_300), (&[][..], 5_300)] {
            let start = tokio::time::Instant::now();
            taken(vec![state("1"), state("1"), state("2")], 2, events).await;
            let waited = start.elapsed();
            assert!(waited <= Duration::from_millis(at_most), "{waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_events_is_one_change() {
        let taken = taken(vec![state("1"), state("1"), state("2")], 2, &[1; 500]).await;
        assert_eq!(taken, [state("1"), state("2")]);
    }

    /// Waits for ever, and so fails, where the system's events do not come: nothing polls here.
    #[tokio::test]
    async fn the_system_tells_of_every_change_and_of_new_folders_once_listened_to() {
        let root = tempfile::tempdir().expect("temp dir");
        let room = root.path().join("room");
        std::fs::create_dir_all(room.join("skills")).expect("folder");
        let (mut ears, mut events) = Ears::new(&room);
        let mut hear = async |change: &dyn Fn()| {
            ears.listen();
            while events.try_recv().is_ok() {}
            change();
            events.recv().await.expect("told");
        };
        hear(&|| std::fs::write(room.join("skills/a"), "x").expect("written")).await;
        hear(&|| std::fs::rename(room.join("skills/a"), room.join("skills/b")).expect("renamed"))
            .await;
        hear(&|| std::fs::create_dir(room.join("tools")).expect("made")).await;
        hear(&|| std::fs::write(room.join("tools/t"), "x").expect("written")).await;
        hear(&|| std::fs::remove_dir_all(&room).expect("removed")).await;
        hear(&|| std::fs::create_dir(&room).expect("made again")).await;
        hear(&|| std::fs::write(room.join("new"), "x").expect("written")).await;
    }

    #[test]
    fn reading_is_no_event_and_neighbours_do_not_matter() {
        use notify::event::{AccessKind, CreateKind};
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path().canonicalize().expect("real");
        let room = root.join("room");
        std::fs::create_dir(&room).expect("folder");
        let event = |kind: EventKind, path: PathBuf| Event::new(kind).add_path(path);
        let create = EventKind::Create(CreateKind::Any);
        assert!(matters(&event(create, room.join("skills")), &room));
        assert!(matters(&event(create, room.clone()), &room));
        assert!(matters(&event(create, root.join("..data")), &room));
        assert!(matters(&Event::new(EventKind::Other), &room));
        assert!(matters(
            &event(
                EventKind::Access(AccessKind::Close(AccessMode::Write)),
                room.join("a")
            ),
            &room
        ));
        assert!(!matters(&event(create, root.join("other")), &room));
        assert!(!matters(
            &event(
                EventKind::Access(AccessKind::Open(AccessMode::Any)),
                room.join("a")
            ),
            &room
        ));
    }
}
