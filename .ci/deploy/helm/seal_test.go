package helm

import (
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
)

// aCluster is what lookup finds in a cluster with the objects given.
type aCluster struct{ client dynamic.Interface }

func (c aCluster) GetClientFor(_, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: strings.ToLower(kind) + "s"}), true, nil
}

// installed renders the chart's defaults in a cluster, and returns the Secret that seals as rendered, nil for none.
func installed(t *testing.T, objects ...runtime.Object) (*core.Secret, string) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := core.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	account := &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: "default", Namespace: namespace}}
	there := aCluster{fake.NewSimpleDynamicClient(scheme, append(objects, account)...)}
	files, err := renderWith(loadChart(t), map[string]any{}, func(c *chart.Chart, v chartutil.Values) (map[string]string, error) {
		return engine.RenderWithClientProvider(c, v, there)
	})
	if err != nil {
		t.Fatal(err)
	}
	var out *core.Secret
	var notes string
	for _, name := range sortedKeys(files) {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = files[name]
			continue
		}
		for _, s := range only[*core.Secret](objectsIn(t, name, []byte(files[name]))) {
			if s.Name == "foregate-seal-keys" {
				out = s
			}
		}
	}
	return out, notes
}

func TestAKeyToSealIsGeneratedOnceAndKept(t *testing.T) {
	first, notes := installed(t)
	if first == nil || !regexp.MustCompile(`^k1 [0-9A-Za-z]{64}\n$`).Match(first.Data["keys"]) {
		t.Fatalf("generated: %+v", first)
	}
	if strings.Contains(notes, "foregate-seal-keys") || strings.Contains(notes, strings.Fields(string(first.Data["keys"]))[1]) {
		t.Errorf("the notes ask for a key, or tell it:\n%s", notes)
	}
	if second, _ := installed(t); string(second.Data["keys"]) == string(first.Data["keys"]) {
		t.Error("two clusters have the same key")
	}
	if first.Annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("an uninstall takes it: %v", first.Annotations)
	}
	// Somebody has put a new key before the old one since.
	first.Namespace = namespace
	first.Data["keys"] = []byte("k2 " + strings.Repeat("a", 64) + "\n" + string(first.Data["keys"]))
	if again, _ := installed(t, first); again == nil || string(again.Data["keys"]) != string(first.Data["keys"]) {
		t.Errorf("an upgrade makes %q of %q", again.Data["keys"], first.Data["keys"])
	}
}

// helm template, and GitOps by it: a key that is generated would be another in each rendering.
func TestWithoutAClusterTheRenderingIsTheSameEachTime(t *testing.T) {
	for name, values := range variants(t) {
		first, err := render(loadChart(t), values)
		if err != nil {
			t.Fatal(err)
		}
		second, err := render(loadChart(t), values)
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range first {
			if second[file] != text {
				t.Errorf("%s: %s is another each time:\n%s\n%s", name, file, text, second[file])
			}
		}
	}
	docs, notes := rendered(t, nil)
	for _, s := range only[*core.Secret](docs) {
		if strings.Contains(s.Name, "seal") {
			t.Errorf("a key is generated: %s", s.Name)
		}
	}
	if !strings.Contains(notes, "create secret generic foregate-seal-keys") {
		t.Errorf("nobody is told to make the key:\n%s", notes)
	}
	docs, _ = rendered(t, with(t, nil, "sealKeys: {value: k1 0123456789abcdef0123456789abcdef}"))
	found := false
	for _, s := range only[*core.Secret](docs) {
		found = found || s.Name == "foregate-seal-keys" && string(s.Data["keys"]) == "k1 0123456789abcdef0123456789abcdef"
	}
	if !found {
		t.Error("the key that is given is not rendered")
	}
}
