package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	repository = "../../.."
	chartDir   = repository + "/deploy/helm/foregate"
	release    = "foregate"
	namespace  = "foregate"
)

// variants are the values that the chart is rendered with, by name: a file each in testdata, what
// foregate plan wrote, and the defaults.
func variants(t *testing.T) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{"defaults": {}, "plan": readValues(t, bin+"/plan/values.yaml")}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values in testdata: %v", err)
	}
	for _, f := range files {
		out[strings.TrimSuffix(filepath.Base(f), ".yaml")] = readValues(t, f)
	}
	return out
}

func readValues(t *testing.T, file string) map[string]any {
	t.Helper()
	v, err := chartutil.ReadValuesFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render is helm template: the values are held to the schema, and the templates executed. The result
// has every file that is not empty.
func render(c *chart.Chart, values map[string]any) (map[string]string, error) {
	return renderWith(c, values, engine.Engine{Strict: true}.Render)
}

// executor executes templates.
type executor func(*chart.Chart, chartutil.Values) (map[string]string, error)

// renderWith is render by an engine of the caller's.
func renderWith(c *chart.Chart, values map[string]any, execute executor) (map[string]string, error) {
	top, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{
		Name: release, Namespace: namespace, Revision: 1, IsInstall: true,
	}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := execute(c, top)
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		if strings.TrimSpace(text) == "" {
			delete(files, name)
		}
	}
	return files, nil
}

// rendered are the documents of a chart, and its notes.
func rendered(t *testing.T, values map[string]any) (docs []object, notes string) {
	t.Helper()
	files, err := render(loadChart(t), values)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sortedKeys(files) {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = files[name]
			continue
		}
		docs = append(docs, objectsIn(t, name, []byte(files[name]))...)
	}
	return docs, notes
}

// objectsIn decodes every document of a file strictly.
func objectsIn(t *testing.T, name string, data []byte) []object {
	t.Helper()
	var out []object
	r := yaml.NewYAMLReader(newLineReader(data))
	for i := 0; ; i++ {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if isComment(doc) {
			continue
		}
		o, err := decode(doc)
		if err != nil {
			t.Errorf("%s, document %d: %v", name, i+1, err)
			continue
		}
		out = append(out, o)
	}
}

func isComment(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// with is a copy of values with more of them, written as YAML.
func with(t *testing.T, values map[string]any, more string) map[string]any {
	t.Helper()
	var add map[string]any
	if err := sigsyaml.Unmarshal([]byte(more), &add); err != nil {
		t.Fatal(err)
	}
	base, err := sigsyaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := sigsyaml.Unmarshal(base, &out); err != nil {
		t.Fatal(err)
	}
	if out == nil {
		out = map[string]any{}
	}
	return chartutil.CoalesceTables(add, out)
}

func TestEveryDocumentIsOneThatKubernetesTakes(t *testing.T) {
	for name, values := range variants(t) {
		t.Run(name, func(t *testing.T) {
			docs, _ := rendered(t, values)
			seen := map[string]bool{}
			for _, d := range docs {
				id := d.kind + "/" + d.meta.Namespace + "/" + d.meta.Name
				if seen[id] {
					t.Errorf("%s is there twice", id)
				}
				seen[id] = true
			}
			if len(only[*deployment](docs)) != 1 {
				t.Errorf("want one Deployment, got %d", len(only[*deployment](docs)))
			}
		})
	}
}

func fail(format string, args ...any) error { return fmt.Errorf(format, args...) }
