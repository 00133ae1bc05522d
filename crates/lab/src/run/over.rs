//! A run whose traffic is somebody's own program.

use super::{LEAD, Run};
use crate::LabError;
use crate::over::{self, Order};
use crate::program::{self, GLANCE};
use crate::sockets::rest_until;
use std::process::ExitStatus;
use wavelane_base::Span;
use wavelane_host::realtime;
use wavelane_run::{RunContext, StackRaw};

/// Time between two looks at whether the program has ended.
const LOOK_EVERY: Span = Span::from_millis(5);

impl Run<'_> {
    /// Runs the order's programs until the one in front has ended.
    pub(crate) fn over(
        mut self,
        order: &Order,
        context: &mut RunContext<'_>,
    ) -> Result<(StackRaw, ExitStatus), LabError> {
        let before = self.tally()?;
        let stopped = || context.is_cancelled();
        let mut beside = over::start_beside(order, self.scenario, &self.world, context.out, stopped)?;
        let epoch = realtime::now() + LEAD;
        self.world.begin(epoch);
        self.mobiles.go(epoch)?;
        rest_until(epoch, stopped);
        let mut child = over::start_in_front(order, over::node(self.scenario, &self.world, &order.node)?)?;
        let mut looked = realtime::now();
        let ended = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Ok(None) => {}
                Err(error) => break Err(LabError::Io { what: "cannot ask for the program's state".into(), error }),
            }
            if stopped() {
                break Err(LabError::Cancelled);
            }
            if realtime::now() >= looked + GLANCE {
                looked = realtime::now();
                let broken = self.world.fault().map(|said| LabError::Failed { program: "the lab".into(), said });
                let gateways = self.gateways.as_mut().map_or(Ok(()), crate::gateways::Gateways::check);
                if let Some(error) = broken.or(self.mobiles.check().err()).or(gateways.err()) {
                    break Err(error);
                }
            }
            rest_until(realtime::now() + LOOK_EVERY, || false);
        };
        let status = match ended {
            Ok(status) => status,
            Err(error) => {
                over::end_in_front(child);
                beside.iter().for_each(program::Program::terminate_all);
                program::end(beside);
                return Err(error);
            }
        };
        let ways = self.world.ways(self.scenario);
        for program in &mut beside {
            self.notes.extend(program.check().err().map(|error| error.to_string()));
            program.terminate_all();
        }
        self.world.bypass();
        self.notes.extend(program::end(beside));
        Ok((self.conclude(Vec::new(), ways, &before)?, status))
    }
}
