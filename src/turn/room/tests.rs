//! How many rooms there are, how long, and how they end.

use std::time::Duration;

use super::*;

fn rooms(most: usize) -> Arc<Rooms> {
    let config = Config {
        most,
        idle_ms: 1000,
        waiting: 2,
    };
    Arc::new(Rooms::new(config))
}

fn arrive(rooms: &Arc<Rooms>, room_id: &str) -> Result<Arrived, RoomError> {
    rooms.arrive(Newcomer {
        room_id,
        response_id: "resp",
        priority: Priority::Normal,
        supersede: Supersede::None,
    })
}

fn known(rooms: &Rooms) -> usize {
    rooms.lock().rooms.len()
}

#[tokio::test(start_paused = true)]
async fn a_new_room_takes_the_place_of_the_one_that_was_idle_longest() {
    let rooms = rooms(3);
    let busy = arrive(&rooms, "busy").unwrap();
    for room in ["a", "b", "a"] {
        drop(arrive(&rooms, room).unwrap());
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    drop(arrive(&rooms, "c").unwrap());
    assert_eq!(rooms.end("b"), None, "it was idle longest");
    assert_eq!(rooms.end("a"), Some(Vec::new()));
    assert_eq!(rooms.end("c"), Some(Vec::new()));
    drop(busy);
    assert_eq!(rooms.end("busy"), Some(Vec::new()));
    assert_eq!(known(&rooms), 0);
}

#[tokio::test(start_paused = true)]
async fn rooms_with_turns_in_them_are_never_forgotten() {
    let rooms = rooms(2);
    let held = ["a", "b"].map(|room| arrive(&rooms, room).unwrap());
    tokio::time::advance(Duration::from_secs(10)).await;
    let refused = arrive(&rooms, "c").unwrap_err();
    assert_eq!(refused, RoomError::TooManyRooms { limit: 2 });
    assert_eq!(arrive(&rooms, "a").unwrap().ahead, Some(1));
    drop(held);
    assert_eq!(arrive(&rooms, "c").unwrap().ahead, None);
}

#[tokio::test(start_paused = true)]
async fn an_idle_room_is_forgotten_in_time() {
    let rooms = rooms(2);
    drop(arrive(&rooms, "a").unwrap());
    tokio::time::advance(Duration::from_millis(999)).await;
    drop(arrive(&rooms, "a").unwrap());
    tokio::time::advance(Duration::from_millis(1000)).await;
    assert_eq!(rooms.end("a"), None);
}

#[tokio::test(start_paused = true)]
async fn an_ended_room_names_its_turns_and_is_gone_when_the_last_has_left() {
    let rooms = rooms(2);
    let first = arrive(&rooms, "a").unwrap();
    let second = arrive(&rooms, "a").unwrap();
    assert_eq!(second.ahead, Some(1));
    assert_eq!(rooms.end("a").map(|told| told.len()), Some(2));
    assert_eq!(rooms.end("a"), None);
    drop(second);
    // Who comes meanwhile waits for the one that still ends, and finds the room as new.
    let third = arrive(&rooms, "a").unwrap();
    assert_eq!(third.ahead, Some(0));
    drop(first);
    third.place.floor().await;
    assert_eq!(rooms.end("a").map(|told| told.len()), Some(1));
    drop(third);
    assert_eq!(known(&rooms), 0);
}
