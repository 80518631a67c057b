//! Network attachments and the resources that they imply.

use super::*;

#[test]
fn an_attachment_with_a_wrong_resource_is_named_with_the_right_one() {
    let mut cluster = cluster();
    let attachments = cluster.attachments.get_mut("team-a").unwrap();
    read(attachments)[0]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"] =
        "openshift.io/eno5np0rmda".into();
    let report = run(&cluster);
    let found = one(&report, "resource-unknown");
    assert_eq!(found.severity, Severity::Critical);
    assert!(
        found
            .summary
            .contains("no node has the resource openshift.io/eno5np0rmda"),
        "{found:?}"
    );
    assert!(
        found.remedy.contains("did you mean openshift.io/eno5np0rdma?"),
        "{found:?}"
    );
    assert_eq!(
        (report.findings.len(), report.exit_status()),
        (1, 2),
        "{report:#?}"
    );
}

#[test]
fn attachments_that_do_not_exist_or_name_no_resource() {
    let mut cluster = cluster();
    let attachments = read(cluster.attachments.get_mut("team-a").unwrap());
    attachments.remove(0);
    let annotations = attachments[0]["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.clear();
    let report = run(&cluster);
    let found = one(&report, "attachment-missing");
    assert!(
        found.summary.contains("team-a/eno5np0-network does not exist"),
        "{found:?}"
    );
    assert!(found.evidence[1].contains("eno6np0-network"), "{found:?}");
    let found = one(&report, "attachment-without-resource");
    assert!(
        found
            .summary
            .contains("team-a/eno6np0-network names no resource, so its CNI plugin sriov"),
        "{found:?}"
    );
    assert!(
        found
            .remedy
            .contains("kubectl -n team-a annotate network-attachment-definition eno6np0-network"),
        "{found:?}"
    );
    cluster.attachments.insert("team-a".into(), Listed::NotInstalled);
    assert!(
        run(&cluster)
            .findings
            .iter()
            .any(|one| one.rule == "multus-missing")
    );
}

#[test]
fn a_macvlan_attachment_needs_no_resource_and_a_chain_with_sriov_does() {
    for (config, expected) in [
        (r#"{"type":"macvlan","master":"ens1f0"}"#, 0),
        (r#"{"plugins":[{"type":"sriov"},{"type":"rdma"}]}"#, 2),
        ("{", 2),
        ("", 0),
    ] {
        let mut cluster = cluster();
        let attachments = read(cluster.attachments.get_mut("team-a").unwrap());
        attachments.push(json!({"metadata": {"name": "more"}, "spec": {"config": config}}));
        set_job(&mut cluster, |job| {
            let annotation =
                &mut job["spec"]["template"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"];
            *annotation = format!("{}, team-a/more@net9", annotation.as_str().unwrap()).into();
        });
        assert_eq!(run(&cluster).exit_status(), expected, "{config}");
    }
}

#[test]
fn a_pod_without_the_resources_of_its_attachments() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        let resources = &mut pod_spec(job)["containers"][0]["resources"];
        for kind in ["requests", "limits"] {
            resources[kind]
                .as_object_mut()
                .unwrap()
                .remove("openshift.io/eno8np0rdma");
        }
    });
    let report = run(&cluster);
    let found = one(&report, "resource-not-requested");
    assert!(
        found
            .summary
            .contains("need 1 of openshift.io/eno8np0rdma, but the containers request 0"),
        "{found:?}"
    );
    // The SR-IOV network operator adds them.
    let injector = json!({"metadata": {"name": "network-resources-injector-config"}});
    cluster.webhooks = Listed::Read(vec![injector]);
    assert_eq!(run(&cluster).exit_status(), 0);
    cluster.webhooks = Listed::NotRead("forbidden".into());
    assert_eq!(run(&cluster).exit_status(), 1);
}

#[test]
fn a_device_that_no_network_attaches_has_no_gid() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        let annotations = &mut job["spec"]["template"]["metadata"]["annotations"];
        annotations["k8s.v1.cni.cncf.io/networks"] =
            r#"[{"name":"eno5np0-network"},{"name":"eno6np0-network"},{"name":"eno7np0-network","namespace":"team-a"}]"#.into();
    });
    let report = run(&cluster);
    let found = one(&report, "resource-not-attached");
    assert!(found.remedy.contains("add eno8np0-network"), "{found:?}");
    assert_eq!(report.exit_status(), 1);
}
