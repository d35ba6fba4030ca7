// One binary for every Kubernetes component of the dev cluster: it acts as
// the component whose name it is called by, so the shared packages are
// linked and stored once.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
	"kubelet":                 newKubeletCommand,
}

// newKubeletCommand calls the constructor, which takes no context in
// Kubernetes 1.30.
func newKubeletCommand() *cobra.Command {
	switch constructor := any(kubelet.NewKubeletCommand).(type) {
	case func() *cobra.Command:
		return constructor()
	case func(context.Context) *cobra.Command:
		return constructor(context.Background())
	}
	panic("kubelet.NewKubeletCommand has unknown parameters")
}

func main() {
	name := filepath.Base(os.Args[0])
	newCommand, known := components[name]
	if !known {
		names := make([]string, 0, len(components))
		for component := range components {
			names = append(names, component)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "call me by one of these names, not %q: %s\n", name, strings.Join(names, ", "))
		os.Exit(2)
	}
	if name == "kubectl" {
		if err := cli.RunNoErrOutput(newCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
		return
	}
	os.Exit(cli.Run(newCommand()))
}
