package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// ModelsPath is the first question.
const ModelsPath = "/v1/models"

// Questions are the paths whose answers tell the kind of an engine, the most telling one first. Each is read by GET and
// costs an engine next to nothing. All but the first matter only where a proxy hides owned_by.
var Questions = []string{ModelsPath, "/metrics", "/props", "/get_model_info", "/version"}

// Finding is what the answers of a server tell of its kind.
type Finding struct {
	Kind Kind   // "": nothing tells it
	By   string // the answer that told it, for operators; at most 120 bytes
}

// owners are the values of owned_by in /v1/models.
var owners = map[string]Kind{"vllm": VLLM, "sglang": SGLang, "llamacpp": LlamaCpp}

// prefixes begin the names of metrics.
var prefixes = []struct {
	prefix string
	kind   Kind
}{{"\nvllm:", VLLM}, {"\nsglang:", SGLang}, {"\nllamacpp:", LlamaCpp}}

// tell returns what the answer to a question tells; a Finding without a kind is nothing.
func tell(path string, body []byte) Finding {
	switch path {
	case ModelsPath:
		models, _ := ParseModels(body) // what is no list names nobody
		for _, m := range models {
			if k, known := owners[m.Owner]; known {
				return Finding{k, fmt.Sprintf("GET /v1/models has owned_by %q", m.Owner)}
			}
		}
		return Finding{}
	case "/metrics":
		text := append([]byte("\n"), body...)
		for _, p := range prefixes {
			if bytes.Contains(text, []byte(p.prefix)) {
				return Finding{p.kind, "GET /metrics has names that begin with " + p.prefix[1:]}
			}
		}
		return Finding{}
	}
	members := map[string]json.RawMessage{}
	if json.Unmarshal(body, &members) != nil {
		return Finding{}
	}
	for _, m := range memberOf {
		if _, has := members[m.name]; has && m.path == path {
			return Finding{m.kind, fmt.Sprintf("GET %s has the member %s", m.path, m.name)}
		}
	}
	return Finding{}
}

// memberOf are members that only one kind of engine has in the answer to a path.
var memberOf = []struct {
	path, name string
	kind       Kind
}{
	{"/props", "default_generation_settings", LlamaCpp},
	{"/get_model_info", "model_path", SGLang},
	{"/version", "version", VLLM},
}

// Model is what an engine tells of one model in /v1/models.
type Model struct {
	ID      string          `json:"id"`
	Owner   string          `json:"owned_by"`
	Root    string          `json:"root"`
	Parent  string          `json:"parent"`
	Window  int             `json:"max_model_len"` // context length of a request, tokens; 0: not told
	Aliases json.RawMessage `json:"aliases"`       // llama.cpp's: a list of names
}

// ParseModels reads an answer of /v1/models.
func ParseModels(body []byte) ([]Model, error) {
	var list struct {
		Data []Model `json:"data"`
	}
	err := json.Unmarshal(body, &list)
	return list.Data, err
}

// Find asks a server until an answer tells its kind; ask returns the answer to a GET, perhaps cut. A server that lists models
// and whose answers name no engine is one that only speaks OpenAI's API. One that does not even list models stays unknown.
func Find(ask func(path string) (status int, body []byte, err error)) (f Finding, err error) {
	for _, path := range Questions {
		status, body, err := ask(path)
		if err != nil {
			return Finding{}, err
		}
		if status != http.StatusOK {
			continue
		}
		if found := tell(path, body); found.Kind != "" {
			return found, nil
		}
		if models, err := ParseModels(body); path == ModelsPath && err == nil && len(models) > 0 {
			f = Finding{OpenAI, "GET /v1/models lists models, and no answer names an engine"}
		}
	}
	return f, nil
}
