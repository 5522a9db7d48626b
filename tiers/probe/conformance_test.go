package probe_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/probe"
)

var update = flag.Bool("update", false, "rewrite the generated part of docs/engines.md")

// The generated part of docs/engines.md stands between these.
const (
	page  = "../../docs/engines.md"
	begin = "<!-- made by go test ./tiers/probe -run Conformance -update -->\n"
	end   = "<!-- end of the made part -->"
)

// TestTheConformanceTableIsWhatTheProbeFinds runs the real prober against each engine's wire in the simulator, and against
// each of its hazards.
func TestTheConformanceTableIsWhatTheProbeFinds(t *testing.T) {
	runs := probeAll(t)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	was, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no generated part", page)
	}
	now := tables(runs)
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+now+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != now {
		t.Errorf("%s is not what the probe finds; run with -update. Found:\n%s", page, now)
	}
}

// conformed is one engine, with a hazard or none, as the prober has found it.
type conformed struct {
	engine, hazard string
	url            string
	seen           recorder
	found          *probe.Capabilities
	failed         string
}

// name is the name of its pool.
func (c *conformed) name() string { return strings.TrimSuffix(c.engine+"-"+c.hazard, "-") }

// probeAll starts every engine with every hazard and waits until the prober knows them.
func probeAll(t *testing.T) []*conformed {
	t.Helper()
	var runs []*conformed
	var pools []probe.Pool
	for _, engine := range vllmsim.Engines() {
		for _, hazard := range append([]string{""}, vllmsim.HazardNames()...) {
			c := &conformed{engine: engine, hazard: hazard}
			o := vllmsim.Options{Engine: engine, Model: "sim:1b", Seed: 3, Profile: "h100-8b", TimeScale: 100, MaxModelLen: 8192}
			if hazard != "" {
				o.Hazards = []string{hazard}
			}
			if engine == "llamacpp" || engine == "ollama" {
				o.MaxNumSeqs = 4
			}
			c.url = vllmsim.Start(t, o).URL()
			c.seen.next = &http.Transport{}
			t.Cleanup(c.seen.next.CloseIdleConnections)
			pools = append(pools, probe.Pool{Name: c.name(), Model: "sim:1b", Transport: &c.seen, Backends: func() []probe.Backend {
				return []probe.Backend{{ID: "b", URL: c.url, Engine: dialect.Kind(engine), Up: true}}
			}})
			runs = append(runs, c)
		}
	}
	p, err := probe.New(probe.Options{Pools: pools, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(running.Wait)
	t.Cleanup(stop)
	for _, c := range runs {
		wait(t, c.name()+" is probed", func() bool {
			c.found, c.failed = p.Capabilities(c.name()), p.Failed(c.name())
			return c.found != nil || c.failed != ""
		})
	}
	return runs
}

// wait waits until ok holds, at most a minute.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.NewTimer(time.Minute), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("still waiting until %s", what)
		case <-tick.C:
		}
	}
}

// recorder keeps what was asked of an engine.
type recorder struct {
	next *http.Transport

	mu  sync.Mutex
	all []question
}

// question is one request and its answer's status.
type question struct {
	method, path string
	members      map[string]json.RawMessage
	status       int
}

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	q := question{method: req.Method, path: req.URL.Path}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = json.Unmarshal(body, &q.members) // a body that is none has no members
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := r.next.RoundTrip(req)
	if err == nil {
		q.status = resp.StatusCode
	}
	r.mu.Lock()
	r.all = append(r.all, q)
	r.mu.Unlock()
	return resp, err
}

// String is the request on one line: of its members those that matter.
func (q *question) String() string {
	var shown []string
	for _, name := range []string{"logprobs", "top_logprobs", "temperature", "prompt_logprobs", "return_logprob", "logprob_start_len", "echo", "return_token_ids", "max_tokens"} {
		if v, ok := q.members[name]; ok {
			shown = append(shown, name+": "+string(v))
		}
	}
	for _, name := range []string{"messages", "content", "prompt", "tokens", "input_ids"} {
		if v, ok := q.members[name]; ok {
			kind := "…"
			if bytes.HasPrefix(v, []byte("[")) && name != "messages" {
				kind = "ids"
			}
			shown = append(shown, name+": "+kind)
		}
	}
	text := q.method + " " + q.path
	if len(shown) > 0 {
		text += " {" + strings.Join(shown, ", ") + "}"
	}
	return fmt.Sprintf("`%s` → %d", text, q.status)
}

// asks is a kind of request: its path, and a member that its body has; "" is any.
type asks struct{ path, member string }

