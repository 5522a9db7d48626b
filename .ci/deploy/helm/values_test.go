package helm

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	apps "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// Each mistake is refused, and the message names the field.
var mistakes = []struct{ values, field, says string }{
	{"replicas: 3", "replicas", "additional properties"},
	{"replicaCount: 0", "/replicaCount", "minimum"},
	{"replicaCount: two", "/replicaCount", "integer"},
	{"image: {pullPolicy: Sometimes}", "/image/pullPolicy", "one of"},
	{"image: {digest: latest}", "/image/digest", "pattern"},
	{"logLevel: trace", "/logLevel", "one of"},
	{"config: {pool: {}}", "/config", "pool"},
	{"config: {redis: {uri: x}}", "/config/redis", "uri"},
	{"config: {tenants: [{id: a, keys_sha256: [abc]}]}", "/config/tenants/0/keys_sha256/0", "pattern"},
	{"config: {tenants: [{id: a, keys_sha256: [1212121212121212121212121212121212121212121212121212121212121212]}]}", "/config/tenants/0/keys_sha256/0", "string"},
	{"config: {drain: {delay: 5}}", "/config/drain/delay", "string"},
	{"config: {drain: {delay: soon}}", "/config/drain/delay", "pattern"},
	{"config: {listen: ':80'}", "config.listen", "set by the chart"},
	{"config: {admin: ':9090'}", "config.admin", "set by the chart"},
	{"config: {admin_tokens_file: /x}", "config.admin_tokens_file", "set by the chart"},
	{"config: {tenants_file: /x}", "config.tenants_file", "set by the chart"},
	{"config: {cache: {seal_keys_file: /x}}", "config.cache.seal_keys_file", "set by the chart"},
	{"config: {routes: [{model: a, target: b}]}", "config.pools", "missing"},
	{"config: {pools: {a: {model: b}}}", "config.routes", "missing"},
	{"config: {drain: {grace: 25s}}", "config.drain.grace", "602s"},
	{"longestStream: 20m", "config.drain.grace", "1202s"},
	{"config: {redis: {url: embedded}}", "config.redis.url", "several replicas"},
	{"config: {redis: {url: 'redis://h', password_file: /run/secrets/foregate/redis/password}}", "config.redis.password_file", "secretFiles"},
	{"config: {redis: {url: 'rediss://h', ca_file: /etc/ca.pem}}", "config.redis.ca_file", "secretFiles"},
	{"config: {identity: {mode: jwt, jwt: {jwks_file: /x}}, pools: {a: {}}, routes: [{}]}", "config.identity.jwt.jwks_file", "secretFiles"},
	{"{config: {pools: {a: {auth: {api_key_file: /run/secrets/foregate/key/key}}}, routes: [{}]}}", "config.pools.a.auth.api_key_file", "secretFiles"},
	{"{config: {pools: {a: {tls: {ca_file: /etc/ca.pem}}}, routes: [{}]}}", "config.pools.a.tls.ca_file", "secretFiles"},
	{"{config: {tracing: {headers_file: /run/secrets/foregate/otlp/headers}, pools: {a: {}}, routes: [{}]}}", "config.tracing.headers_file", "secretFiles"},
	{"existingConfig: {secret: mine}", "terminationGracePeriodSeconds", "missing"},
	{"terminationGracePeriodSeconds: 5", "/terminationGracePeriodSeconds", "minimum"},
	{"adminTokens: {value: ann operate short}", "/adminTokens/value", "pattern"},
	{"adminTokens: {value: ann everything 0123456789abcdef0123456789abcdef}", "/adminTokens/value", "pattern"},
	{"adminTokens: {existingSecret: ''}", "adminTokens.existingSecret", "missing"},
	{"sealKeys: {value: k1 short}", "/sealKeys/value", "pattern"},
	{"{tenants: {existingSecret: mine}, config: {pools: {a: {}}, routes: [{}], tenants: [{id: a}]}}", "config.tenants", "put all of them into one"},
	{"secretFiles: {a: {existingSecret: b, existingConfigMap: c}}", "/secretFiles/a", "maxProperties"},
	{"secretFiles: {admin: {existingSecret: b}}", "propertyName", "'admin'"},
	{"secretFiles: {seal: {existingSecret: b}}", "propertyName", "'seal'"},
	{"service: {port: 70000}", "/service/port", "maximum"},
	{"service: {type: ExternalName}", "/service/type", "one of"},
	{"ingress: {enabled: true}", "ingress.hosts", "missing"},
	{"resources: {limits: {memory: null}}", "/resources/limits", "memory"},
	{"resources: {limits: {memory: 1.5Gi}}", "/resources/limits/memory", "pattern"},
	{"resources: {limits: {memory: 0}}", "resources.limits.memory", "64Mi at least"},
	{"resources: {limits: {memory: '512'}}", "resources.limits.memory", "64Mi at least"},
	{"resources: {limits: {memory: '1e9'}}", "/resources/limits/memory", "pattern"},
	{"resources: {limits: {memory: 512m}}", "/resources/limits/memory", "pattern"},
	{"autoscaling: {enabled: true, maxReplicas: 1}", "autoscaling.maxReplicas", "less than"},
	{"autoscaling: {enabled: true, cpuPercent: 0}", "autoscaling", "nothing to scale on"},
	{"podDisruptionBudget: {maxUnavailable: 0}", "/podDisruptionBudget/maxUnavailable", "minimum"},
	{"podDisruptionBudget: {minAvailable: 2}", "/podDisruptionBudget", "minAvailable"},
	{"topologySpread: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: Never}]", "/topologySpread/0/whenUnsatisfiable", "one of"},
	{"networkPolicy: {pools: {ports: [8000]}}", "/networkPolicy/pools", "ports"},
	{"networkPolicy: {pools: {to: []}}", "/networkPolicy/pools/to", "minItems"},
	{"networkPolicy: {dns: {to: []}}", "/networkPolicy/dns/to", "minItems"},
	{"config: {redis: {url: 'redis://h'}}", "networkPolicy.redis.to", "missing"},
	{"ingress: {enabled: true, hosts: [a.example.com]}", "networkPolicy.public.from", "nobody could reach"},
	{"service: {type: LoadBalancer}", "networkPolicy.public.from", "nobody could reach"},
	{"{config: {admin_tls: {cert_file: /run/secrets/foregate/tls/tls.crt, key_file: /run/secrets/foregate/tls/tls.key, client_ca_file: /run/secrets/foregate/tls/ca.crt}}, secretFiles: {tls: {existingSecret: s}}}", "config.admin_tls.client_ca_file", "kubelets present no certificate"},
	{"config: {tls: {cert_file: /run/secrets/foregate/tls/tls.crt, key_file: /run/secrets/foregate/tls/tls.key}}", "config.tls.", "mounted by nothing"},
	{"config: {tls: {cert_file: /run/secrets/foregate/tls/tls.crt}}", "/config/tls", "key_file"},
	{"podAnnotations: {a: 1}", "/podAnnotations/a", "string"},
}

