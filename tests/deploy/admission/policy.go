package main

import (
	"fmt"
	"os"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// readPolicy reads policy and binding, rejects unknown fields, and sets the server's defaults.
func readPolicy(file string) (*registration.ValidatingAdmissionPolicy, *registration.ValidatingAdmissionPolicyBinding, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	policy := &registration.ValidatingAdmissionPolicy{}
	binding := &registration.ValidatingAdmissionPolicyBinding{}
	for _, document := range strings.Split(string(text), "\n---\n") {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			return nil, nil, err
		}
		var into any
		switch kind.Kind {
		case "":
			continue // the comment at the top
		case "ValidatingAdmissionPolicy":
			into = policy
		case "ValidatingAdmissionPolicyBinding":
			into = binding
		default:
			return nil, nil, fmt.Errorf("%s: a document of kind %q", file, kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", kind.Kind, err)
		}
	}
	if policy.Name == "" || binding.Spec.PolicyName != policy.Name {
		return nil, nil, fmt.Errorf("%s: the binding is of policy %q, the policy is %q", file, binding.Spec.PolicyName, policy.Name)
	}
	setDefaults(policy.Spec.MatchConstraints)
	return policy, binding, nil
}

// setDefaults sets the server's defaults, which are not part of k8s.io/apiserver.
func setDefaults(match *registration.MatchResources) {
	if match.MatchPolicy == nil {
		equivalent := registration.Equivalent
		match.MatchPolicy = &equivalent
	}
	// Without a selector nothing would be selected.
	if match.NamespaceSelector == nil {
		match.NamespaceSelector = &meta.LabelSelector{}
	}
	if match.ObjectSelector == nil {
		match.ObjectSelector = &meta.LabelSelector{}
	}
	for i := range match.ResourceRules {
		if rule := &match.ResourceRules[i].Rule; rule.Scope == nil {
			every := registration.AllScopes
			rule.Scope = &every
		}
	}
}
