//! The messages of the service as they are on the wire: the fields that readers use. All others are skipped.

/// `PodResources`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Pod {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) namespace: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) containers: Vec<Container>,
}

/// `ContainerResources`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) devices: Vec<Devices>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) dynamic_resources: Vec<Claim>,
}

/// `ContainerDevices`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Devices {
    #[prost(string, tag = "1")]
    pub(crate) resource_name: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) device_ids: Vec<String>,
}

/// `DynamicResource`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Claim {
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) resources: Vec<ClaimDevice>,
}

/// `ClaimResource`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ClaimDevice {
    #[prost(string, tag = "2")]
    pub(crate) driver: String,
    #[prost(string, tag = "3")]
    pub(crate) pool: String,
    #[prost(string, tag = "4")]
    pub(crate) device: String,
}
