// Checks pods against a Pod Security Standard with the library that a cluster's admission uses.
//
//	kustomize build … | check restricted
//
// reads manifests and looks at every pod, or template of pods, in them. It prints what the level forbids, and exits with 1
// if there was any, or no pod at all.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	sigsyaml "sigs.k8s.io/yaml"
)

// The part of a manifest that matters: pods have a spec of their own, Jobs, Deployments and the like a template, and CronJobs a template of a Job.
type manifest struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Template    *corev1.PodTemplateSpec `json:"template"`
		JobTemplate *struct {
			Spec struct {
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

// podOf returns the pod that a manifest makes, or nil.
func podOf(text []byte) (string, *corev1.PodTemplateSpec, error) {
	var found manifest
	if err := sigsyaml.Unmarshal(text, &found); err != nil {
		return "", nil, err
	}
	name := found.Kind + "/" + found.Metadata.Name
	switch {
	case found.Kind == "Pod":
		var pod corev1.Pod
		err := sigsyaml.Unmarshal(text, &pod)
		return name, &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, err
	case found.Spec.JobTemplate != nil:
		return name, &found.Spec.JobTemplate.Spec.Template, nil
	}
	return name, found.Spec.Template, nil
}

func run(level api.Level, in io.Reader) error {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(in))
	pods, refused := 0, 0
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name, pod, err := podOf(text)
		if err != nil {
			return err
		}
		if pod == nil {
			continue
		}
		pods++
		results := evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec)
		if result := policy.AggregateCheckResults(results); !result.Allowed {
			refused++
			fmt.Printf("%s is not %s: %s\n", name, level, result.ForbiddenDetail())
		}
	}
	if pods == 0 {
		return errors.New("there is no pod in this")
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d pods are refused", refused, pods)
	}
	fmt.Printf("%d pods are %s\n", pods, level)
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check privileged|baseline|restricted <MANIFESTS")
		os.Exit(2)
	}
	level, err := api.ParseLevel(os.Args[1])
	if err == nil {
		err = run(level, os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}
