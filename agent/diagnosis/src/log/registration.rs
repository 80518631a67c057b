//! Device plugins of Kubernetes that the kubelet does not accept: what they offer is then missing on the node.

use super::cluster::is_of_rdma;

/// Words of the lines that matter here, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "registered at kubelet",
    "registerplugin",
    "plugin registration",
    "dial device plugin",
    "device plugin",
    "plugins_registry",
    "device-plugins",
    "dev-plugin",
    "with kubelet",
    "with the kubelet",
    ".sock",
    "devices found",
    "device found",
    "0 devices",
    "exposing",
    "listandwatch",
    "resources unhealthy",
    "registration request",
];

/// Where a line in lower case reports that a plugin could not register: `Could not register device plugin: …`, `RegisterPlugin error -- …`,
/// `hca.sock failed to be registered at Kubelet: …`.
pub(super) fn failed(lower: &str) -> Option<usize> {
    const FAILS: [&str; 8] = [
        "fail",
        "error",
        "could not",
        "couldn't",
        "cannot",
        "can't",
        "unable",
        "not allowed",
    ];
    // Not the registry of an image.
    let at = ["registe", "registrat", "dial device plugin"]
        .iter()
        .filter_map(|words| lower.find(words))
        .min()?;
    let is_one = ["kubelet", "device plugin", "registerplugin", "plugins_registry"]
        .iter()
        .any(|words| lower.contains(words));
    (is_one && FAILS.iter().any(|words| lower.contains(words))).then_some(at)
}

/// Where a plugin reports in a line in lower case that it has nothing to offer: `No devices found.`, `exposing "0" devices`, `exposing
/// devices:  []`.
pub(super) fn offers_nothing(lower: &str) -> Option<usize> {
    const FORMS: [&str; 5] = [
        "no devices found",
        "no device found",
        "found 0 devices",
        "exposing \"0\" devices",
        "exposing 0 devices",
    ];
    let of_list = || {
        let at = lower.find("exposing devices:")?;
        lower[at + "exposing devices:".len()..]
            .trim()
            .starts_with("[]")
            .then_some(at)
    };
    FORMS.iter().find_map(|form| lower.find(form)).or_else(of_list)
}

/// Where the kubelet reports in a line in lower case that it lost a plugin for RDMA, whose devices it then takes for unhealthy: `ListAndWatch ended
/// unexpectedly for device plugin" err="…" resource="rdma/hca"`.
pub(super) fn lost(lower: &str) -> Option<usize> {
    const FORMS: [&str; 3] = [
        "listandwatch ended unexpectedly",
        "mark all resources unhealthy",
        "device plugin endpoint stopped",
    ];
    let at = FORMS.iter().find_map(|form| lower.find(form))?;
    is_of_rdma(&lower[at..]).then_some(at)
}

/// Whether the kubelet knows a plugin after this line in lower case.
pub(super) fn succeeded(lower: &str) -> bool {
    const FORMS: [&str; 5] = [
        "got registration request from device plugin",
        "registered successfully at kubelet",
        "registered with kubelet",
        "registered with the kubelet",
        "registered device plugin",
    ];
    FORMS.iter().any(|form| lower.contains(form)) && failed(lower).is_none()
}

/// Whether a line in lower case shows that a plugin of this log offers devices of RDMA.
pub(super) fn is_of_our_plugin(lower: &str) -> bool {
    let is_of_plugin = [
        "device plugin",
        "device-plugin",
        "dev-plugin",
        "plugins_registry",
        ".sock",
    ]
    .iter()
    .any(|words| lower.contains(words));
    is_of_plugin && is_of_rdma(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_the_kubelet_does_not_know_is_read() {
        for line in [
            "hca_3.sock failed to be registered at kubelet: registerplugin error -- plugin registration failed with err: x; restarting.",
            "could not register device plugin: rpc error: code = unimplemented desc = unknown service deviceplugin.registration",
            "operation for \"/var/lib/kubelet/plugins_registry/intel.com_mlnx.sock\" failed. error: \"registerplugin error -- dial failed",
            "unable to register with the kubelet: connection refused",
        ] {
            assert!(failed(line).is_some() && !succeeded(line), "{line}");
        }
        for line in [
            "registered device plugin for 'vpc.amazonaws.com/efa' with kubelet",
            "hca.sock gets registered successfully at kubelet",
            "mlnx_rdma device plugin registered with kubelet",
        ] {
            assert!(failed(line).is_none() && succeeded(line), "{line}");
        }
        assert_eq!(failed("failed to register memory of mlx5_0"), None);
        let image =
            "kubelet[2212]: \"pullimage failed\" image=\"registry/rdma-tools:latest\" err=\"not found\"";
        assert_eq!(failed(image), None);
        let ended = "listandwatch ended unexpectedly for device plugin\" err=\"eof\" resource=";
        assert!(lost(&format!("{ended}\"rdma/hca\"")).is_some());
        assert!(lost(&format!("{ended}\"nvidia.com/gpu\"")).is_none());
        for line in [
            "main.go:39] no devices found.",
            "exposing \"0\" devices",
            "exposing devices:  []",
        ] {
            assert!(offers_nothing(line).is_some(), "{line}");
        }
        for line in ["exposing \"1000\" devices", "exposing devices:  [mlx5_0]"] {
            assert!(offers_nothing(line).is_none(), "{line}");
        }
        assert!(is_of_our_plugin(
            "starting rdma/hca_3 device plugin endpoint at: hca_3.sock"
        ));
        assert!(!is_of_our_plugin(
            "starting to serve 'nvidia.com/gpu' on /var/lib/kubelet/device-plugins/nvidia-gpu.sock"
        ));
    }
}
