//! Commands that create a `MachineConfig` for the workers of OpenShift.

/// One that adds kernel arguments, separated by spaces.
pub(super) fn kernel_arguments(arguments: &str) -> String {
    let list: Vec<_> = arguments
        .split(' ')
        .map(|argument| format!("\"{argument}\""))
        .collect();
    apply(
        &format!("rdma-{}", label(arguments)),
        &format!("\"kernelArguments\":[{}]", list.join(",")),
    )
}

/// Kernel arguments as a part of a name, so that those of another remedy get another one: `iommu-pt`.
pub(super) fn label(arguments: &str) -> String {
    let words = arguments.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).take(6).collect();
    words.join("-").to_ascii_lowercase()
}

/// One that writes a file with these lines.
pub(super) fn file(name: &str, path: &str, lines: &[String]) -> String {
    // A URL with data (RFC 2397). The lines have no character that must be escaped but the equal sign, which may stay.
    let content: Vec<_> = lines.iter().map(|line| format!("{line}%0A")).collect();
    let content = content.concat();
    apply(
        name,
        &format!(
            "\"config\":{{\"ignition\":{{\"version\":\"3.2.0\"}},\"storage\":{{\"files\":[{{\"path\":\"{path}\",\"mode\":420,\
             \"overwrite\":true,\"contents\":{{\"source\":\"data:,{content}\"}}}}]}}}}"
        ),
    )
}

fn apply(name: &str, spec: &str) -> String {
    format!(
        "oc apply -f - <<< '{{\"apiVersion\":\"machineconfiguration.openshift.io/v1\",\"kind\":\"MachineConfig\",\
        \"metadata\":{{\"name\":\"99-worker-{name}\",\"labels\":{{\"machineconfiguration.openshift.io/role\":\"worker\"}}}},\
        \"spec\":{{{spec}}}}}'"
    )
}
