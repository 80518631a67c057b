//! What the agent asks its helper, and when.

use std::sync::Arc;

use rdma_health_helper::{Failure, Helper, Place, State};
use tokio::sync::watch;

use super::{Agent, state::Late};
use crate::helper::{ask_kubelet, ask_privileged};

/// Asks the helper about all devices on request; requests that arrive meanwhile are merged into one.
pub(super) async fn keep_asking(agent: Arc<Agent>, helper: Helper, place: Place) {
    loop {
        agent.ask_helper.notified().await;
        let mut devices = Some(helper.devices().await);
        let mut state = helper.state();
        state.borrow_and_update();
        // A helper that failed is well only if it answers everything: one that fails at a later question would seem well in between.
        let is_on_trial = agent.state.helper_failed() && devices.as_ref().is_some_and(Result::is_ok);
        if !is_on_trial && let Some(devices) = devices.take() {
            agent.state.verbs(devices);
        }
        let mut is_new = false;
        if let Some(kubelet) = &agent.kubelet {
            is_new |= ask_kubelet(&helper, &place, kubelet).await;
        }
        if let Some(privileged) = &agent.privileged {
            agent.state.runtimes(helper.runtimes().await);
            is_new |= ask_privileged(&helper, privileged).await;
        }
        if let Some(devices) = devices.filter(|_| state.has_changed().is_ok_and(|changed| !changed)) {
            agent.state.verbs(devices);
        }
        if !agent.state.helper_failed() {
            agent.state.has_come(Late::Helper);
        }
        if is_new {
            agent.read_again.notify_one();
        }
    }
}

/// Counts starts and failures of the helper, and asks it about all devices when it is back.
pub(super) async fn watch_helper(agent: Arc<Agent>, mut state: watch::Receiver<State>) {
    while state.changed().await.is_ok() {
        let now = state.borrow_and_update().clone();
        agent.metrics.helper.observe(&now);
        match now {
            State::Up => agent.ask_helper.notify_one(),
            State::Down(failure) => agent.state.verbs(Err::<_, Failure>(failure)),
            State::Starting | State::Away(_) => {}
        }
    }
}
