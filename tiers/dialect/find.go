package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// ModelsPath is the first question.
const ModelsPath = "/v1/models"

const metricsPath = "/metrics"

// Questions are the paths whose answers tell the kind of an engine, the most telling one first. Each is read by GET and
// costs an engine next to nothing. All but the first matter only where a proxy hides owned_by.
var Questions = questions()

func questions() []string {
	all := []string{ModelsPath, metricsPath}
	for _, d := range slices.Backward(dialects) {
		if d.Mark.Path != "" {
			all = append(all, d.Mark.Path)
		}
	}
	return all
}

// Finding is what the answers of a server tell of its kind.
type Finding struct {
	Kind Kind   // "": nothing tells it
	By   string // the answer that told it, for operators; at most 120 bytes
}

// tell returns what the answer to a question tells; a Finding without a kind is nothing.
func tell(path string, body []byte) Finding {
	for _, d := range dialects {
		if by := d.Mark.in(path, body); by != "" {
			return Finding{d.Kind, "GET " + path + " has " + by}
		}
	}
	return Finding{}
}

// in returns where the mark is in the answer to a path, "" if it is not there.
func (m *Mark) in(path string, body []byte) string {
	switch path {
	case ModelsPath:
		models, _ := ParseModels(body) // what is no list names nobody
		if m.Owner != "" && slices.ContainsFunc(models, func(one Model) bool { return one.Owner == m.Owner }) {
			return fmt.Sprintf("owned_by %q", m.Owner)
		}
	case metricsPath:
		if m.Prefix != "" && (bytes.HasPrefix(body, []byte(m.Prefix)) || bytes.Contains(body, []byte("\n"+m.Prefix))) {
			return "names that begin with " + m.Prefix
		}
	case m.Path:
		members := map[string]json.RawMessage{}
		_ = json.Unmarshal(body, &members) // what is no object has no members
		if _, has := members[m.Member]; has {
			return "the member " + m.Member
		}
	}
	return ""
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
