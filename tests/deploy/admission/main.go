// Runs the admission policy in Kubernetes' own code, the library k8s.io/apiserver. It compiles the policy as a server does before
// it stores it, runs the requests of cases.yaml through the real admission plugin, and counts their cost.
//
// Usage: admission POLICY CASES
package main

import (
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "admission policy:", err)
		os.Exit(1)
	}
}

func run(policyFile, casesFile string) error {
	policy, binding, err := readPolicy(policyFile)
	if err != nil {
		return err
	}
	requests, err := readRequests(casesFile)
	if err != nil {
		return err
	}
	if err := compileForAll(policy); err != nil {
		return err
	}
	if err := checkTypes(policy); err != nil {
		return err
	}
	crowded := crowded(requests[0], conditions, labels, taints)
	if err := decide(policy, binding, append(requests, crowded)); err != nil {
		return err
	}
	return countCosts(policy, crowded)
}
