package agents

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// recording is a session's requests as the gateway's tests replay them (gateway/app/testdata/agents). Texts of the program are
// replaced by their length and a hash, as «LENGTH:HASH»: equal ones stay equal.
type recording struct {
	Program  string            `json:"program"`
	Path     string            `json:"path"`
	Headers  map[string]string `json:"headers"`
	Answers  []call            `json:"answers"`
	Requests []step            `json:"requests"`
}

// step is a request as it differs from the one before: members that are new or other, those that are gone, and of the conversation
// how many elements stay, and what follows them.
type step struct {
	Set  map[string]any `json:"set,omitempty"`
	Gone []string       `json:"gone,omitempty"`
	Keep int            `json:"keep"`
	Add  []any          `json:"add"`
}

// record writes the session to the folder FOREGATE_AGENTS_RECORD, if there is one.
func record(t *testing.T, s *session) {
	t.Helper()
	dir := os.Getenv("FOREGATE_AGENTS_RECORD")
	if dir == "" || s.route != "risk" {
		return
	}
	scrub := scrubber{strings.NewReplacer(s.place, "/project", s.home, "/home/user")}
	r := recording{Program: s.name, Path: s.path, Headers: map[string]string{}, Answers: s.answers("/project/notes.txt")}
	list := map[string]string{"/v1/messages": "messages", "/v1/responses": "input"}[s.path]
	var before map[string]any
	var said []any
	for _, e := range s.wire.exchanges() {
		if e.Path != s.path {
			continue
		}
		for _, name := range []string{"Anthropic-Version", "Anthropic-Beta", "User-Agent"} {
			if v := e.Header.Get(name); v != "" {
				r.Headers[name] = v
			}
		}
		var body map[string]any
		if err := json.Unmarshal(e.Body, &body); err != nil {
			t.Fatal(err)
		}
		body, _ = scrub.value("", body).(map[string]any)
		all, _ := body[list].([]any)
		delete(body, list)
		delete(body, "model")
		next := step{Set: map[string]any{}, Add: []any{}}
		for name, v := range body {
			if !reflect.DeepEqual(v, before[name]) {
				next.Set[name] = v
			}
		}
		for name := range before {
			if _, ok := body[name]; !ok {
				next.Gone = append(next.Gone, name)
			}
		}
		for next.Keep < min(len(all), len(said)) && reflect.DeepEqual(all[next.Keep], said[next.Keep]) {
			next.Keep++
		}
		next.Add = append(next.Add, all[next.Keep:]...)
		r.Requests, before, said = append(r.Requests, next), body, all
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, s.name+".json"), append(raw, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// scrubber replaces what belongs to a machine, to one session or to the program's authors.
type scrubber struct{ places *strings.Replacer }

var (
	uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{64}`)
	// prose are members with texts for people and models.
	prose = map[string]bool{"description": true, "instructions": true, "x-codex-turn-metadata": true}
)

// longest is the length of a text that is kept.
const longest = 60

func (s scrubber) value(name string, v any) any {
	switch v := v.(type) {
	case string:
		return s.text(name, v)
	case []any:
		for i := range v {
			v[i] = s.value(name, v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = s.value(k, v[k])
		}
	}
	return v
}

func (s scrubber) text(name, v string) string {
	v = uuid.ReplaceAllStringFunc(s.places.Replace(v), func(id string) string { return fmt.Sprintf("id%08x", hashed(id)) })
	if strings.HasPrefix(v, "x-anthropic-billing-header:") { // gateways know it
		return v
	}
	if prose[name] || len(v) > longest && name != "arguments" {
		return fmt.Sprintf("«%d:%08x»", len(v), hashed(v))
	}
	return v
}

func hashed(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum32()
}
