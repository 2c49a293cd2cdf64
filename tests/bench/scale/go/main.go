// A reference controller: it makes the objects of each model with client-go and controller-runtime.
//
// It makes the same objects as Outrider from the file of -objects, and writes as often: six objects, the status
// at each change of the ready pods, the revision that was good into the Deployment, and an Event. It plans,
// checks and tunes nothing.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	owner = client.FieldOwner("scale-reference")
	good  = "scale.outrider.dev/good"
)

var kind = schema.GroupVersionKind{Group: "outrider.dev", Version: "v1alpha1", Kind: "SpeculativeModel"}

type object = map[string]any

type reconciler struct {
	client.Client
	// The objects of one model as JSON, with the placeholders the-name, the-namespace and the-uid.
	objects string
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	model := &unstructured.Unstructured{}
	model.SetGroupVersionKind(kind)
	if err := r.Get(ctx, request.NamespacedName, model); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	wanted, err := r.children(model)
	if err != nil {
		return ctrl.Result{}, err
	}
	deployment := &appsv1.Deployment{}
	err = r.Get(ctx, request.NamespacedName, deployment)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	complete := err == nil && deployment.Status.AvailableReplicas == *deployment.Spec.Replicas
	for _, child := range wanted {
		if err := r.apply(ctx, child, complete); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.report(ctx, model, deployment)
}

// apply writes an object that does not exist, and the Deployment again when all of its pods are available.
func (r *reconciler) apply(ctx context.Context, child *unstructured.Unstructured, complete bool) error {
	if complete && child.GetKind() == "Deployment" {
		annotations := map[string]string{good: child.GetName()}
		maps.Copy(annotations, child.GetAnnotations())
		child.SetAnnotations(annotations)
	}
	known := &unstructured.Unstructured{}
	known.SetGroupVersionKind(child.GroupVersionKind())
	err := r.Get(ctx, client.ObjectKeyFromObject(child), known)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && known.GetAnnotations()[good] == child.GetAnnotations()[good] {
		return nil
	}
	if apierrors.IsNotFound(err) || complete {
		return r.Apply(ctx, client.ApplyConfigurationFromUnstructured(child), owner, client.ForceOwnership)
	}
	return nil
}

// report writes the status where the number of ready pods changed, and an Event where all became ready.
func (r *reconciler) report(ctx context.Context, model *unstructured.Unstructured, d *appsv1.Deployment) error {
	serving, ready := fmt.Sprintf("%d/3", d.Status.ReadyReplicas), "False"
	if d.Status.ReadyReplicas == 3 {
		ready = "True"
	}
	if before, _, _ := unstructured.NestedString(model.Object, "status", "serving"); before == serving {
		return nil
	}
	condition := func(kind string) object {
		return object{"type": kind, "status": ready, "reason": "Serving", "message": serving + " pods are ready.",
			"observedGeneration": model.GetGeneration(), "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
	}
	status := &unstructured.Unstructured{Object: object{"status": object{
		"observedGeneration": model.GetGeneration(), "serving": serving,
		"readyReplicas": int64(d.Status.ReadyReplicas),
		"conditions":    []any{condition("Ready"), condition("Progressing")},
	}}}
	status.SetGroupVersionKind(kind)
	status.SetName(model.GetName())
	status.SetNamespace(model.GetNamespace())
	if err := r.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(status), owner, client.ForceOwnership); err != nil {
		return err
	}
	if ready == "False" {
		return nil
	}
	return r.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: model.GetName() + "-", Namespace: model.GetNamespace()},
		EventTime:  metav1.NowMicro(), ReportingController: "outrider.dev/reference", ReportingInstance: "one",
		Action: "Reconcile", Reason: "Ready", Type: "Normal", Note: serving + " pods are ready.",
		Regarding: corev1.ObjectReference{APIVersion: "outrider.dev/v1alpha1", Kind: "SpeculativeModel",
			Namespace: model.GetNamespace(), Name: model.GetName(), UID: model.GetUID()},
	})
}

func (r *reconciler) children(model *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	text := strings.NewReplacer("the-namespace", model.GetNamespace(), "the-name", model.GetName(),
		"the-uid", string(model.GetUID())).Replace(r.objects)
	var found []object
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, err
	}
	children := make([]*unstructured.Unstructured, 0, len(found))
	for _, each := range found {
		children = append(children, &unstructured.Unstructured{Object: each})
	}
	return children, nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	file := flag.String("objects", "", "file with the objects of one model")
	workers := flag.Int("workers", 8, "reconciles at a time")
	qps := flag.Float64("qps", -1, "requests a second to the API server; negative: unlimited")
	burst := flag.Int("burst", 0, "requests at once, above qps")
	flag.Parse()
	log.SetLogger(zap.New(zap.UseDevMode(false)))
	objects, err := os.ReadFile(*file)
	must(err)
	config := ctrl.GetConfigOrDie()
	config.QPS, config.Burst = float32(*qps), *burst
	config.UserAgent = "outrider/reference"
	fmt.Printf("workers %d, qps %g, burst %d\n", *workers, config.QPS, config.Burst)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	must(err)
	model := &unstructured.Unstructured{}
	model.SetGroupVersionKind(kind)
	built := ctrl.NewControllerManagedBy(manager).For(model).
		WithOptions(controller.Options{MaxConcurrentReconciles: *workers})
	for _, child := range []client.Object{&corev1.ServiceAccount{}, &corev1.Secret{}, &corev1.ConfigMap{},
		&corev1.Service{}, &policyv1.PodDisruptionBudget{}, &appsv1.Deployment{}} {
		built = built.Owns(child)
	}
	must(built.Complete(&reconciler{manager.GetClient(), string(objects)}))
	must(manager.Start(ctrl.SetupSignalHandler()))
}
