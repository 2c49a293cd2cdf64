// Prometheus metrics as external metrics of Kubernetes: prometheus-adapter, built from its packages.
//
// Its own main neither compiles with the Kubernetes modules that the cluster programs are built from,
// nor does it leave out the resource metrics. With these modules nearly all of it is compiled already.
// The flags are the ones of prometheus-adapter.
package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/klog/v2"
	basecmd "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	"sigs.k8s.io/prometheus-adapter/pkg/client"
	"sigs.k8s.io/prometheus-adapter/pkg/config"
	external "sigs.k8s.io/prometheus-adapter/pkg/external-provider"
	"sigs.k8s.io/prometheus-adapter/pkg/naming"
)

const queryTimeout = 10 * time.Second

// withoutDeadline hides the deadline of a request: the client would tell Prometheus its negative.
type withoutDeadline struct{ client.Client }

func (c withoutDeadline) Query(ctx context.Context, t model.Time, query client.Selector) (client.QueryResult, error) {
	return c.Client.Query(context.WithoutCancel(ctx), t, query)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx); err != nil && !errors.Is(err, context.Canceled) {
		klog.Fatal(err)
	}
}

func serve(ctx context.Context) error {
	adapter := basecmd.AdapterBase{Name: "prometheus-adapter"}
	prometheus := adapter.Flags().String("prometheus-url", "", "base URL of Prometheus")
	rules := adapter.Flags().String("config", "", "file with externalRules")
	relist := adapter.Flags().Duration("metrics-relist-interval", 10*time.Minute, "time between two looks for new series")
	if err := adapter.Flags().Parse(os.Args[1:]); err != nil {
		return err
	}
	discovery, err := config.FromFile(*rules)
	if err != nil {
		return err
	}
	mapper, err := adapter.RESTMapper()
	if err != nil {
		return err
	}
	namers, err := naming.NamersFromConfig(discovery.ExternalRules, mapper)
	if err != nil {
		return err
	}
	base, err := url.Parse(*prometheus)
	if err != nil {
		return err
	}
	server := client.NewGenericAPIClient(&http.Client{Timeout: queryTimeout}, base, nil)
	queries := withoutDeadline{client.NewClientForAPI(server, http.MethodGet)}
	provider, lister := external.NewExternalPrometheusProvider(queries, namers, *relist, *relist)
	lister.RunUntil(ctx.Done())
	adapter.WithExternalMetrics(provider)
	return adapter.Run(ctx)
}
