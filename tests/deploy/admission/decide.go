package main

import (
	"context"
	"fmt"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/feature"
	dynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// decide runs the requests through the admission plugin.
func decide(
	policy *registration.ValidatingAdmissionPolicy, binding *registration.ValidatingAdmissionPolicyBinding, requests []request,
) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	plugin, err := start(ctx, policy, binding)
	if err != nil {
		return err
	}
	refusal := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: ", policy.Name, binding.Name)
	for _, request := range requests {
		got := ""
		if err := plugin.Validate(ctx, request.attributes, admission.NewObjectInterfacesFromScheme(scheme)); err != nil {
			_, message, denied := strings.Cut(err.Error(), refusal)
			if !denied {
				message = err.Error()
			}
			got = message
		}
		if got != request.refused {
			return fmt.Errorf("%s (%s %s): expected %q, got %q", request.name, request.attributes.GetResource().Resource,
				request.attributes.GetSubresource(), request.refused, got)
		}
	}
	fmt.Printf("%d requests are decided as expected\n", len(requests))
	return nil
}

// start starts the plugin as a server does. It watches a simulated server with policy, binding and a namespace.
func start(
	ctx context.Context, policy *registration.ValidatingAdmissionPolicy, binding *registration.ValidatingAdmissionPolicyBinding,
) (*validating.Plugin, error) {
	namespace := &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
	client := fake.NewClientset(policy, binding, namespace)
	watched := informers.NewSharedInformerFactory(client, 0)
	plugin, err := validating.NewPlugin(nil)
	if err != nil {
		return nil, err
	}
	initializer.New(client, dynamic.NewSimpleDynamicClient(scheme), watched, authorizerfactory.NewAlwaysDenyAuthorizer(),
		feature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(), ctx.Done(), kinds()).Initialize(plugin)
	if err := plugin.ValidateInitialization(); err != nil {
		return nil, err
	}
	watched.Start(ctx.Done())
	return plugin, nil
}

// kinds maps resources to kinds, as a server does.
func kinds() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{core.SchemeGroupVersion, events.SchemeGroupVersion})
	mapper.Add(core.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(core.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	mapper.Add(events.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	return mapper
}
