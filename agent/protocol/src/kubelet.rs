//! What the kubelet's pod-resources service answers: which container was given which device.
//!
//! The types have the names of `staging/src/k8s.io/kubelet/pkg/apis/podresources/v1/types.go` in Kubernetes, and their JSON is
//! the JSON form of its protobuf messages, without the fields that no reader uses (CPUs, memory, topology, CDI names).

use serde::{Deserialize, Serialize};

use crate::{bounded, text::excerpt};

/// The most pods with devices on a node. The kubelet's own limit is 110 unless configured; OpenShift supports 500.
pub const MAX_PODS: usize = 1024;
/// The most containers with devices of a pod.
pub const MAX_CONTAINERS: usize = 256;
/// The most entries of any other list of an answer, and of all device ids of an answer together: a device plugin may offer
/// each device a thousand times.
pub const MAX_DEVICE_IDS: usize = 16_384;
/// Maximum length of a name or id in bytes. The longest is the name of a resource: a domain, a slash, and 63 bytes.
pub const MAX_WORD: usize = 320;
/// Maximum length of a reason in bytes.
const MAX_REASON: usize = 2048;

/// A question to the kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KubeletMethod {
    /// The devices of each container.
    List,
    /// The devices that containers may be given, whether they are in use or not.
    GetAllocatableResources,
}

impl KubeletMethod {
    /// Every question.
    pub const ALL: [Self; 2] = [Self::List, Self::GetAllocatableResources];

    /// Its name in the service `v1.PodResourcesLister`.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "List",
            Self::GetAllocatableResources => "GetAllocatableResources",
        }
    }
}

/// What came of a question to the kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KubeletAnswer {
    /// The node has no kubelet, or its kubelet does not serve this method.
    Absent,
    /// To [`KubeletMethod::List`]: the pods with devices.
    List(ListPodResources),
    /// To [`KubeletMethod::GetAllocatableResources`].
    Allocatable(AllocatableResources),
    /// It could not be asked, or its answer is of no use.
    Failed(KubeletFailure),
}

/// Why the kubelet gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeletFailure {
    /// What went wrong.
    pub kind: KubeletTrouble,
    /// Details for a person.
    #[serde(deserialize_with = "bounded::text::<_, MAX_REASON>")]
    pub detail: String,
}

impl KubeletFailure {
    /// A failure, with at most as much of the details as the other side accepts.
    pub fn new(kind: KubeletTrouble, detail: &str) -> Self {
        // A character takes at most ten bytes where it is escaped.
        let detail = excerpt(detail, MAX_REASON / 10 - 1);
        Self { kind, detail }
    }
}

/// What went wrong when the kubelet was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KubeletTrouble {
    /// A system call failed with this number, as in `errno.h`.
    Errno(i32),
    /// It did not answer in time.
    Hung,
    /// Its answer is not one of the service.
    Malformed,
    /// Its answer is longer than the limits above.
    TooLong,
    /// It rejected the request.
    Refused,
}

/// The pods of a node that were given devices (`ListPodResourcesResponse`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPodResources {
    /// In the kubelet's order.
    #[serde(default, deserialize_with = "bounded::list::<_, _, MAX_PODS>")]
    pub pod_resources: Vec<PodResources>,
}

/// The devices of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodResources {
    /// Its name.
    #[serde(deserialize_with = "bounded::text::<_, MAX_WORD>")]
    pub name: String,
    /// Its namespace.
    #[serde(deserialize_with = "bounded::text::<_, MAX_WORD>")]
    pub namespace: String,
    /// Its containers with devices.
    #[serde(default, deserialize_with = "bounded::list::<_, _, MAX_CONTAINERS>")]
    pub containers: Vec<ContainerResources>,
}

/// The devices of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResources {
    /// Its name.
    #[serde(deserialize_with = "bounded::text::<_, MAX_WORD>")]
    pub name: String,
    /// From device plugins.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::list::<_, _, MAX_DEVICE_IDS>"
    )]
    pub devices: Vec<ContainerDevices>,
    /// From dynamic resource allocation (DRA).
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "bounded::list::<_, _, MAX_DEVICE_IDS>"
    )]
    pub dynamic_resources: Vec<DynamicResource>,
}

