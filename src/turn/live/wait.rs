//! A turn that is not alone in its room: it waits for the floor, and asks the model when it has it.

use tokio::time::sleep_until;

use super::{End, Live};
use crate::turn::event::TurnEvent;
use crate::turn::talk::Generation;

impl Live {
    /// Waits while others speak; gives what the model was asked then, or why it is not.
    pub(super) async fn wait(&mut self, ahead: usize) -> Result<Option<Generation>, End> {
        // Who only waits for a turn that ends for it does not wait for long.
        if ahead > 0 {
            self.tell(TurnEvent::Queued {
                response_id: self.entry.response_id.clone(),
                position: ahead,
            });
        }
        let cut_at = self.clock.cut_at;
        let Some(place) = &self.place else {
            return Err(End::Enough);
        };
        tokio::select! {
            biased;
            () = self.events.unheard() => return Err(End::Abandoned),
            stop = self.entry.stopped() => return Err(End::Stopped(stop)),
            () = sleep_until(cut_at) => {
                self.start();
                return Err(End::Deadline);
            }
            () = place.floor() => {}
        }
        self.spent.waited = self.clock.accepted.elapsed();
        self.shorten_when_late();
        let turns = self.turns.clone();
        let first = turns.hand_over(&mut self.plan, &self.request, &self.order);
        first.map_err(End::Refused)
    }
}
