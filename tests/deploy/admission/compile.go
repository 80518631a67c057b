package main

import (
	"errors"
	"fmt"

	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
	kubernetes "k8s.io/component-base/version"
)

// ValidatingAdmissionPolicy is v1 since Kubernetes 1.30. A server accepts only what the version before it knew, so that it can be
// rolled back.
var oldest = version.MajorMinor(1, 29)

// compileForAll compiles the policy with the CEL of every Kubernetes version that may have to store it.
func compileForAll(policy *registration.ValidatingAdmissionPolicy) error {
	newest := version.MustParse(kubernetes.DefaultKubeBinaryVersion)
	for minor := oldest.Minor(); minor <= newest.Minor(); minor++ {
		of := version.MajorMinor(1, minor)
		if err := compile(policy, of); err != nil {
			return fmt.Errorf("does not compile in the CEL of Kubernetes %s:\n%w", of, err)
		}
	}
	fmt.Printf("compiles in the CEL of Kubernetes %s to %s\n", oldest, newest)
	return nil
}

// compile returns the errors for which a server would refuse to store the policy.
func compile(policy *registration.ValidatingAdmissionPolicy, of *version.Version) error {
	compiler, problems := compiledVariables(policy, of, environment.NewExpressions)
	try := func(where string, expression cel.ExpressionAccessor, options cel.OptionalVariableDeclarations) {
		if result := compiler.CompileCELExpression(expression, options, environment.NewExpressions); result.Error != nil {
			problems = append(problems, fmt.Errorf("%s: %w", where, result.Error))
		}
	}
	for i := range policy.Spec.MatchConditions {
		condition := matchconditions.MatchCondition(policy.Spec.MatchConditions[i])
		try("match condition "+condition.Name, &condition, withAuthorizer)
	}
	for i, validation := range policy.Spec.Validations {
		try(fmt.Sprintf("validation %d", i+1), rule(validation), withAuthorizer)
		if validation.MessageExpression != "" {
			message := &validating.MessageExpressionCondition{MessageExpression: validation.MessageExpression}
			try(fmt.Sprintf("message of validation %d", i+1), message, cel.OptionalVariableDeclarations{})
		}
	}
	return errors.Join(problems...)
}

var withAuthorizer = cel.OptionalVariableDeclarations{HasAuthorizer: true}

func rule(validation registration.Validation) *validating.ValidationCondition {
	return &validating.ValidationCondition{Expression: validation.Expression, Message: validation.Message}
}

// compiledVariables returns a compiler that knows the policy's variables.
func compiledVariables(
	policy *registration.ValidatingAdmissionPolicy, of *version.Version, mode environment.Type,
) (*cel.CompositedCompiler, []error) {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(of))
	if err != nil {
		panic(err) // an error of the library, independent of the policy
	}
	var problems []error
	for _, variable := range policy.Spec.Variables {
		named := &validating.Variable{Name: variable.Name, Expression: variable.Expression}
		if result := compiler.CompileAndStoreVariable(named, withAuthorizer, mode); result.Error != nil {
			problems = append(problems, fmt.Errorf("variable %s: %w", variable.Name, result.Error))
		}
	}
	return compiler, problems
}
