package demo

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/gateway/config"
)

// lists is an engine that has models.
func lists(t *testing.T, names ...string) string {
	t.Helper()
	var all []string
	for _, n := range names {
		all = append(all, fmt.Sprintf(`{"id":%q}`, n))
	}
	return says(t, http.StatusOK, `{"object":"list","data":[`+strings.Join(all, ",")+`]}`)
}

// says is a server that answers everything with a body.
func says(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func engineAt(url, model string) Engine { return Engine{URL: url, Model: model, USDPerHour: 1} }

func TestModelsAreFoundWhereThereIsOne(t *testing.T) {
	small, both := lists(t, "qwen:0.5b"), lists(t, "qwen:0.5b", "qwen:3b")
	got, err := Pair{engineAt(small+"/v1/", ""), engineAt(both, "qwen:3b")}.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Draft != engineAt(small, "qwen:0.5b") || got.Target != engineAt(both, "qwen:3b") {
		t.Errorf("%+v", got)
	}
	got, err = Pair{engineAt(both, "qwen:0.5b"), engineAt(both, "qwen:3b")}.Find(t.Context())
	if err != nil || got.Draft.URL != got.Target.URL {
		t.Errorf("one engine with both models: %+v, %v", got, err)
	}
	if _, err := config.Parse("demo.yaml", got.config()); err != nil {
		t.Errorf("its configuration: %v", err)
	}
}

func TestAMistakeInAPairIsOneLineThatNamesTheFlag(t *testing.T) {
	one, both, none := lists(t, "m"), lists(t, "a", "b"), lists(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, c := range map[string]struct {
		pair Pair
		want string
	}{
		"one URL":        {Pair{engineAt(one, ""), engineAt("", "")}, "--target is missing: --draft needs both URLs"},
		"the other URL":  {Pair{engineAt("", ""), engineAt(one, "")}, "--draft is missing: --target needs both URLs"},
		"no scheme":      {Pair{engineAt("localhost:8081", ""), engineAt(one, "")}, "--draft: want a URL such as http://host:8000"},
		"another scheme": {Pair{engineAt("grpc://h:1", ""), engineAt(one, "")}, "--draft: want a URL such as http://host:8000"},
		"a password":     {Pair{engineAt("http://u:secret@h", ""), engineAt(one, "")}, "--draft: credentials do not belong in a backend's URL"},
		"nobody there":   {Pair{engineAt(gone.URL, ""), engineAt(one, "")}, "--draft: no engine answers at " + gone.URL + ": dial tcp"},
		"no models":      {Pair{engineAt(one, ""), engineAt(none, "")}, "--target: " + none + "/v1/models lists no model"},
		"several models": {Pair{engineAt(both, ""), engineAt(one, "")}, "has several models; choose one with --draft-model: a, b"},
		"another model":  {Pair{engineAt(one, ""), engineAt(both, "c")}, `--target-model: ` + both + ` has no model "c", only a, b`},
		"twice":          {Pair{engineAt(one, ""), engineAt(one, "")}, "--target: " + one + " with model m is the draft, too"},
		"no engine":      {Pair{engineAt(says(t, 200, "<html>"), ""), engineAt(one, "")}, "is no list of models as OpenAI's API has it"},
		"a key wanted":   {Pair{engineAt(says(t, 401, ""), ""), engineAt(one, "")}, "/v1/models answers 401 Unauthorized"},
		"a strange name": {Pair{engineAt(lists(t, "a\nb"), ""), engineAt(one, "")}, `"a\nb" is no name of a model`},
		"no price":       {Pair{Engine{URL: one}, engineAt(one, "")}, "--draft-usd-per-hour must be above 0, but is 0"},
		"no key file":    {Pair{Engine{URL: one, USDPerHour: 1, KeyFile: "/nowhere"}, engineAt(one, "")}, "--draft: open /nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.pair.Find(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, not %q", err, c.want)
			}
		})
	}
}

func TestAnEngineThatLoadsItsModelIsWaitedFor(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(`{"data":[{"id":"m"}]}`))
	}))
	t.Cleanup(s.Close)
	got, err := Pair{engineAt(s.URL, ""), engineAt(lists(t, "n"), "")}.Find(t.Context())
	if err != nil || got.Draft.Model != "m" || asked.Load() != 3 {
		t.Errorf("%+v, %v after %d questions", got, err, asked.Load())
	}
}

func TestTheKeyOfAnEngineIsShownToIt(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open sesame" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte(`{"data":[{"id":"m"}]}`))
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := engineAt(s.URL, "")
	e.KeyFile = file
	got, err := Pair{e, engineAt(lists(t, "n"), "")}.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := config.Parse("demo.yaml", got.config()); err != nil || parsed.Pools[pairPools[0]].Auth.APIKeyFile != file {
		t.Errorf("%+v, %v", parsed, err)
	}
}
