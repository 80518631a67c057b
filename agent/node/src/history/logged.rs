//! The messages of the kernel of this boot. The kernel overwrites old ones, at a flood within minutes, and a new agent reads only what is left:
//! without them, a fault that only a reset or a reboot ends would be over with the next start of the agent.

use rdma_health_kernel::kmsg::{Device, Event, EventClass};
use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};

use super::{bounds::most, short};
use crate::Node;

/// Maximum number of events.
const MAX_EVENTS: usize = 256;

/// What the kernel logged of devices in one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged {
    /// The kernel's id of the boot.
    pub boot: String,
    /// The events, in the order of the last message.
    #[serde(deserialize_with = "known")]
    pub events: Vec<Event>,
}

/// The events that this version knows: another one may have further kinds.
fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Event>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Lenient {
        Known(Event),
        Unknown(IgnoredAny),
    }
    let all = Vec::<Lenient>::deserialize(from)?.into_iter();
    let events = all.filter_map(|one| match one {
        Lenient::Known(event) => Some(event),
        Lenient::Unknown(_) => None,
    });
    Ok(events.collect())
}

impl Logged {
    /// What a node's log has; `None` if the boot or the log could not be read.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let boot = node.host.boot_id.known()?;
        let mut events = node.kernel_log.known()?.events.clone();
        if events.len() > MAX_EVENTS {
            events.retain(|event| event.kind.class() != EventClass::Notice);
        }
        // The oldest first, so that the end of a fault never goes before the fault.
        let surplus = events.len().saturating_sub(MAX_EVENTS);
        events.drain(..surplus);
        for event in &mut events {
            event.message.truncate(short(&event.message).len());
        }
        events.retain(|event| texts(event).all(|text| short(text) == text));
        Some(Self {
            boot: short(boot).to_owned(),
            events,
        })
    }

    /// Checks the limits, because the content of a file is untrusted.
    pub(super) fn check(&self) -> Result<(), String> {
        most("messages of the kernel", self.events.len(), MAX_EVENTS)?;
        let is_long = |text: &str| short(text) != text;
        let is_long = self.events.iter().flat_map(texts).any(is_long) || is_long(&self.boot);
        if is_long {
            return Err("a message of the kernel in it is too long".to_owned());
        }
        Ok(())
    }
}

/// The texts of an event.
fn texts(event: &Event) -> impl Iterator<Item = &str> {
    let name = match &event.device {
        Device::Pci(name) | Device::Named(name) | Device::Driver(name) => Some(name),
        Device::Stream(_) => None,
    };
    let texts = [&event.message, &event.driver].into_iter().chain(name);
    texts.map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_kind_that_is_not_known_is_left_out() {
        let event = |kind: &str| {
            format!(
                r#"{{"kind":"{kind}","device":{{"pci":"0000:19:00.0"}},"driver":"NVRM","count":1,"first":1,"last":1,"message":"Xid","order":0}}"#
            )
        };
        let json = format!(
            r#"{{"boot":"a","events":[{},{}]}}"#,
            event("gpu-melted"),
            event("gpu-failed")
        );
        let logged: Logged = serde_json::from_str(&json).unwrap();
        assert_eq!(logged.events.len(), 1);
        assert_eq!(logged.check(), Ok(()));
        let mut many = logged.clone();
        many.events = vec![logged.events[0].clone(); MAX_EVENTS + 1];
        assert!(many.check().is_err());
        let mut long = logged;
        long.events[0].message = "x".repeat(1000);
        assert!(long.check().is_err());
    }
}
