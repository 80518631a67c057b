//! An answer's bytes as the facts that readers use.
//!
//! The outermost message is a list, and is walked here one entry at a time. So the memory that it takes is bounded by what is kept
//! and by one entry: two bytes on the wire can stand for an empty message, which takes many times as much in memory.

use bytes::{Buf, Bytes};
use prost::{Message, decode_length_delimiter};
use rdma_health_protocol::{
    AllocatableResources, ClaimResource, ContainerDevices, ContainerResources, DynamicResource,
    KubeletAnswer, KubeletMethod, KubeletTrouble, ListPodResources, MAX_CONTAINERS, MAX_DEVICE_IDS, MAX_PODS,
    MAX_WORD, PodResources,
};

use crate::messages::{Claim, Container, Devices, Pod};

/// Maximum length of one entry, a pod or the devices of a resource, in bytes.
const MAX_ENTRY: usize = 512 << 10;
/// Number of the list in both messages.
const LIST: usize = 1;

/// Why an answer is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// It is not a message of the service.
    #[error("the kubelet's answer is malformed: {0}")]
    Malformed(String),
    /// It exceeds a limit.
    #[error("the kubelet's answer has more than {0}")]
    TooLong(String),
}

impl Error {
    pub(crate) fn kind(&self) -> KubeletTrouble {
        match self {
            Self::Malformed(_) => KubeletTrouble::Malformed,
            Self::TooLong(_) => KubeletTrouble::TooLong,
        }
    }
}

impl From<prost::DecodeError> for Error {
    fn from(error: prost::DecodeError) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// The answer to `method` with this body.
pub(crate) fn decode(method: KubeletMethod, body: Bytes) -> Result<KubeletAnswer, Error> {
    let mut room = Room(MAX_DEVICE_IDS);
    match method {
        KubeletMethod::List => {
            let mut pod_resources = Vec::new();
            for entry in entries(body) {
                let pod = room.pod(Pod::decode(entry?)?)?;
                if pod.containers.is_empty() {
                    continue;
                }
                if pod_resources.len() == MAX_PODS {
                    return Err(Error::TooLong(format!("{MAX_PODS} pods with devices")));
                }
                pod_resources.push(pod);
            }
            Ok(KubeletAnswer::List(ListPodResources { pod_resources }))
        }
        KubeletMethod::GetAllocatableResources => {
            let mut devices: Vec<ContainerDevices> = Vec::new();
            for entry in entries(body) {
                let found = room.devices(Devices::decode(entry?)?)?;
                // The kubelet sends one entry for each device.
                match devices.last_mut() {
                    Some(last) if last.resource_name == found.resource_name => {
                        last.device_ids.extend(found.device_ids);
                    }
                    _ => devices.push(found),
                }
            }
            Ok(KubeletAnswer::Allocatable(AllocatableResources { devices }))
        }
    }
}

/// The entries of the list that a message has as its field [`LIST`]. Other fields are skipped.
fn entries(mut message: Bytes) -> impl Iterator<Item = Result<Bytes, Error>> {
    let mut next = move || -> Result<Option<Bytes>, Error> {
        while message.has_remaining() {
            // A key has the form of a length: its lowest three bits are the type, the others the field's number.
            let key = decode_length_delimiter(&mut message)?;
            match key & 7 {
                0 => drop(decode_length_delimiter(&mut message)?),
                2 => {
                    let length = decode_length_delimiter(&mut message)?;
                    if length > message.remaining() {
                        return Err(Error::Malformed("it ends inside a field".into()));
                    }
                    let entry = message.split_to(length);
                    if key >> 3 != LIST {
                        continue;
                    }
                    if length > MAX_ENTRY {
                        return Err(Error::TooLong(format!("{MAX_ENTRY} bytes in one entry")));
                    }
                    return Ok(Some(entry));
                }
                other => return Err(Error::Malformed(format!("a field of type {other}"))),
            }
        }
        Ok(None)
    };
    let mut failed = false;
    std::iter::from_fn(move || {
        let entry = if failed { None } else { next().transpose() };
        failed = matches!(entry, Some(Err(_)));
        entry
    })
}

/// How many more devices an answer may have.
struct Room(usize);

impl Room {
    fn take(&mut self, entries: usize) -> Result<(), Error> {
        let left = self.0.checked_sub(entries);
        self.0 = left.ok_or_else(|| Error::TooLong(format!("{MAX_DEVICE_IDS} devices")))?;
        Ok(())
    }

    fn pod(&mut self, pod: Pod) -> Result<PodResources, Error> {
        let mut containers = Vec::new();
        for container in pod.containers {
            let container = self.container(container)?;
            if container.devices.is_empty() && container.dynamic_resources.is_empty() {
                continue;
            }
            if containers.len() == MAX_CONTAINERS {
                return Err(Error::TooLong(format!(
                    "{MAX_CONTAINERS} containers with devices in a pod"
                )));
            }
            containers.push(container);
        }
        Ok(PodResources {
            name: word(pod.name)?,
            namespace: word(pod.namespace)?,
            containers,
        })
    }

    fn container(&mut self, container: Container) -> Result<ContainerResources, Error> {
        let devices = container.devices.into_iter();
        let devices = devices
            .map(|devices| self.devices(devices))
            .collect::<Result<_, _>>()?;
        let claims = container.dynamic_resources.into_iter();
        Ok(ContainerResources {
            name: word(container.name)?,
            devices,
            dynamic_resources: claims.map(|claim| self.claim(claim)).collect::<Result<_, _>>()?,
        })
    }