func TestABadValueIsRefusedByItsName(t *testing.T) {
	c := loadChart(t)
	for _, m := range mistakes {
		_, err := render(c, with(t, nil, m.values))
		if err == nil {
			t.Errorf("taken: %s", m.values)
			continue
		}
		if !strings.Contains(err.Error(), m.field) || !strings.Contains(err.Error(), m.says) {
			t.Errorf("%s: want %q and %q in:\n%v", m.values, m.field, m.says, err)
		}
	}
}

// leaves are the paths of values that hold no further ones.
func leaves(at string, v any) []string {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return []string{at}
	}
	var out []string
	for _, k := range sortedKeys(m) {
		out = append(out, leaves(strings.TrimPrefix(at+"."+k, "."), m[k])...)
	}
	return out
}

func TestTheReadmeHasEveryValue(t *testing.T) {
	data, err := os.ReadFile(chartDir + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.ReadValuesFile(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| ((?:`[^`]+`(?:, )?)+) \\|").FindAllStringSubmatch(string(data), -1)
	told := map[string]bool{}
	for _, r := range rows {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(r[1], -1) {
			told[name[1]] = true
		}
	}
	has := map[string]bool{}
	for _, path := range leaves("", values.AsMap()) {
		if strings.HasPrefix(path, "ingress.annotations.") {
			path = "ingress.annotations"
		}
		has[path] = true
		if !told[path] {
			t.Errorf("README.md does not tell %s", path)
		}
	}
	for name := range told {
		if !has[name] {
			t.Errorf("README.md tells %s, which values.yaml does not have", name)
		}
	}
}

// The schema knows every field at the top of the file, of the program as it is now.
func TestTheSchemaKnowsEveryFieldOfTheFile(t *testing.T) {
	reference, err := os.ReadFile(repository + "/docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(reference), "\n## Configuration file\n")
	if !ok {
		t.Fatal("docs/reference.md has no section of the file")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	schema, err := os.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Properties map[string]node `json:"properties"`
	}
	var top node
	if err := yaml.Unmarshal(schema, &top); err != nil {
		t.Fatal(err)
	}
	config := top.Properties["config"]
	found := regexp.MustCompile("(?m)^\\| `([a-z_]+)(?:\\[\\])?(?:\\.([a-z_]+)(?:\\[\\]\\.[a-z]+)?)?`").FindAllStringSubmatch(section, -1)
	if len(found) < 30 {
		t.Fatalf("only %d fields found", len(found))
	}
	for _, f := range found {
		field, ok := config.Properties[f[1]]
		if !ok {
			t.Errorf("the schema does not know config.%s", f[1])
		}
		if _, inner := field.Properties[f[2]]; ok && f[2] != "" && f[1] != "tenants" && len(field.Properties) > 0 && !inner {
			t.Errorf("the schema does not know config.%s.%s", f[1], f[2])
		}
	}
}

// A number in a file of values is a float for Helm, one in a command line an integer, one in quotes a text.
func TestTheGatewayKnowsItsMemoryHoweverTheLimitIsWritten(t *testing.T) {
	for limit, want := range map[any]string{
		float64(536870912): "456340275", int64(536870912): "456340275", "536870912": "456340275", "512Mi": "456340275",
		float64(1e9): "850000000", "1G": "850000000", "1Ti": "934584883609", "67108864": "57042534",
	} {
		docs, _ := rendered(t, map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": limit}}})
		got := ""
		for _, e := range only[*apps.Deployment](docs)[0].Spec.Template.Spec.Containers[0].Env {
			if e.Name == "GOMEMLIMIT" {
				got = e.Value
			}
		}
		if got != want {
			t.Errorf("of %T %v: GOMEMLIMIT %s, want %s", limit, limit, got, want)
		}
	}
}

func TestTheNotesNameBackendsThatTheNetworkPolicyMayNotLetThrough(t *testing.T) {
	const hosted = `
config:
  pools:
    a: {model: m, backends: ["http://vllm.vllm.svc.cluster.local:8000", "http://vllm:8000", "http://vllm.vllm.svc:8000"]}
    b: {model: m, backends: ["https://api.example.com", "http://10.1.0.9:81"]}
  routes: [{model: m, target: a}]
`
	_, notes := rendered(t, with(t, nil, hosted))
	for _, says := range []string{"config.pools.b: api.example.com port 443", "config.pools.b: 10.1.0.9 port 81", "networkPolicy.pools.to"} {
		if !strings.Contains(notes, says) {
			t.Errorf("want %q in the notes:\n%s", says, notes)
		}
	}
	if strings.Contains(notes, "config.pools.a") {
		t.Errorf("a service of the cluster is named:\n%s", notes)
	}
	if _, notes = rendered(t, with(t, nil, hosted+"networkPolicy: {enabled: false}")); strings.Contains(notes, "api.example.com") {
		t.Errorf("without a policy:\n%s", notes)
	}
}
