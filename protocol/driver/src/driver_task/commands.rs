//! Commands of users and of the owner in the driver task, and what else waits in a turn.
use tokio::sync::mpsc::error::TryRecvError;

use super::DriverTask;
use crate::{
    carrier_choice::CarrierChoice,
    command::{Command, ConnectionCommand},
};

/// Maximum number of commands in one turn, so that users do not starve the socket.
const COMMANDS_A_TURN: usize = 128;

impl DriverTask {
    /// Handles what else waits: the one that is ready first in `wait` may be ready all the time, as the socket is in a
    /// flood of datagrams.
    pub(super) fn handle_waiting(&mut self) {
        if let Ok(event) = self.links.events.try_recv() {
            self.handle_link_events(event);
        }
        if self.owned {
            match self.control.try_recv() {
                Ok(control) => self.handle_control(Some(control)),
                Err(TryRecvError::Disconnected) => self.handle_control(None),
                Err(TryRecvError::Empty) => {}
            }
        }
        if let Some(command) = self.commands.waiting() {
            self.handle_commands(command);
        }
    }

    pub(super) fn handle_commands(&mut self, first: Command) {
        self.handle_command(first);
        for _ in 0..COMMANDS_A_TURN {
            let Some(next) = self.commands.waiting() else {
                return;
            };
            self.handle_command(next);
        }
    }

    pub(super) fn handle_command(
        &mut self,
        Command {
            connection: handle,
            what,
        }: Command,
    ) {
        let now = self.clock.now();
        if let ConnectionCommand::UseAddresses(addresses) = what {
            self.use_addresses(handle, addresses);
            return;
        }
        if let ConnectionCommand::PermitTrials(is_permitted) = what {
            if let Some(choice) = &mut self.choice {
                choice.trial.permit(is_permitted);
            }
            return;
        }
        let (Some(channels), Some(connection)) =
            (self.channels.get_mut(&handle), self.endpoint.connection(handle))
        else {
            if let ConnectionCommand::Open { reply, .. } = what {
                drop(reply);
            }
            return;
        };
        let is_other_network = matches!(what, ConnectionCommand::NetworkChanged(_));
        let needs_link = self.choice.as_ref().is_some_and(CarrierChoice::needs_link);
        if is_other_network {
            self.sockets.rebind();
            if let Some(choice) = &mut self.choice {
                let rtt = connection.stats().srtt;
                choice.on_network_change(tokio::time::Instant::now(), now, rtt);
            }
        }
        channels.execute(now, connection, what);
        self.touched.insert(handle);
        if is_other_network {
            self.restart_attempt(needs_link);
        }
    }
}
