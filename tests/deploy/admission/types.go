package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
)

// What the type checker rightly does not know: one policy is about three kinds, each without the fields of the others, and
// quantities have no type in it.
var unknown = map[string][]string{
	"Node":  {"involvedObject", "regarding", "capacity", "allocatable"},
	"Event": {"regarding", "spec", "status"},
}

var undefined = regexp.MustCompile(`undefined field '(\w+)'`)

// checkTypes has Kubernetes' type checker look for fields that a Node or an Event does not have. It warns and forbids nothing.
func checkTypes(policy *registration.ValidatingAdmissionPolicy) error {
	checker := validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: schemas{}},
		RestMapper:     kinds(),
	}
	fmt.Printf("type checker: %d warnings\n", len(checker.Check(policy)))
	// But in a cluster it passes over rules for any version, as ours are, and over all that is in variables. Not so here.
	policy = policy.DeepCopy()
	for i := range policy.Spec.MatchConstraints.ResourceRules {
		policy.Spec.MatchConstraints.ResourceRules[i].APIVersions = []string{"v1"}
	}
	var expressions []string
	for _, variable := range policy.Spec.Variables {
		expressions = append(expressions, variable.Expression)
	}
	for _, validation := range policy.Spec.Validations {
		expressions = append(expressions, validation.Expression)
	}

	var problems []error
	context := checker.CreateContext(policy)
	met := map[string][]string{}
	for _, expression := range expressions {
		for _, result := range checker.CheckExpression(context, expression) {
			kind, warning := result.GVK.Kind, result.String()
			fields := undefined.FindAllStringSubmatch(warning, -1)
			if len(fields) != strings.Count(warning, "ERROR:") {
				problems = append(problems, errors.New(warning))
			}
			for _, field := range fields {
				if slices.Contains(met[kind], field[1]) {
					continue
				}
				met[kind] = append(met[kind], field[1])
				if !slices.Contains(unknown[kind], field[1]) {
					problems = append(problems, fmt.Errorf("%s has no field %q: %s", kind, field[1], expression))
				}
			}
		}
	}
	// Where it has no schema it says nothing.
	if len(met["Node"]) == 0 || len(met["Event"]) == 0 {
		problems = append(problems, errors.New("the type checker had no schemas"))
	}
	if problems == nil {
		fmt.Println("type checker, given v1 and the variables too: every field of a Node and of an Event of core/v1 is one")
	}
	return errors.Join(problems...)
}

// schemas is a server's discovery, reduced to the schemas that client-go carries: those of core/v1, and not of events.k8s.io.
type schemas struct{ discovery.DiscoveryInterface }

func (schemas) OpenAPIV3() openapi.Client { return openapitest.NewEmbeddedFileClient() }
