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

// Fields that the type checker correctly does not know: the policy covers three kinds, each without the fields of the others,
// and the checker has no type for quantities.
var unknown = map[string][]string{
	"Node":  {"involvedObject", "regarding", "capacity", "allocatable"},
	"Event": {"regarding", "spec", "status"},
}

var undefined = regexp.MustCompile(`undefined field '(\w+)'`)

// checkTypes looks for fields that a Node or an Event does not have, with Kubernetes' type checker, which only warns.
func checkTypes(policy *registration.ValidatingAdmissionPolicy) error {
	checker := validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: schemas{}},
		RestMapper:     kinds(),
	}
	fmt.Printf("type checker: %d warnings\n", len(checker.Check(policy)))
	// In a cluster it skips rules for any version, as these are, and all variables. Here it checks both.
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
	// Without a schema it gives no warning.
	if len(met["Node"]) == 0 || len(met["Event"]) == 0 {
		problems = append(problems, errors.New("the type checker had no schemas"))
	}
	if problems == nil {
		fmt.Println("type checker, with v1 and the variables: every field exists in Node or Event (core/v1)")
	}
	return errors.Join(problems...)
}

// schemas is a server's discovery, reduced to the schemas in client-go: core/v1, but not events.k8s.io.
type schemas struct{ discovery.DiscoveryInterface }

func (schemas) OpenAPIV3() openapi.Client { return openapitest.NewEmbeddedFileClient() }
