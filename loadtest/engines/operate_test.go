package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/tiers/pressure"
)

// reading is what the gateway believes of the only backend of a pool.
func (r *replica) reading(pool string) pressure.Reading { return r.Pool(pool).Snapshot()[0].Reading }

// TestReadingsAreTheEnginesGauges compares with what the engine says just before and just after.
func TestReadingsAreTheEnginesGauges(t *testing.T) {
	each(t, func(t *testing.T, p pair) {
		r := serve(t, p, setup{relayOnly: true})
		for range 3 {
			leave := asks(t, r.URL+"/v1/chat/completions", `{"model":"off","stream":true,"ignore_eos":true,"max_tokens":1000,"messages":[{"role":"user","content":"Tell me a story."}]}`)
			t.Cleanup(leave)
		}
		families := map[string]func(pressure.Reading) float64{
			busy[p.target.Kind][0]: func(g pressure.Reading) float64 { return float64(g.Running) },
			busy[p.target.Kind][1]: func(g pressure.Reading) float64 { return float64(g.Waiting) },
		}
		if p.target.Kind == VLLM {
			families["vllm:kv_cache_usage_perc"] = func(g pressure.Reading) float64 { return g.KVUsage }
			families["vllm:prefix_cache_queries_total"] = func(g pressure.Reading) float64 { return g.PrefixQueries }
			families["vllm:prefix_cache_hits_total"] = func(g pressure.Reading) float64 { return g.PrefixHits }
			families["vllm:num_preemptions_total"] = func(g pressure.Reading) float64 { return g.Preemptions }
		}
		for family, told := range families {
			var own, given float64
			err := process.Poll(t.Context(), maxAnswer, func() bool {
				g := r.reading("large")
				own, given = gauge(t, p.target, family), told(g)
				return g.Running >= 3 && math.Abs(own-given) < 1e-9
			})
			if err != nil {
				t.Errorf("%s is %v, the gateway says %v", family, own, given)
			}
			t.Logf("%s: %v, in the gateway %v", family, own, given)
		}
		if p.target.Kind == VLLM {
			g := r.reading("large")
			if blocks := gauge(t, p.target, "vllm:cache_config_info"); blocks != 1 || g.Blocks < 16 || g.BlockSize < 16 {
				t.Errorf("%d blocks of %d tokens", g.Blocks, g.BlockSize)
			}
		}
	})
}

// load asks a gateway without a pause until stop is called, by so many clients, and keeps what failed.
type load struct {
	stop   func()
	mu     sync.Mutex
	whole  int
	failed []string
}

func (r *replica) load(t *testing.T, clients, tokens int) *load {
	t.Helper()
	l := &load{}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				body := fmt.Sprintf(`{"model":"off","stream":true,"temperature":0,"ignore_eos":true,"max_tokens":%d,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Tell me story %d of client %d."}]}`, tokens, n, i)
				a, err := ask(context.WithoutCancel(ctx), http.MethodPost, r.URL+"/v1/chat/completions", body)
				l.take(a, tokens, err)
			}
		})
	}
	l.stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(l.stop)
	return l
}

// take counts an answer: it must have all tokens, an end and no error.
func (l *load) take(a reply, tokens int, err error) {
	said, finish, bad := text(a.body)
	_, done := events(a.body)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || bad != nil || a.status != http.StatusOK || !done || said == "" || finish != "length" ||
		!strings.Contains(a.body, `"completion_tokens":`+strconv.Itoa(tokens)) {
		l.failed = append(l.failed, fmt.Sprintf("%d, %v, %v, done %v, finish %q, %.2000s", a.status, err, bad, done, finish, a.body))
		return
	}
	l.whole++
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole
}

