//! Which container was given which device, and which devices containers may be given.
//!
//! Source: the kubelet's pod-resources service (`v1.PodResourcesLister`), which only root may ask: the verbs helper does. It is
//! optional: a machine without a kubelet has no such facts.

use rdma_health_protocol::{
    AllocatableResources, ContainerDevices, KubeletMethod, ListPodResources, PodResources,
};
use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread},
    recording::Question,
    root::Scope,
    source::{Known, Source},
};

/// What the kubelet answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubelet {
    /// The pods that were given devices, of any kind; absent without a kubelet.
    pub pods: Fact<Vec<PodResources>>,
    /// The devices that containers may be given, used or not, by resource; absent if the kubelet does not report them.
    pub allocatable: Fact<Vec<ContainerDevices>>,
}

impl Source for Kubelet {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        if !scope.root().answers_kubelet() {
            return Self::default();
        }
        let question = |method: KubeletMethod| Question::Kubelet {
            method: method.name().to_owned(),
        };
        let live = |method| move || scope.root().ask_kubelet(method);
        let list = KubeletMethod::List;
        let pods: Fact<ListPodResources> = scope.service(question(list), live(list));
        let allocatable = KubeletMethod::GetAllocatableResources;
        let devices: Fact<AllocatableResources> = scope.service(question(allocatable), live(allocatable));
        Self {
            pods: pods.map(|list| list.pod_resources),
            allocatable: devices.map(|found| found.devices),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            pods: why.clone().into(),
            allocatable: why.clone().into(),
        }
    }
}
