package dialect

import (
	"slices"
	"testing"
)

func TestTheAnswersOfEachEngineTellItsKind(t *testing.T) {
	models := func(owner string) Answer {
		return Answer{"/v1/models", 200, []byte(`{"object":"list","data":[{"id":"m","object":"model","owned_by":"` + owner + `"}]}`)}
	}
	hidden := models("proxy")
	for name, c := range map[string]struct {
		answers []Answer
		want    Kind
	}{
		"vLLM":                     {[]Answer{models("vllm")}, VLLM},
		"SGLang":                   {[]Answer{models("sglang")}, SGLang},
		"llama-server":             {[]Answer{models("llamacpp")}, LlamaCpp},
		"Ollama":                   {[]Answer{models("library")}, OpenAI},
		"vLLM behind a proxy":      {[]Answer{hidden, {"/metrics", 200, []byte("# HELP\nvllm:num_requests_running 0\n")}}, VLLM},
		"metrics begin with it":    {[]Answer{hidden, {"/metrics", 200, []byte("sglang:num_running_reqs 0\n")}}, SGLang},
		"llama-server by /props":   {[]Answer{hidden, {"/metrics", 501, nil}, {"/props", 200, []byte(`{"default_generation_settings":{"n_ctx":512}}`)}}, LlamaCpp},
		"SGLang by its model info": {[]Answer{hidden, {"/get_model_info", 200, []byte(`{"model_path":"/m"}`)}}, SGLang},
		"vLLM by /version":         {[]Answer{hidden, {"/version", 200, []byte(`{"version":"0.26.0"}`)}}, VLLM},
		"a hosted API":             {[]Answer{hidden, {"/metrics", 404, nil}, {"/version", 404, []byte(`{"version":"x"}`)}}, OpenAI},
		"it lists no models":       {[]Answer{{"/v1/models", 200, []byte(`{"object":"list","data":[]}`)}}, ""},
		"it has no models":         {[]Answer{{"/v1/models", 404, []byte(`{"data":[{"id":"m"}]}`)}}, ""},
		"no JSON":                  {[]Answer{{"/v1/models", 200, []byte("<html>")}, {"/props", 200, []byte("[]")}}, ""},
		"nothing was answered":     {nil, ""},
	} {
		f := Find(c.answers)
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
		found := Find([]Answer{{path, status, body}})
		if status != 200 && found.Kind != "" {
			t.Fatalf("status %d tells %+v", status, found)
		}
		if found.Kind != "" && !slices.Contains(Kinds, found.Kind) || found.Kind == Auto {
			t.Fatalf("%+v", found)
		}
	})
}
