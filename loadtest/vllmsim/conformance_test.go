package vllmsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// scriptStep is one request of testdata/script with what its answer must look like. A body without a model gets the server's;
// "${name}" in a body is what an earlier step of the file kept. An event stream is read as
// {"chunks": […], "done": true, "text": …, "ids": […]}: its events, whether it ended with [DONE], and what they add up to.
type scriptStep struct {
	Name    string            `json:"name"`
	SimOnly string            `json:"sim_only"` // why a real server is not asked
	Needs   string            `json:"needs"`    // a flag that a real server may lack; VLLM_FLAGS lists those it has
	Method  string            `json:"method"`   // POST when there is a body, GET otherwise
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    any               `json:"body"`
	Raw     *string           `json:"raw"` // a body that is no JSON
	Status  int               `json:"status"`
	Header  map[string]string `json:"header"` // patterns
	Shape   any               `json:"shape"`
	Claims  []string          `json:"claims"`
	Pattern string            `json:"pattern"` // of an answer that is no JSON
	Keep    map[string]string `json:"keep"`
}

// scriptRun is one file of steps against one server.
type scriptRun struct {
	url   string
	model string
	real  bool
	kept  map[string]any
}

// The same script runs against the simulator and, when VLLM_URL is set, against that server instead: what it asks of the
// one is what the other must keep.
func TestTheScriptHoldsHereAndOnARealServer(t *testing.T) {
	run := scriptRun{url: os.Getenv("VLLM_URL"), model: os.Getenv("VLLM_MODEL")}
	run.real = run.url != ""
	files, err := filepath.Glob("testdata/script/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no scripts")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			run := run
			run.kept = map[string]any{}
			if !run.real {
				run.url = Start(t, Options{Seed: 6, TimeScale: fast, MaxModelLen: 4096, PromptTokensDetails: true}).URL()
			}
			if run.model == "" {
				run.model = firstModel(t, run.url)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var steps []scriptStep
			d := json.NewDecoder(bytes.NewReader(b))
			d.DisallowUnknownFields()
			if err := d.Decode(&steps); err != nil {
				t.Fatal(err)
			}
			for i := range steps {
				t.Run(steps[i].Name, func(t *testing.T) { run.step(t, &steps[i]) })
			}
		})
	}
}

func firstModel(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Data) == 0 {
		t.Fatal("no model: ", err)
	}
	return list.Data[0].ID
}

func (r *scriptRun) step(t *testing.T, st *scriptStep) {
	if r.real && st.SimOnly != "" {
		t.Skip("only for the simulator:", st.SimOnly)
	}
	if r.real && st.Needs != "" && !strings.Contains(os.Getenv("VLLM_FLAGS"), st.Needs) {
		t.Skip("VLLM_FLAGS does not name", st.Needs)
	}
	resp, answer := r.send(t, st)
	if resp.StatusCode != st.Status {
		t.Fatalf("status %d, not %d: %.500s", resp.StatusCode, st.Status, answer)
	}
	for name, pattern := range st.Header {
		if got := resp.Header.Get(name); !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("header %s is %q, which does not match %s", name, got, pattern)
		}
	}
	if st.Shape == nil {
		if !regexp.MustCompile(st.Pattern).Match(answer) {
			t.Errorf("%.500q does not match %s", answer, st.Pattern)
		}
		return
	}
	doc := readAnswer(t, resp, answer)
	for _, wrong := range matchShape("", st.Shape, doc, r.real) {
		t.Error(wrong)
	}
	for _, text := range st.Claims {
		if ok, err := (claim{root: doc, kept: r.kept}).holds(text); !ok || err != nil {
			t.Errorf("%s does not hold (%v)", text, err)
		}
	}
	for name, path := range st.Keep {
		v, err := lookup(doc, path)
		if err != nil {
			t.Fatal(err)
		}
		r.kept[name] = v
	}
	if t.Failed() {
		t.Logf("%.2000s", answer)
	}
}

func (r *scriptRun) send(t *testing.T, st *scriptStep) (*http.Response, []byte) {
	t.Helper()
	method, body := "GET", ""
	switch {
	case st.Raw != nil:
		method, body = "POST", *st.Raw
	case st.Body != nil:
		filled, ok := r.fill(t, st.Body).(map[string]any)
		if !ok {
			t.Fatal("the body is no object")
		}
		if _, named := filled["model"]; !named {
			filled["model"] = r.model
		}
		method, body = "POST", canonical(filled)
	}
	if st.Method != "" {
		method = st.Method
	}
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+st.Path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, v := range st.Headers {
		req.Header.Set(name, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, b
}

var whole, within = regexp.MustCompile(`^\$\{(\w+)\}$`), regexp.MustCompile(`\{repeat (\d+) (.*)\}$`)

// fill puts kept values into a body, and "{repeat 100 word}" as often as it says.
func (r *scriptRun) fill(t *testing.T, v any) any {
	t.Helper()
	switch at := v.(type) {
	case string:
		if m := whole.FindStringSubmatch(at); m != nil {
			kept, ok := r.kept[m[1]]
			if !ok {
				t.Skip("needs what an earlier step keeps:", m[1])
			}
			return kept
		}
		if m := within.FindStringSubmatch(at); m != nil {
			var n int
			_, _ = fmt.Sscan(m[1], &n)
			return strings.Repeat(m[2]+" ", n)
		}
	case []any:
		out := make([]any, 0, len(at))
		for _, e := range at {
			if m, ok := e.(string); ok && strings.HasPrefix(m, "...${") { // spliced in
				list, ok := r.fill(t, m[3:]).([]any)
				if !ok {
					t.Fatal(m, "is no array")
				}
				out = append(out, list...)
				continue
			}
			out = append(out, r.fill(t, e))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, e := range at {
			out[k] = r.fill(t, e)
		}
		return out
	}
	return v
}

// readAnswer reads JSON, or an event stream as one document.
func readAnswer(t *testing.T, resp *http.Response, answer []byte) any {
	t.Helper()
	var doc any
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		if err := json.Unmarshal(answer, &doc); err != nil {
			t.Fatalf("%v in %.500s", err, answer)
		}
		return doc
	}
	chunks, ids, text, done := []any{}, []any{}, "", false
	for event := range strings.SplitSeq(strings.TrimSuffix(string(answer), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || done {
			t.Fatalf("%q is no event, or one after [DONE]", event)
		}
		if done = data == "[DONE]"; done {
			continue
		}
		var chunk any
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		chunks = append(chunks, chunk)
		for _, path := range []string{"choices[0].text", "choices[0].delta.content"} {
			if v, err := lookup(chunk, path); err == nil && v != nil {
				text += v.(string)
			}
		}
		if v, err := lookup(chunk, "choices[0].token_ids"); err == nil && v != nil {
			ids = append(ids, v.([]any)...)
		}
	}
	return map[string]any{"chunks": chunks, "done": done, "text": text, "ids": ids}
}
