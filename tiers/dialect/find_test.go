package dialect

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// reply is what a server answers to a GET.
type reply struct {
	path   string
	status int
	body   []byte
}

// among finds a kind by replies; other paths are not there.
func among(replies ...reply) Finding {
	f, _ := Find(func(path string) (status int, body []byte, err error) {
		for _, r := range replies {
			if r.path == path {
				return r.status, r.body, nil
			}
		}
		return 404, nil, nil
	})
	return f
}

func TestTheAnswersOfEachEngineTellItsKind(t *testing.T) {
	models := func(owner string) reply {
		return reply{"/v1/models", 200, []byte(`{"object":"list","data":[{"id":"m","object":"model","owned_by":"` + owner + `"}]}`)}
	}
	hidden := models("proxy")
	for name, c := range map[string]struct {
		answers []reply
		want    Kind
	}{
		"vLLM":                     {[]reply{models("vllm")}, VLLM},
		"SGLang":                   {[]reply{models("sglang")}, SGLang},
		"llama-server":             {[]reply{models("llamacpp")}, LlamaCpp},
		"Ollama":                   {[]reply{models("library")}, OpenAI},
		"vLLM behind a proxy":      {[]reply{hidden, {"/metrics", 200, []byte("# HELP\nvllm:num_requests_running 0\n")}}, VLLM},
		"metrics begin with it":    {[]reply{hidden, {"/metrics", 200, []byte("sglang:num_running_reqs 0\n")}}, SGLang},
		"llama-server by /props":   {[]reply{hidden, {"/metrics", 501, nil}, {"/props", 200, []byte(`{"default_generation_settings":{"n_ctx":512}}`)}}, LlamaCpp},
		"SGLang by its model info": {[]reply{hidden, {"/get_model_info", 200, []byte(`{"model_path":"/m"}`)}}, SGLang},
		"vLLM by /version":         {[]reply{hidden, {"/version", 200, []byte(`{"version":"0.26.0"}`)}}, VLLM},
		"a hosted API":             {[]reply{hidden, {"/metrics", 404, nil}, {"/version", 404, []byte(`{"version":"x"}`)}}, OpenAI},
		"it lists no models":       {[]reply{{"/v1/models", 200, []byte(`{"object":"list","data":[]}`)}}, ""},
		"it has no models":         {[]reply{{"/v1/models", 404, []byte(`{"data":[{"id":"m"}]}`)}}, ""},
		"no JSON":                  {[]reply{{"/v1/models", 200, []byte("<html>")}, {"/props", 200, []byte("[]")}}, ""},
		"nothing was answered":     {nil, ""},
	} {
		f := among(c.answers...)
		if f.Kind != c.want || (f.By == "") != (c.want == "") || len(f.By) > 120 {
			t.Errorf("%s: %+v, want %q", name, f, c.want)
		}
	}
}

func TestAKindIsParsedOrTheKindsAreListed(t *testing.T) {
	for _, k := range Kinds {
		if got, err := ParseKind(string(k)); got != k || err != nil {
			t.Errorf("%s: %s, %v", k, got, err)
		}
		if d := Of(k); k != Auto && d.Kind != k {
			t.Errorf("the dialect of %s is that of %s", k, d.Kind)
		}
	}
	if k, err := ParseKind(""); k != Auto || err != nil {
		t.Errorf("nothing is %s, %v", k, err)
	}
	guide, err := os.ReadFile("../../docs/guides/engines.md")
	for _, k := range Kinds[1:] {
		if !strings.Contains(string(guide), "\n| `"+string(k)+"` ") {
			t.Errorf("docs/guides/engines.md has no row of %s (%v)", k, err)
		}
	}
	const want = `"tgi" is not an engine: use one of auto, vllm, sglang, llamacpp, openai`
	if _, err := ParseKind("tgi"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzFind(f *testing.F) {
	f.Add(0, 200, []byte(`{"data":[{"id":"m","owned_by":"vllm"}]}`))
	f.Add(1, 200, []byte("vllm:x 1"))
	f.Add(2, 404, []byte(`{"default_generation_settings":{}}`))
	f.Fuzz(func(t *testing.T, question, status int, body []byte) {
		path := Questions[uint(question)%uint(len(Questions))]
		found := among(reply{path, status, body})
		if status != 200 && found.Kind != "" {
			t.Fatalf("status %d tells %+v", status, found)
		}
		if found.Kind != "" && !slices.Contains(Kinds, found.Kind) || found.Kind == Auto {
			t.Fatalf("%+v", found)
		}
	})
}
