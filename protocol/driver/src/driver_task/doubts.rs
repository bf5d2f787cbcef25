//! Links that are opened when UDP is doubtful (docs/protocol/transport.md section 8.3).
use longhaul_protocol::connection::State;
use tokio::time::Instant;

use super::DriverTask;

impl DriverTask {
    /// Begins to open a link when UDP is doubtful, ends it if UDP answers, and uses it when UDP counts as silent.
    pub(super) fn run_doubts(&mut self, now: Instant) {
        let Some(choice) = &mut self.choice else { return };
        let Some(connection) = self.endpoint.peek(choice.session) else {
            return;
        };
        if connection.state() == State::Early || connection.path().udp().is_none() {
            return;
        }
        let at = self.clock.now();
        let (is_silent, is_doubtful) = (connection.is_path_silent(), connection.is_path_doubtful());
        if !choice.doubts.is_opening() {
            let is_doubtful = is_doubtful && !is_silent && connection.expects_data() && choice.may_hurry();
            if choice.doubts.begins(at, is_doubtful) {
                choice.hurry(now);
            }
        } else if is_silent {
            choice.doubts.on_silence();
            let link = choice.link.filter(|link| self.links.is_connected(*link));
            if let Some(link) = link {
                self.use_connected_link(link);
            }
        } else if !is_doubtful && connection.last_received_at() > choice.started {
            choice.doubts.in_vain(at);
            self.drop_link();
        }
    }
}
