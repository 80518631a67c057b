package main

import (
	"context"
	"fmt"

	registration "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	limits "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// A server refuses a request whose evaluation costs too much, so even a Node with many entries must cost little.
const conditions, labels, taints = 40, 60, 20

// crowded adds many entries to a Node, and returns the request that changes all entries of the agent on it.
func crowded(little request, conditions, labels, taints int) request {
	before := little.attributes.GetOldObject().(*core.Node).DeepCopy()
	for i := range conditions {
		condition := before.Status.Conditions[0]
		condition.Type = core.NodeConditionType(fmt.Sprintf("SomebodyElses%dProblem", i))
		condition.Message = fmt.Sprintf("what a node problem detector has to say about problem %d, at some length", i)
		before.Status.Conditions = append(before.Status.Conditions, condition)
	}
	for i := range labels {
		before.Labels[fmt.Sprintf("feature.node.kubernetes.io/of-some-length-%d.present", i)] = "true"
	}
	for i := range taints {
		taint := core.Taint{Key: fmt.Sprintf("example.org/taint-%d", i), Effect: core.TaintEffectNoSchedule}
		before.Spec.Taints = append(before.Spec.Taints, taint)
	}
	now := before.DeepCopy()
	// First in the list, so that each is compared with the most.
	for _, kind := range []core.NodeConditionType{"RDMAIommuProblem", "RDMALinkProblem", "GPUDirectProblem"} {
		ours := core.NodeCondition{Type: kind, Status: core.ConditionFalse, Reason: "Fine", Message: "all is well"}
		now.Status.Conditions = append([]core.NodeCondition{ours}, now.Status.Conditions...)
	}
	now.Labels["state.rdma-health.io/verdict"] = "ok"
	taint := core.Taint{Key: "state.rdma-health.io/critical", Effect: core.TaintEffectNoSchedule}
	now.Spec.Taints = append([]core.Taint{taint}, now.Spec.Taints...)
	asked := attributes("nodes", "", now, before, little.attributes.GetUserInfo())
	return request{fmt.Sprintf("a Node with %d conditions, %d labels, %d taints", conditions, labels, taints), asked, ""}
}

// countCosts prints the cost of a request, and fails if it exceeds half of a server's limit.
func countCosts(policy *registration.ValidatingAdmissionPolicy, asked request) error {
	costs, err := costsOf(policy, asked)
	if err != nil {
		return fmt.Errorf("%s: %w", asked.name, err)
	}
	most, sum := int64(0), int64(0)
	for _, cost := range costs {
		most, sum = max(most, cost), sum+cost
	}
	fmt.Printf("%s: costs %d at most for one rule (%d allowed), %d in all (%d allowed)\n",
		asked.name, most, limits.PerCallLimit, sum, limits.RuntimeCELCostBudget)
	if most > limits.PerCallLimit/2 || sum > limits.RuntimeCELCostBudget/2 {
		return fmt.Errorf("%s: costs too much", asked.name)
	}
	return nil
}

// costsOf returns the cost of each rule including its variables; a server evaluates a variable once for all rules.
func costsOf(policy *registration.ValidatingAdmissionPolicy, asked request) ([]int64, error) {
	const mode = environment.StoredExpressions
	compiler, _ := compiledVariables(policy, oldest, mode)
	resource, kind := asked.attributes.GetResource(), asked.attributes.GetKind()
	versioned, err := admission.NewVersionedAttributes(asked.attributes, kind, admission.NewObjectInterfacesFromScheme(scheme))
	if err != nil {
		return nil, err
	}
	shown := cel.CreateAdmissionRequest(asked.attributes, meta.GroupVersionResource(resource), meta.GroupVersionKind(kind))
	var costs []int64
	for _, validation := range policy.Spec.Validations {
		compiled := compiler.CompileCondition([]cel.ExpressionAccessor{rule(validation)}, withAuthorizer, mode)
		results, left, err := compiled.ForInput(
			context.Background(), versioned, shown, cel.OptionalVariableBindings{}, nil, limits.RuntimeCELCostBudget)
		if err != nil {
			return nil, err
		}
		if results[0].Error != nil {
			return nil, results[0].Error
		}
		costs = append(costs, limits.RuntimeCELCostBudget-left)
	}
	return costs, nil
}
