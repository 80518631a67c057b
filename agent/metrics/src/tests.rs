//! Tests of what `/metrics` shows.

mod declared;
mod exposition;
mod parsed;
mod scrapes;
mod series;

use std::sync::Arc;

use rdma_health_node::{Fact, kubelet::Kubelet};
use rdma_health_protocol::{ContainerDevices, ContainerResources, PodResources};
use rdma_health_tests::view;
use rdma_health_view::View;

use super::{families::counters::NAMED, *};

const BOTH: RenderOptions = RenderOptions {
    node_exporter_names: true,
    without_fixed: false,
    format: Format::Text,
};

/// A node with every counter that has its own family.
fn rich(devices: u64) -> View {
    let counters: Vec<_> = NAMED
        .iter()
        .map(|named| (named.directory.name(), named.file))
        .collect();
    let mut view = view::rich(devices, &counters);
    view.node.kubelet = Arc::new(kubelet(1));
    view
}

/// A kubelet that gave `mlx5_0` to this many pods.
fn kubelet(pods: usize) -> Kubelet {
    let pod = |n| PodResources {
        name: format!("train-{n}"),
        namespace: "ml".into(),
        containers: vec![ContainerResources {
            name: "main".into(),
            devices: vec![ContainerDevices {
                resource_name: "openshift.io/rail0".into(),
                device_ids: vec!["mlx5_0".into()],
            }],
            ..ContainerResources::default()
        }],
    };
    Kubelet {
        pods: Fact::Known((0..pods).map(pod).collect()),
        allocatable: Fact::Absent,
    }
}

fn text(view: Option<&View>, options: RenderOptions) -> String {
    let mut buffer = Vec::new();
    Exporter::default().render(view, options, &mut buffer);
    String::from_utf8(buffer).unwrap()
}