// TestARestartUnderLoadLosesNothing kills one of two engines in mid-answer, and starts it again.
func TestARestartUnderLoadLosesNothing(t *testing.T) {
	o := Options{Kind: LlamaCpp, Model: LlamaTarget}
	first, second := Start(t, o), Start(t, o)
	draft := engine(t, LlamaCpp+"-draft")
	r := serve(t, pair{LlamaCpp, draft, first}, setup{target: []string{first.URL, second.URL}})
	l := r.load(t, 4, 24)
	more := func(n int) {
		t.Helper()
		want := l.count() + n
		if err := process.Poll(t.Context(), maxAnswer, func() bool { return l.count() >= want }); err != nil {
			t.Fatalf("no more than %d answers, %d failed", l.count(), len(l.failed))
		}
	}
	for range count(1, 5) {
		more(2)
		apptest.Within(t, maxAnswer, "it is busy", func() bool { n, _, err := first.Busy(t.Context()); return err == nil && n > 0 })
		first.Kill()
		more(4) // from the other one
		if err := first.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		apptest.Within(t, maxAnswer, "it serves again", func() bool { n, _, err := first.Busy(t.Context()); return err == nil && n > 0 })
	}
	l.stop()
	t.Logf("%d answers, %d failed", l.whole, len(l.failed))
	for _, f := range l.failed {
		t.Error(f)
	}
}

// withPriority sends a chat with a priority and returns the status.
func withPriority(ctx context.Context, url, priority, body string) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxAnswer)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Priority", priority)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or the error counts
	answer, err = readAll(resp.Body)
	return resp.StatusCode, answer, err
}

