package engines

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/process"
)

// pair is a draft and a target that all tests share. Who kills or freezes an engine starts one of his own.
type pair struct {
	name          string
	draft, target *Engine
}

// mixed names the pair of two kinds.
const mixed = "llamacpp before vllm"

// pairs are the names of all, with the engines behind them.
var pairs = []struct{ name, draft, target string }{
	{LlamaCpp, LlamaCpp + "-draft", LlamaCpp + "-target"},
	{VLLM, VLLM + "-draft", VLLM + "-target"},
	{mixed, LlamaCpp + "-draft", VLLM + "-target"},
}

// own describes the engines that are started where none runs.
var own = map[string]Options{
	LlamaCpp + "-draft":  {Kind: LlamaCpp, Model: LlamaDraft, Name: "draft"},
	LlamaCpp + "-target": {Kind: LlamaCpp, Model: LlamaTarget},
	VLLM + "-draft":      {Kind: VLLM, Model: VLLMDraft, Name: "draft"},
	VLLM + "-target":     {Kind: VLLM, Model: VLLMTarget},
}

// started are the shared engines; each is started once, by who needs it first.
var started = map[string]func() (*Engine, error){}

func TestMain(m *testing.M) {
	ctx, stop := context.WithCancel(context.Background())
	for name := range own {
		started[name] = sync.OnceValues(func() (*Engine, error) { return begin(ctx, name) })
	}
	flag.Parse()
	if named(VLLM) { // it takes a minute to start; tests of llama.cpp run meanwhile
		for _, name := range []string{VLLM + "-target", VLLM + "-draft"} {
			if oneVLLM() && name == VLLM+"-draft" {
				continue
			}
			go func() { _, _ = started[name]() }() // its error is that of the tests
		}
	}
	code := m.Run()
	stop()
	for _, start := range started {
		if e, err := start(); err == nil {
			e.Stop()
		}
	}
	if err := writeTable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// begin finds the engine of a name, or starts it.
func begin(ctx context.Context, name string) (*Engine, error) {
	if e, err := running(ctx, name); e != nil || err != nil {
		return e, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return Run(ctx, own[name])
}

// engine is the shared engine of a name, such as "vllm-target".
func engine(t *testing.T, name string) *Engine {
	t.Helper()
	if !strings.Contains(os.Getenv("FOREGATE_ENGINES_RUNNING"), name+"=") {
		Need(t, own[name].Kind)
	}
	e, err := started[name]()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// running is the engine that FOREGATE_ENGINES_RUNNING names; nil is none.
func running(ctx context.Context, name string) (*Engine, error) {
	for entry := range strings.FieldsSeq(os.Getenv("FOREGATE_ENGINES_RUNNING")) {
		if url, ok := strings.CutPrefix(entry, name+"="); ok {
			var models struct{ Data []struct{ ID string } }
			if err := askJSON(ctx, http.MethodGet, url+"/v1/models", "", &models); err != nil || len(models.Data) == 0 {
				return nil, fmt.Errorf("%s at %s: %w", name, url, err)
			}
			return &Engine{Kind: own[name].Kind, URL: url, Model: models.Data[0].ID}, nil
		}
	}
	return nil, nil
}

// each runs a test for every pair that is there.
func each(t *testing.T, test func(t *testing.T, p pair)) {
	t.Helper()
	for _, names := range pairs {
		t.Run(names.name, func(t *testing.T) {
			draft := names.draft
			if oneVLLM() {
				if names.name == mixed {
					t.Skip("the short form has this pair under the name vllm")
				}
				draft = LlamaCpp + "-draft"
			}
			test(t, pair{names.name, engine(t, draft), engine(t, names.target)})
		})
	}
}

// oneVLLM tells whether llama.cpp drafts for vLLM, too: in the short form, because a vLLM starts for a minute.
func oneVLLM() bool { return testing.Short() && named(LlamaCpp) }

// count is how often something is done: few in the short form, which .ci/run takes.
func count(short, long int) int {
	if testing.Short() {
		return short
	}
	return long
}

// setup describes a gateway; the zero value has the pair's own engines.
type setup struct {
	draft, target []string // URLs of the backends, such as those of proxies
	settings      []string // names and values of live settings; a name may be name@route
	config        string   // more lines of the configuration
	relayOnly     bool     // for routes in mode off: the kinds of engines are configured, and the probe is not waited for
}

// replica is a gateway before a pair. Its routes are "m" in mode confidence, and "off", "verify", "risk" and "shadow" in those.
type replica struct {
	*apptest.Replica
	store *miniredis.Miniredis
}

// patient are settings for engines that share two cores with everything else.
var patient = []string{
	"timeout.target_first_token", "5m", "timeout.draft_first_token", "2m", "timeout.stream_idle", "2m", "timeout.total", "20m",
	"economy.guard", "off", "cache.mode", "off", "speculation.mode", "confidence",
	"speculation.mode@off", "off", "speculation.mode@verify", "verify", "speculation.mode@risk", "risk", "speculation.mode@shadow", "shadow",
}

// maxProbe bounds the wait for the probe, which asks both engines for text.
const maxProbe = 10 * time.Minute

// serve runs a gateway in front of a pair, and waits until it knows both engines.
func serve(t *testing.T, p pair, s setup) *replica {
	t.Helper()
	r := &replica{store: miniredis.RunT(t)}
	r.store.FlushAll()
	r.put(patient...)
	r.put(s.settings...)
	urls := func(given []string, e *Engine) string {
		if len(given) == 0 {
			given = []string{e.URL}
		}
		kind := "auto"
		if s.relayOnly {
			kind = e.Kind
		}
		return `["` + strings.Join(given, `", "`) + `"], engine: ` + kind
	}
	r.Replica = apptest.Serve(t, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools:
  small: {model: %q, backends: %s}
  large: {model: %q, backends: %s}
routes:
  - {model: m, draft: small, target: large}
  - {model: "off", draft: small, target: large}
  - {model: verify, draft: small, target: large}
  - {model: risk, draft: small, target: large}
  - {model: shadow, draft: small, target: large}
drain: {delay: 0s, grace: 5s}
%s`, r.store.Addr(), p.draft.Model, urls(s.draft, p.draft), p.target.Model, urls(s.target, p.target), s.config))
	r.Ready(t)
	if s.relayOnly {
		apptest.Within(t, maxProbe, "the target is up", func() bool {
			return strings.Contains(apptest.Lines(r.Metrics(t), "foregate_backend_up{"), `pool="large"} 1`)
		})
	} else {
		apptest.Within(t, maxProbe, "both engines are probed", r.EnginesKnown)
	}
	return r
}

func (r *replica) put(all ...string) {
	for i := 0; i+1 < len(all); i += 2 {
		r.store.HSet("foregate:settings", all[i], all[i+1])
	}
}

// set changes live settings, and waits until they are in force.
func (r *replica) set(t *testing.T, all ...string) {
	t.Helper()
	r.put(all...)
	for i := 0; i+1 < len(all); i += 2 {
		apptest.Eventually(t, all[i]+" is in force", func() bool { return r.Setting(t, all[i]) == all[i+1] })
	}
}

// maxAnswer bounds one answer of an engine that shares two cores with everything else.
const maxAnswer = 10 * time.Minute

// reply is a whole HTTP answer.
type reply struct {
	status int
	head   http.Header
	body   string
}

// ask sends a JSON body to a URL, or nothing with GET, and reads the answer to its end.
func ask(ctx context.Context, method, url, body string) (r reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxAnswer)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return r, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Cache-Control", "no-store")
	resp, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or the error counts
	text, err := readAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, text}, err
}

// post is ask of a test that needs an answer.
func post(t *testing.T, url, body string) reply {
	t.Helper()
	r, err := ask(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatalf("POST %s %s: %v after %q", url, body, err, r.body)
	}
	return r
}

// gauge is a gauge of an engine's own.
func gauge(t *testing.T, e *Engine, family string) float64 {
	t.Helper()
	v, err := e.Gauge(t.Context(), family)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// idle waits until an engine works on nothing.
func idle(t *testing.T, e *Engine, limit time.Duration) {
	t.Helper()
	err := process.Poll(t.Context(), limit, func() bool {
		r, w, err := e.Busy(t.Context())
		return err == nil && r+w == 0
	})
	if err != nil {
		r, w, _ := e.Busy(t.Context())
		t.Errorf("%s is not idle within %v: %d running, %d waiting", e.URL, limit, r, w)
	}
}
