package helm

import (
	"bufio"
	"bytes"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

type (
	deployment = apps.Deployment
)

// object is one decoded document.
type object struct {
	kind  string
	meta  meta.ObjectMeta
	typed any // of types, or a map where schemas knows the kind
}

// types are the kinds that are decoded into Go types of those who define them.
var types = map[string]func() any{
	"apps/v1 Deployment":                      func() any { return new(apps.Deployment) },
	"apps/v1 StatefulSet":                     func() any { return new(apps.StatefulSet) },
	"autoscaling/v2 HorizontalPodAutoscaler":  func() any { return new(autoscaling.HorizontalPodAutoscaler) },
	"networking.k8s.io/v1 Ingress":            func() any { return new(networking.Ingress) },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"v1 ConfigMap":                            func() any { return new(core.ConfigMap) },
	"v1 Namespace":                            func() any { return new(core.Namespace) },
	"v1 Pod":                                  func() any { return new(core.Pod) },
	"v1 Secret":                               func() any { return new(core.Secret) },
	"v1 Service":                              func() any { return new(core.Service) },
	"v1 ServiceAccount":                       func() any { return new(core.ServiceAccount) },
	"monitoring.coreos.com/v1 PodMonitor":     func() any { return new(monitoring.PodMonitor) },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
}

// schemas are kinds whose Go types would bring a hundred modules: KEDA's, by its reference, as far as
// they are used here.
var schemas = map[string]string{
	"keda.sh/v1alpha1 ScaledObject": `{
		"required": ["apiVersion", "kind", "metadata", "spec"], "additionalProperties": false,
		"properties": {"apiVersion": {}, "kind": {}, "metadata": {}, "spec": {
			"required": ["scaleTargetRef", "triggers"], "additionalProperties": false,
			"properties": {
				"scaleTargetRef": {"required": ["name"], "additionalProperties": false, "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string"}}},
				"pollingInterval": {"type": "integer", "minimum": 1}, "cooldownPeriod": {"type": "integer", "minimum": 0}, "initialCooldownPeriod": {"type": "integer", "minimum": 0},
				"minReplicaCount": {"type": "integer", "minimum": 0}, "maxReplicaCount": {"type": "integer", "minimum": 1},
				"fallback": {"required": ["failureThreshold", "replicas"], "additionalProperties": false, "properties": {
					"failureThreshold": {"type": "integer", "minimum": 1}, "replicas": {"type": "integer", "minimum": 0},
					"behavior": {"enum": ["static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower"]}}},
				"advanced": {"additionalProperties": false, "properties": {
					"restoreToOriginalReplicaCount": {"type": "boolean"},
					"horizontalPodAutoscalerConfig": {"additionalProperties": false, "properties": {"name": {"type": "string"}, "behavior": {"type": "object"}}}}},
				"triggers": {"minItems": 1, "items": {"required": ["type", "metadata"], "additionalProperties": false, "properties": {
					"type": {"const": "prometheus"}, "name": {"type": "string"}, "metricType": {"enum": ["AverageValue", "Value"]}, "useCachedMetrics": {"type": "boolean"},
					"authenticationRef": {"required": ["name"], "additionalProperties": false, "properties": {"name": {"type": "string"}, "kind": {"enum": ["TriggerAuthentication", "ClusterTriggerAuthentication"]}}},
					"metadata": {"required": ["serverAddress", "query", "threshold"], "additionalProperties": false, "properties": {
						"serverAddress": {"type": "string", "pattern": "^https?://"}, "query": {"type": "string"},
						"threshold": {"type": "string", "pattern": "^[0-9.]+$"}, "activationThreshold": {"type": "string", "pattern": "^[0-9.]+$"},
						"namespace": {"type": "string"}, "ignoreNullValues": {"enum": ["true", "false"]}, "unsafeSsl": {"enum": ["true", "false"]}, "authModes": {"type": "string"}}}}}}}}}}`,
	"keda.sh/v1alpha1 TriggerAuthentication": `{
		"required": ["apiVersion", "kind", "metadata", "spec"], "additionalProperties": false,
		"properties": {"apiVersion": {}, "kind": {}, "metadata": {}, "spec": {
			"required": ["secretTargetRef"], "additionalProperties": false,
			"properties": {"secretTargetRef": {"minItems": 1, "items": {"required": ["parameter", "name", "key"], "additionalProperties": false,
				"properties": {"parameter": {"type": "string"}, "name": {"type": "string"}, "key": {"type": "string"}}}}}}}}`,
}

// decode reads one document. A field that its kind does not have, or that is there twice, is an error.
func decode(doc []byte) (object, error) {
	var head struct {
		meta.TypeMeta `json:",inline"`
		Metadata      meta.ObjectMeta `json:"metadata"`
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return object{}, err
	}
	o := object{kind: head.Kind, meta: head.Metadata}
	if bad := validation.IsDNS1123Subdomain(o.meta.Name); len(bad) > 0 {
		return o, fail("%s: metadata.name %q: %s", o.kind, o.meta.Name, strings.Join(bad, "; "))
	}
	for k, v := range o.meta.Labels {
		if bad := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(bad) > 0 {
			return o, fail("%s %s: label %s=%q: %s", o.kind, o.meta.Name, k, v, strings.Join(bad, "; "))
		}
	}
	id := head.APIVersion + " " + head.Kind
	if make, ok := types[id]; ok {
		o.typed = make()
		if err := yaml.UnmarshalStrict(doc, o.typed); err != nil {
			return o, fail("%s %s: %w", id, o.meta.Name, err)
		}
		return o, nil
	}
	schema, ok := schemas[id]
	if !ok {
		return o, fail("%s %s: nobody here knows this kind", id, o.meta.Name)
	}
	asJSON, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return o, fail("%s %s: %w", id, o.meta.Name, err)
	}
	o.typed, err = jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return o, err
	}
	s, err := compile(schema)
	if err != nil {
		return o, err
	}
	if err := s.Validate(o.typed); err != nil {
		return o, fail("%s %s: %w", id, o.meta.Name, err)
	}
	return o, nil
}

func compile(text string) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("kind.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("kind.json")
}

// only are the documents of one type.
func only[T any](docs []object) []T {
	var out []T
	for _, d := range docs {
		if v, ok := d.typed.(T); ok {
			out = append(out, v)
		}
	}
	return out
}

func newLineReader(data []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(data)) }