    fn devices(&mut self, devices: Devices) -> Result<ContainerDevices, Error> {
        // An entry without a device takes memory, too.
        self.take(devices.device_ids.len().max(1))?;
        let ids = devices.device_ids.into_iter();
        Ok(ContainerDevices {
            resource_name: word(devices.resource_name)?,
            device_ids: ids.map(word).collect::<Result<_, _>>()?,
        })
    }

    fn claim(&mut self, claim: Claim) -> Result<DynamicResource, Error> {
        self.take(claim.resources.len().max(1))?;
        let mut claim_resources = Vec::with_capacity(claim.resources.len());
        for device in claim.resources {
            claim_resources.push(ClaimResource {
                driver_name: word(device.driver)?,
                pool_name: word(device.pool)?,
                device_name: word(device.device)?,
            });
        }
        Ok(DynamicResource {
            claim_name: word(claim.name)?,
            claim_namespace: word(claim.namespace)?,
            claim_resources,
        })
    }
}

fn word(word: String) -> Result<String, Error> {
    if word.len() > MAX_WORD {
        return Err(Error::TooLong(format!("{MAX_WORD} bytes in a name")));
    }
    Ok(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn devices(resource: &str, ids: &[&str]) -> Devices {
        Devices {
            resource_name: resource.into(),
            device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        }
    }

    fn pod(name: &str, devices: Vec<Devices>) -> Pod {
        Pod {
            name: name.into(),
            namespace: "ml".into(),
            containers: vec![Container {
                name: "main".into(),
                devices,
                dynamic_resources: Vec::new(),
            }],
        }
    }

    /// A message with this list.
    fn message<M: Message>(list: &[M]) -> Bytes {
        let mut bytes = Vec::new();
        for entry in list {
            bytes.push(u8::try_from(LIST).unwrap() * 8 + 2);
            bytes.extend(entry.encode_length_delimited_to_vec());
        }
        bytes.into()
    }

    fn error(method: KubeletMethod, body: impl Into<Bytes>) -> KubeletTrouble {
        decode(method, body.into()).unwrap_err().kind()
    }

    #[test]
    fn pods_without_devices_are_left_out() {
        let body = message(&[
            pod("web", Vec::new()),
            pod("train", vec![devices("openshift.io/rail0", &["0000:41:00.2"])]),
        ]);
        let KubeletAnswer::List(list) = decode(KubeletMethod::List, body).unwrap() else {
            panic!("not a list")
        };
        let names: Vec<_> = list.pod_resources.iter().map(|pod| pod.name.as_str()).collect();
        assert_eq!(names, ["train"]);
    }

    #[test]
    fn allocatable_devices_of_a_resource_are_put_together() {
        let mut body = message(&[
            devices("a/x", &["1"]),
            devices("a/x", &["2"]),
            devices("b/y", &["1"]),
        ])
        .to_vec();
        // cpu_ids: packed, and as older implementations may send them.
        body.extend([0x12, 2, 4, 5, 0x10, 6]);
        let KubeletAnswer::Allocatable(found) =
            decode(KubeletMethod::GetAllocatableResources, body.into()).unwrap()
        else {
            panic!("not devices")
        };
        let found: Vec<_> = found
            .devices
            .iter()
            .map(|one| (&*one.resource_name, one.device_ids.len()))
            .collect();
        assert_eq!(found, [("a/x", 2), ("b/y", 1)]);
    }

    #[test]
    fn limits_are_errors_and_cut_nothing() {
        let list = KubeletMethod::List;
        let one = || vec![devices("r", &["1"])];
        let pods: Vec<_> = (0..=MAX_PODS).map(|n| pod(&n.to_string(), one())).collect();
        assert!(decode(list, message(&pods[1..])).is_ok());
        assert_eq!(error(list, message(&pods)), KubeletTrouble::TooLong);
        let ids = vec![""; MAX_DEVICE_IDS + 1];
        assert_eq!(
            error(list, message(&[pod("x", vec![devices("r", &ids)])])),
            KubeletTrouble::TooLong
        );
        let name = "x".repeat(MAX_WORD + 1);
        assert_eq!(
            error(list, message(&[pod(&name, one())])),
            KubeletTrouble::TooLong
        );
        let name = "x".repeat(MAX_ENTRY);
        assert_eq!(
            error(list, message(&[pod(&name, one())])),
            KubeletTrouble::TooLong
        );
        // Two bytes each.
        let empty = [0x0a, 0].repeat(MAX_DEVICE_IDS + 1);
        assert_eq!(
            error(KubeletMethod::GetAllocatableResources, empty),
            KubeletTrouble::TooLong
        );
    }

    #[test]
    fn what_is_not_the_message_is_malformed() {
        let whole = message(&[pod("train", vec![devices("r", &["1"])])]);
        for body in [
            &whole[..whole.len() - 1],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0x0b],
            &[0xff; 20],
            // A name that is not UTF-8.
            &[0x0a, 3, 0x0a, 1, 0xff],
        ] {
            assert_eq!(
                error(KubeletMethod::List, body.to_vec()),
                KubeletTrouble::Malformed
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_exceed_the_limits(
            at in 0..200_usize,
            removed in 0..20_usize,
            added in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut body = message(&[pod("train", vec![devices("r", &["1", "2"])]), pod("b", Vec::new())]).to_vec();
            let at = at.min(body.len());
            let end = (at + removed).min(body.len());
            body.splice(at..end, added);
            for method in KubeletMethod::ALL {
                if let Ok(answer) = decode(method, body.clone().into()) {
                    let json = serde_json::to_string(&answer).unwrap();
                    prop_assert_eq!(serde_json::from_str::<KubeletAnswer>(&json).unwrap(), answer);
                }
            }
        }
    }
}