// TestLowPriorityIsShedBeforeARealEnginesMemoryRunsOut loads an engine that has 24 blocks of 128 tokens.
func TestLowPriorityIsShedBeforeARealEnginesMemoryRunsOut(t *testing.T) {
	Need(t, VLLM)
	if testing.Short() {
		t.Skip("a vLLM of its own starts for a minute")
	}
	e := Start(t, Options{Kind: VLLM, Model: VLLMTarget, Flags: []string{"--num-gpu-blocks-override", "24"}})
	r := serve(t, pair{VLLM, engine(t, LlamaCpp+"-draft"), e}, setup{})
	r.set(t, "shed.low", "0.6", "shed.normal", "0.8", "shed.max_wait_low", "1s", "shed.max_wait_high", "10m")
	body := func(model string, i int) string {
		return fmt.Sprintf(`{"model":%q,"ignore_eos":true,"max_tokens":200,"messages":[{"role":"user","content":"%d: %s"}]}`, model, i, strings.Repeat("tell me a story ", 40))
	}
	var mu sync.Mutex
	codes := map[string]map[int]int{"high": {}, "low": {}}
	var all sync.WaitGroup
	send := func(priority string, i int) {
		all.Go(func() {
			status, answer, err := withPriority(t.Context(), r.URL+"/v1/chat/completions", priority, body("off", i))
			mu.Lock()
			defer mu.Unlock()
			codes[priority][status]++
			switch {
			case err != nil, status != http.StatusOK && status != http.StatusServiceUnavailable:
				t.Errorf("%s: %d, %v, %s", priority, status, err, answer)
			case status == http.StatusServiceUnavailable && (priority == "high" || !strings.Contains(answer, "error")):
				t.Errorf("%s is shed: %s", priority, answer)
			}
		})
	}
	for i := range 6 {
		send("high", i)
	}
	apptest.Within(t, maxAnswer, "the engine is in use", func() bool { return gauge(t, e, "vllm:kv_cache_usage_perc") > 0.3 })
	peak := 0.0
	for i := range 10 {
		send("low", 100+i)
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for open := true; open; {
		select {
		case <-done:
			open = false
		case <-time.After(200 * time.Millisecond):
			peak = max(peak, gauge(t, e, "vllm:kv_cache_usage_perc"))
		}
	}
	preempted := gauge(t, e, "vllm:num_preemptions_total")
	t.Logf("status by priority %v, peak of the KV usage %.2f, %v preemptions", codes, peak, preempted)
	if preempted != 0 || codes["low"][http.StatusServiceUnavailable] == 0 || codes["high"][http.StatusOK] != 6 {
		t.Errorf("%v preemptions, %v", preempted, codes)
	}
	// The engine itself takes all of it, and runs out of memory: the load was enough.
	for i := range 16 {
		all.Go(func() { _, _, _ = withPriority(t.Context(), e.URL+"/v1/chat/completions", "", body(e.Model, 200+i)) })
	}
	all.Wait()
	if gauge(t, e, "vllm:num_preemptions_total") == 0 {
		t.Error("the load was too small: the engine alone preempts nothing")
	}
}

// sessionsOf has conversations of several turns with the gateway.
func sessionsOf(t *testing.T, r *replica, sessions, turns int) {
	t.Helper()
	var all sync.WaitGroup
	for s := range sessions {
		all.Go(func() {
			type message struct {
				Role    string `json:"role"`
				Content string `json:"content"`
			}
			talk := []message{{"system", fmt.Sprintf("You are assistant %d. ", s) + strings.Repeat(fmt.Sprintf("Rule %d: be kind, short and clear. ", s), 30)}}
			for n := range turns {
				talk = append(talk, message{"user", fmt.Sprintf("Question %d. ", n) + strings.Repeat("What do you think of the sea and of the hills? ", 10)})
				messages, err := json.Marshal(talk)
				if err != nil {
					t.Error(err)
					return
				}
				a, err := ask(t.Context(), http.MethodPost, r.URL+"/v1/chat/completions", fmt.Sprintf(`{"model":"off","temperature":0,"max_tokens":8,"messages":%s}`, messages))
				said, _, bad := text(a.body)
				if err != nil || bad != nil || a.status != http.StatusOK {
					t.Errorf("%d, %v, %v, %s", a.status, err, bad, a.body)
					return
				}
				talk = append(talk, message{"assistant", said})
			}
		})
	}
	all.Wait()
}

// TestExpectedPrefixHitsAreTheEngines compares the router's expectation with the counters of three engines.
func TestExpectedPrefixHitsAreTheEngines(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three engines")
	}
	Need(t, VLLM)
	var engines []*Engine
	var urls []string
	for range 3 {
		e := Start(t, Options{Kind: VLLM, Model: VLLMTarget, Env: []string{"OMP_NUM_THREADS=1"}})
		engines, urls = append(engines, e), append(urls, e.URL)
	}
	r := serve(t, pair{VLLM, engine(t, LlamaCpp+"-draft"), engines[0]}, setup{target: urls})
	sum := func(family string) (all float64) {
		for _, e := range engines {
			all += gauge(t, e, family)
		}
		return all
	}
	own := func(name string) float64 {
		all, err := process.Metrics(r.Metrics(t)).Total(name, `pool="large"`)
		if err != nil && !errors.Is(err, process.ErrNoMetric) {
			t.Fatal(err)
		}
		return all
	}
	hits, queries := sum("vllm:prefix_cache_hits_total"), sum("vllm:prefix_cache_queries_total")
	expected, prompt := own("foregate_prefix_expected_tokens_total"), own("foregate_prefix_prompt_tokens_total")
	sessionsOf(t, r, 9, 4)
	found := (sum("vllm:prefix_cache_hits_total") - hits) / (sum("vllm:prefix_cache_queries_total") - queries)
	guess := (own("foregate_prefix_expected_tokens_total") - expected) / (own("foregate_prefix_prompt_tokens_total") - prompt)
	t.Logf("hits by the engines %.1f %%, as expected by the router %.1f %%, of %.0f tokens", 100*found, 100*guess, sum("vllm:prefix_cache_queries_total")-queries)
	if math.Abs(found-guess) > 0.05 || found < 0.2 {
		t.Errorf("the engines found %.1f %% of the tokens in their caches, the router expected %.1f %%", 100*found, 100*guess)
	}
}
