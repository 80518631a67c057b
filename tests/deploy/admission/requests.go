package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"
)

// request is a request and its expected decision.
type request struct {
	name       string
	attributes admission.Attributes
	refused    string
}

// caseFile is the content of cases.yaml; see the comment there.
type caseFile struct {
	Agent   any
	Objects map[string]any
	Cases   []struct {
		Name, Resource, Refused     string
		User, Before, Patch, Create any
	}
}

func readRequests(file string) ([]request, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var content caseFile
	if err := yaml.Unmarshal(text, &content); err != nil {
		return nil, err
	}
	var requests []request
	for _, c := range content.Cases {
		resource := c.Resource
		if resource == "" {
			resource = "nodes"
		}
		base, known := content.Objects[resource]
		if !known {
			return nil, fmt.Errorf("%s: no object of %s", c.Name, resource)
		}
		by, err := account(merge(content.Agent, c.User))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		var before, now runtime.Object
		if c.Create != nil {
			now, err = object(merge(base, c.Create))
		} else {
			stored := merge(base, c.Before)
			if before, err = object(stored); err == nil {
				now, err = object(merge(stored, c.Patch))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		subresources := []string{""}
		if resource == "nodes" {
			subresources = append(subresources, "status")
		}
		for _, subresource := range subresources {
			asked := attributes(resource, subresource, now, before, by)
			requests = append(requests, request{c.Name, asked, c.Refused})
		}
	}
	return requests, nil
}

// merge applies a JSON merge patch (RFC 7386); a missing patch changes nothing.
func merge(target, patch any) any {
	if patch == nil {
		return target
	}
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged := map[string]any{}
	if before, ok := target.(map[string]any); ok {
		for key, value := range before {
			merged[key] = value
		}
	}
	for key, change := range changes {
		if change == nil {
			delete(merged, key)
		} else {
			merged[key] = merge(merged[key], change)
		}
	}
	return merged
}

var scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, events.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}()

// Strict: an unknown field of a Node is a mistake in cases.yaml.
var decoder = serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

// object returns the typed object that a server creates. The type determines which fields CEL sees.
func object(content any) (runtime.Object, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	object, _, err := decoder.Decode(text, nil, nil)
	return object, err
}

func account(content any) (user.Info, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	var info authentication.UserInfo
	if err := yaml.UnmarshalStrict(text, &info); err != nil {
		return nil, err
	}
	extra := map[string][]string{}
	for key, values := range info.Extra {
		extra[key] = values
	}
	return &user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: info.Groups, Extra: extra}, nil
}

// attributes are the values that a server passes to its admission plugins.
func attributes(resource, subresource string, now, before runtime.Object, by user.Info) admission.Attributes {
	operation, options := admission.Create, runtime.Object(&meta.CreateOptions{})
	if before != nil {
		operation, options = admission.Update, &meta.UpdateOptions{}
	}
	plural, group, _ := strings.Cut(resource, ".")
	of := now.(meta.Object)
	return admission.NewAttributesRecord(now, before, now.GetObjectKind().GroupVersionKind(), of.GetNamespace(), of.GetName(),
		schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}, subresource, operation, options, false, by)
}