/// Devices of one resource of a device plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerDevices {
    /// `openshift.io/eno5np0rdma`.
    #[serde(deserialize_with = "bounded::text::<_, MAX_WORD>")]
    pub resource_name: String,
    /// The plugin's names of the devices. The SR-IOV device plugin uses PCI addresses, the RDMA shared device plugin numbers.
    #[serde(default, deserialize_with = "ids")]
    pub device_ids: Vec<String>,
}

/// Devices of one claim of a pod (DRA).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DynamicResource {
    /// Name of the `ResourceClaim`.
    #[serde(default, deserialize_with = "bounded::text::<_, MAX_WORD>")]
    pub claim_name: String,
    /// Its namespace.
    #[serde(default, deserialize_with = "bounded::text::<_, MAX_WORD>")]
    pub claim_namespace: String,
    /// Its devices.
    #[serde(default, deserialize_with = "bounded::list::<_, _, MAX_DEVICE_IDS>")]
    pub claim_resources: Vec<ClaimResource>,
}

/// One device of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimResource {
    /// `sriovnetwork.k8snetworkplumbingwg.io`.
    #[serde(default, deserialize_with = "bounded::text::<_, MAX_WORD>")]
    pub driver_name: String,
    /// Often the name of the node.
    #[serde(default, deserialize_with = "bounded::text::<_, MAX_WORD>")]
    pub pool_name: String,
    /// The driver's name of the device: a DNS label, often made from a PCI address or from a network device's name.
    #[serde(default, deserialize_with = "bounded::text::<_, MAX_WORD>")]
    pub device_name: String,
}

/// The devices that containers may be given (`AllocatableResourcesResponse`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatableResources {
    /// Without the devices that their plugin reports as unhealthy.
    #[serde(default, deserialize_with = "bounded::list::<_, _, MAX_DEVICE_IDS>")]
    pub devices: Vec<ContainerDevices>,
}

fn ids<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Id(#[serde(deserialize_with = "bounded::text::<_, MAX_WORD>")] String);
    let ids = bounded::list::<_, Id, MAX_DEVICE_IDS>(deserializer)?;
    Ok(ids.into_iter().map(|Id(id)| id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_bounds_is_refused() {
        let list = |pods: usize, word: usize| {
            let name = "x".repeat(word);
            let pod = PodResources {
                name: name.clone(),
                namespace: name,
                ..PodResources::default()
            };
            let list = ListPodResources {
                pod_resources: vec![pod; pods],
            };
            serde_json::from_str::<ListPodResources>(&serde_json::to_string(&list).unwrap())
        };
        assert_eq!(list(MAX_PODS, MAX_WORD).unwrap().pod_resources.len(), MAX_PODS);
        assert!(list(MAX_PODS + 1, 1).is_err());
        assert!(list(1, MAX_WORD + 1).is_err());
        let ids = |length: usize| format!(r#"{{"resourceName":"r","deviceIds":["{}"]}}"#, "x".repeat(length));
        assert!(serde_json::from_str::<ContainerDevices>(&ids(MAX_WORD)).is_ok());
        assert!(serde_json::from_str::<ContainerDevices>(&ids(MAX_WORD + 1)).is_err());
        let long = KubeletFailure::new(KubeletTrouble::Malformed, &"\u{1}".repeat(1 << 16));
        let json = serde_json::to_string(&long).unwrap();
        assert!(serde_json::from_str::<KubeletFailure>(&json).is_ok());
    }

    #[test]
    fn the_json_is_that_of_the_protobuf_messages() {
        let json = r#"{"podResources":[{"name":"train-0","namespace":"ml","containers":[{"name":"main","devices":[
            {"resourceName":"openshift.io/eno5np0rdma","deviceIds":["0000:41:00.2"],"topology":{"nodes":[{"ID":"1"}]}}],
            "cpuIds":["4"],"dynamicResources":[{"claimName":"c","claimNamespace":"ml","claimResources":[
            {"cdiDevices":[{"name":"v/c=d"}],"driverName":"dra.net","poolName":"n1","deviceName":"eth1"}]}]}]}]}"#;
        let list: ListPodResources = serde_json::from_str(json).unwrap();
        let container = &list.pod_resources[0].containers[0];
        assert_eq!(container.devices[0].device_ids, ["0000:41:00.2"]);
        assert_eq!(
            container.dynamic_resources[0].claim_resources[0].device_name,
            "eth1"
        );
    }
}
