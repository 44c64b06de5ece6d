//! Live rooms: one turn speaks in each, the others wait or take its place. Rooms are known as long as somebody is in them,
//! and for a while after.

mod config;
mod floor;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use self::floor::{Floor, Full};
use crate::engine::Priority;

pub use config::Config;
pub use floor::Supersede;

/// Why a room does not let a turn in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoomError {
    /// As many turns wait there as may.
    #[error("{limit} turns wait in this room already")]
    QueueFull {
        /// How many may wait.
        limit: usize,
    },
    /// There are as many rooms as may be, with turns in each.
    #[error("{limit} rooms are busy already")]
    TooManyRooms {
        /// How many there may be.
        limit: usize,
    },
}

impl RoomError {
    /// The metric's label.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::QueueFull { .. } => "room_queue_full",
            Self::TooManyRooms { .. } => "too_many_rooms",
        }
    }
}

/// A turn that wants to speak in a room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newcomer<'a> {
    pub(super) room_id: &'a str,
    pub(super) response_id: &'a str,
    pub(super) priority: Priority,
    pub(super) supersede: Supersede,
}

/// A turn that was let in.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) place: Place,
    /// `None` when it may speak at once; else how many turns go first, without those that end for it.
    pub(super) ahead: Option<usize>,
    /// Response ids of turns that are to end for it.
    pub(super) superseded: Vec<String>,
}

/// How a turn is reached from its room.
#[derive(Clone, Debug)]
struct Card {
    response_id: String,
    floor: Arc<Notify>,
}

/// A room that somebody has been in.
#[derive(Debug)]
struct Room {
    floor: Floor<Card>,
    /// It was ended, and is forgotten when its last turn has left.
    ended: bool,
    /// When somebody came or left last.
    used: Instant,
}

impl Room {
    fn new(now: Instant) -> Self {
        Self {
            floor: Floor::default(),
            ended: false,
            used: now,
        }
    }

    /// Whether there is nothing to remember of it any more.
    fn is_over(&self, now: Instant, config: &Config) -> bool {
        self.floor.is_free() && (self.ended || now.duration_since(self.used) >= config.idle())
    }
}

#[derive(Debug, Default)]
struct State {
    rooms: HashMap<String, Room>,
    /// Turns so far, in all rooms.
    turns: u64,
}

/// Every room that is known.
#[derive(Debug)]
pub(super) struct Rooms {
    config: Config,
    state: Mutex<State>,
}

impl Rooms {
    pub(super) fn new(config: Config) -> Self {
        Self {
            config,
            state: Mutex::default(),
        }
    }

    /// Lets a turn into its room.
    pub(super) fn arrive(self: &Arc<Self>, newcomer: Newcomer<'_>) -> Result<Arrived, RoomError> {
        let now = Instant::now();
        let waiting = self.config.waiting;
        let mut state = self.lock();
        let number = state.turns;
        let room = state.room(newcomer.room_id, now, &self.config)?;
        let floor = Arc::new(Notify::new());
        let card = Card {
            response_id: newcomer.response_id.to_owned(),
            floor: Arc::clone(&floor),
        };
        let came = room.floor.arrive(
            (number, newcomer.priority),
            card,
            newcomer.supersede,
            waiting,
        );
        let came = came.map_err(|Full| RoomError::QueueFull { limit: waiting })?;
        room.used = now;
        room.ended = false;
        state.turns += 1;
        let superseded = came.superseded.into_iter();
        Ok(Arrived {
            place: Place {
                rooms: Arc::clone(self),
                room_id: newcomer.room_id.to_owned(),
                number,
                floor,
            },
            ahead: came.ahead,
            superseded: superseded.map(|card| card.response_id).collect(),
        })
    }

    /// Ends a room: response ids of the turns in it that are to end now; `None` where there is no such room.
    pub(super) fn end(&self, room_id: &str) -> Option<Vec<String>> {
        let mut state = self.lock();
        let room = state.rooms.get_mut(room_id)?;
        if room.is_over(Instant::now(), &self.config) || room.ended {
            return None;
        }
        let told = room.floor.end_all().into_iter();
        let told = told.map(|card| card.response_id).collect();
        room.ended = true;
        state.forget_if_over(room_id, &self.config);
        Some(told)
    }

    fn leave(&self, place: &Place) {
        let next = {
            let mut state = self.lock();
            let Some(room) = state.rooms.get_mut(&place.room_id) else {
                return;
            };
            room.used = Instant::now();
            let next = room.floor.leave(place.number);
            state.forget_if_over(&place.room_id, &self.config);
            next
        };
        if let Some(next) = next {
            next.floor.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The room of this id, new where it is not known or over; idle rooms make room for it.
    fn room(
        &mut self,
        room_id: &str,
        now: Instant,
        config: &Config,
    ) -> Result<&mut Room, RoomError> {
        self.forget_if_over(room_id, config);
        if !self.rooms.contains_key(room_id) && self.rooms.len() >= config.most {
            self.make_room(now, config)?;
        }
        let known = self.rooms.entry(room_id.to_owned());
        Ok(known.or_insert_with(|| Room::new(now)))
    }

    /// Forgets rooms that are over, or else the one that was idle longest.
    fn make_room(&mut self, now: Instant, config: &Config) -> Result<(), RoomError> {
        self.rooms.retain(|_, room| !room.is_over(now, config));
        if self.rooms.len() < config.most {
            return Ok(());
        }
        let idle = self.rooms.iter().filter(|(_, room)| room.floor.is_free());
        let longest = idle.min_by_key(|(_, room)| room.used);
        let longest = longest.map(|(id, _)| id.clone());
        let longest = longest.ok_or(RoomError::TooManyRooms { limit: config.most })?;
        self.rooms.remove(&longest);
        Ok(())
    }

    fn forget_if_over(&mut self, room_id: &str, config: &Config) {
        let room = self.rooms.get(room_id);
        if room.is_some_and(|room| room.is_over(Instant::now(), config)) {
            self.rooms.remove(room_id);
        }
    }
}

/// A turn's place in its room; dropping it lets the next one speak.
#[derive(Debug)]
pub(super) struct Place {
    rooms: Arc<Rooms>,
    room_id: String,
    number: u64,
    /// Notified once when the turn may speak.
    floor: Arc<Notify>,
}

impl Place {
    /// Waits until a turn that had to wait may speak.
    pub(super) async fn floor(&self) {
        self.floor.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.rooms.leave(self);
    }
}

#[cfg(test)]
mod tests;
