//! Which nodes a pod's specification excludes.

use serde_json::Value;

use crate::workload::Workload;

/// Why the scheduler does not use a node for a pod; `None` if nothing is known against it.
pub(super) fn excluded(workload: &Workload, node: &Value) -> Option<String> {
    let labels = &node["metadata"]["labels"];
    for (key, value) in workload.spec["nodeSelector"].as_object().into_iter().flatten() {
        if labels[key] != *value {
            return Some(format!(
                "nodeSelector {key}={}",
                value.as_str().unwrap_or_default()
            ));
        }
    }
    if let Some(why) = affinity(workload, node) {
        return Some(why);
    }
    let tolerations = workload.spec["tolerations"].as_array();
    let tolerated = |taint: &Value| {
        tolerations.into_iter().flatten().any(|one| {
            let same =
                |field: &str| one[field].as_str().is_none_or(str::is_empty) || one[field] == taint[field];
            let exists = one["operator"] == "Exists" || one["value"] == taint["value"];
            same("key") && same("effect") && exists
        })
    };
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let mut strict = taints.filter(|taint| taint["effect"] != "PreferNoSchedule");
    if let Some(taint) = strict.find(|taint| !tolerated(taint)) {
        return Some(format!("taint {}", taint["key"].as_str().unwrap_or_default()));
    }
    let cordon = serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    (node["spec"]["unschedulable"] == true && !tolerated(&cordon)).then(|| "cordoned".into())
}

/// The required node affinity: one of its terms must hold, and in a term every expression.
fn affinity(workload: &Workload, node: &Value) -> Option<String> {
    let required =
        &workload.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array()?;
    let mut unmet = None;
    for term in terms {
        let of = |field: &str| term[field].as_array().into_iter().flatten();
        let labels = of("matchExpressions").map(|one| {
            let key = one["key"].as_str().unwrap_or_default();
            (one, node["metadata"]["labels"][key].as_str())
        });
        // The only field is metadata.name.
        let fields = of("matchFields").map(|one| (one, node["metadata"]["name"].as_str()));
        let all: Vec<_> = labels.chain(fields).collect();
        let found = if all.is_empty() {
            // It matches no node.
            Some("nodeAffinity with an empty term".to_owned())
        } else {
            let unmet = all.into_iter().find(|(one, value)| !holds(one, *value));
            unmet.map(|(one, _)| format!("nodeAffinity {}", one["key"].as_str().unwrap_or_default()))
        };
        match found {
            None => return None,
            some => unmet = unmet.or(some),
        }
    }
    unmet
}

/// Whether an expression holds of a label's value.
fn holds(expression: &Value, value: Option<&str>) -> bool {
    let values = || {
        expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    };
    let is_listed = || values().any(|one| Some(one) == value);
    let compare = |holds: fn(i64, i64) -> bool| {
        let wanted = values().next().and_then(|one| one.parse().ok());
        let is = value.and_then(|value| value.parse().ok());
        is.zip(wanted).is_some_and(|(is, wanted)| holds(is, wanted))
    };
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|is, wanted| is > wanted),
        "Lt" => compare(|is, wanted| is < wanted),
        _ => false,
    }
}