// shows are the requests that show whether an engine has a capability, the most telling kind first.
var shows = map[string][]asks{
	probe.MissingTokenizer: {{"/tokenize", "content"}, {"/tokenize", "prompt"}, {"/v1/completions", "return_token_ids"}},
	probe.MissingTemplate:  {{"/apply-template", "messages"}, {"/tokenize", "messages"}},
	probe.MissingTokenize:  {{"/apply-template", "messages"}, {"/tokenize", "messages"}, {"/tokenize", "prompt"}},
	probe.MissingWords:     {{"/detokenize", "tokens"}},
	probe.MissingIDs:       {{"/v1/chat/completions", "return_token_ids"}, {"/v1/chat/completions", "logprobs"}, {"/v1/chat/completions", ""}},
	probe.MissingPromptIDs: {{"/v1/chat/completions", "return_token_ids"}, {"/v1/chat/completions", ""}},
	probe.MissingLogprobs:  {{"/v1/chat/completions", "logprobs"}, {"/v1/chat/completions", ""}},
	probe.MissingTop:       {{"/v1/chat/completions", "top_logprobs"}, {"/v1/chat/completions", ""}},
	probe.MissingRaw:       {{"/v1/chat/completions", "seed"}, {"/v1/chat/completions", ""}},
	probe.MissingBytes:     {{"/v1/chat/completions", "logprobs"}, {"/v1/chat/completions", ""}},
	probe.MissingScoring:   {{"/generate", "return_logprob"}, {"/v1/completions", "prompt_logprobs"}, {"/v1/completions", "echo"}},
	probe.MissingReuse:     {{"/generate", "return_logprob"}, {"/v1/completions", "prompt_logprobs"}},
	probe.MissingAgreement: {{"/generate", "return_logprob"}, {"/v1/completions", "prompt_logprobs"}},
	probe.MissingContinue:  {{"/v1/completions", "prompt"}, {"/v1/chat/completions", ""}},
	probe.MissingEOS:       {{"/v1/chat/completions", "return_token_ids"}, {"/v1/chat/completions", ""}},
	probe.MissingWindow:    {{"/props", ""}, {"/api/ps", ""}, {"/v1/models", ""}},
}

// shown is the last request of the most telling kind that was made; of those that answered, where the engine has it.
func (c *conformed) shown(capability string, has bool) string {
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	for _, kind := range shows[capability] {
		for _, q := range slices.Backward(c.seen.all) {
			_, with := q.members[kind.member]
			if q.path == kind.path && (kind.member == "" || with) && (!has || q.status == http.StatusOK) {
				return q.String()
			}
		}
	}
	return notAsked
}

// notAsked is said of a capability that no request of the probe was about.
const notAsked = "not asked"

// cell is what the table says of a capability.
func (c *conformed) cell(capability string) string {
	switch why := c.found.MissingReason(capability); {
	case c.found == nil:
		return "not probed"
	case capability == probe.MissingScoring && why != "":
		return "no: judge"
	case why != "":
		return "no"
	case c.shown(capability, true) == notAsked:
		return notAsked
	}
	return "yes"
}

// tables are the generated part of the page.
func tables(runs []*conformed) string {
	var b strings.Builder
	clean := map[string]*conformed{}
	for _, c := range runs {
		if c.hazard == "" {
			clean[c.engine] = c
		}
	}
	b.WriteString("\n| capability | " + strings.Join(vllmsim.Engines(), " | ") + " |\n|---|" + strings.Repeat("---|", len(clean)) + "\n")
	for _, capability := range probe.CapabilityNames {
		b.WriteString("| `" + capability + "` |")
		for _, engine := range vllmsim.Engines() {
			b.WriteString(" " + clean[engine].cell(capability) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## Hazards\n\nWhat the probe finds otherwise than without the hazard.\n\n| hazard | " +
		strings.Join(vllmsim.Engines(), " | ") + " |\n|---|" + strings.Repeat("---|", len(clean)) + "\n")
	for _, hazard := range vllmsim.HazardNames() {
		b.WriteString("| `" + hazard + "` |")
		for _, engine := range vllmsim.Engines() {
			at := slices.IndexFunc(runs, func(c *conformed) bool { return c.engine == engine && c.hazard == hazard })
			b.WriteString(" " + runs[at].differs(clean[engine]) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n## What showed it\n")
	for _, engine := range vllmsim.Engines() {
		b.WriteString("\n### " + engine + "\n\n| capability | | request | what it says |\n|---|---|---|---|\n")
		for _, capability := range probe.CapabilityNames {
			c := clean[engine]
			cell := c.cell(capability)
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", capability, cell, c.shown(capability, cell == "yes"), inCell(c.found.MissingReason(capability)))
		}
	}
	return b.String()
}

// differs is what the probe finds of a hazard.
func (c *conformed) differs(clean *conformed) string {
	if c.found == nil {
		return "not probed: " + inCell(c.failed)
	}
	var list []string
	for _, capability := range probe.CapabilityNames {
		was, now := clean.cell(capability), c.cell(capability)
		if was != now {
			list = append(list, fmt.Sprintf("`%s`: %s (%s)", capability, now, cmp.Or(inCell(c.found.MissingReason(capability)), "it has it")))
		}
	}
	if c.found.Window != clean.found.Window {
		list = append(list, fmt.Sprintf("a context of %d, not %d", c.found.Window, clean.found.Window))
	}
	if c.found.RawLogprobs != clean.found.RawLogprobs && len(list) == 0 {
		list = append(list, "logprobs are not the model's own")
	}
	return cmp.Or(strings.Join(list, "; "), "nothing")
}

// inCell is a text that a cell of a table can hold.
func inCell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(s)
}
