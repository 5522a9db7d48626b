package live

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// simulator runs a bare simulator, and options that send a load to it.
func simulator(t *testing.T, o vllmsim.Options, text string) (*vllmsim.Server, Options) {
	t.Helper()
	o.Model = "sim"
	sim := vllmsim.Start(t, o)
	s := scenario(t, text)
	return sim, Options{Scenario: s, Case: &s.Cases[0], Seed: 3, Target: sim.URL() + "/v1/", Model: "sim"}
}

const bare = `
duration: 10s
time_scale: 20
arrivals: {rate: 4}
prompts:
  - {name: streamed, question: 20, output: 5}
  - {name: whole, question: 20, output: 5, stream: false}
target: {profile: h100-70b-tp4}
`

func TestATargetThatRunsAlreadyGetsTheLoadAlone(t *testing.T) {
	sim, o := simulator(t, vllmsim.Options{TimeScale: 20}, bare)
	o.Gateway = ""
	r := mustRun(t, o)
	row := r.Row()
	if row.Requests != 40 || row.Errors+row.Shed != 0 || sim.State().Finished != 40 {
		t.Errorf("%d requests, %d errors, %d finished there", row.Requests, row.Errors, sim.State().Finished)
	}
	if want := 40 * 5 / r.Window.Seconds(); row.TokensPerSecond != want {
		t.Errorf("%v tokens per second, want %v", row.TokensPerSecond, want)
	}
	if len(r.Pools) != 0 || r.PeakKV != 0 || len(children(t)) != 0 {
		t.Errorf("something was started: %+v", r.Pools)
	}
}

// A server that takes three seconds for each request, one at a time, is sent two
// a second: the n-th waits 2.5 s longer than the one before, counted from when it
// should have been sent. A client that waited for answers would never notice.
func TestASlowServerCannotSlowTheSenderDown(t *testing.T) {
	_, o := simulator(t, vllmsim.Options{TimeScale: 50, MaxNumSeqs: 1, Fault: vllmsim.Fault{Slow: 50}},
		`
duration: 10s
time_scale: 50
arrivals: {rate: 2}
prompts: [{name: a, question: 10, output: 4}]
target: {profile: a10g-8b}
`)
	var mu sync.Mutex
	var all []loadtest.Outcome
	o.Check = func(_ *loadtest.Request, _ string, out *loadtest.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, *out)
	}
	r := mustRun(t, o)
	slices.SortFunc(all, func(a, b loadtest.Outcome) int { return cmp.Compare(a.Done, b.Done) })
	if len(all) != 20 {
		t.Fatalf("%d answers; want 20", len(all))
	}
	for i, out := range all {
		if out.At%(500*time.Millisecond) != 0 || out.At >= 10*time.Second {
			t.Errorf("should have been sent at %v", out.At)
		}
		if least := time.Duration(i) * 2400 * time.Millisecond; out.Done < least {
			t.Errorf("answer %d came at %v, before %v", i, out.Done, least)
		}
	}
	first, last := all[0].First-all[0].At, all[19].First-all[19].At
	if last < 35*time.Second || last < 8*first {
		t.Errorf("the first waited %v, the last %v", first, last)
	}
	if row := r.Row(); row.TTFT99 < 35_000 || row.TTFT50 < 10_000 {
		t.Errorf("p50 %v ms, p99 %v ms", row.TTFT50, row.TTFT99)
	}
}

// sendOne sends a request and returns what came of it.
func sendOne(t *testing.T, url string, stream bool) (string, loadtest.Outcome) {
	t.Helper()
	c := newClient(&Options{Scenario: &loadtest.Scenario{Deadline: 2 * time.Second, TimeScale: 10}, Model: "sim", Key: "k"}, []string{url})
	t.Cleanup(c.Close)
	q := &loadtest.Request{Tenant: "acme", Priority: "low", RAGHash: "h", Messages: []loadtest.Message{{Role: "user", Content: "Hi"}},
		MaxTokens: 8, IgnoreEOS: true, Stream: stream}
	var out loadtest.Outcome
	text := c.send(t.Context(), q, c.body(q), &out)
	return text, out
}

func TestEveryWayARequestEndsHasItsName(t *testing.T) {
	for name, tc := range map[string]struct {
		fault       vllmsim.Fault
		stream      bool
		end, detail string
	}{
		"a stream":             {vllmsim.Fault{}, true, loadtest.Answered, ""},
		"a whole answer":       {vllmsim.Fault{}, false, loadtest.Answered, ""},
		"a rate limit":         {vllmsim.Fault{Status: 429}, true, loadtest.Limited, "limited"},
		"an overload":          {vllmsim.Fault{Status: 503}, true, loadtest.Failed, "http_503"},
		"a server error":       {vllmsim.Fault{Status: 502}, false, loadtest.Failed, "http_502"},
		"silence":              {vllmsim.Fault{Hang: "headers"}, true, loadtest.Failed, "timeout"},
		"a stream that stalls": {vllmsim.Fault{Hang: "stream", AfterTokens: 2}, true, loadtest.Broken, "timeout"},
		"a stream that ends":   {vllmsim.Fault{CleanEOFAfterTokens: 2}, true, loadtest.Broken, "cut_silently"},
		"a stream that is cut": {vllmsim.Fault{CutAfterBytes: 700}, true, loadtest.Broken, "cut_silently"},
		"an error event":       {vllmsim.Fault{ErrorEventAfterTokens: 2}, true, loadtest.Broken, "done_after_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := vllmsim.Start(t, vllmsim.Options{Model: "sim", TimeScale: 50, Fault: tc.fault})
			text, out := sendOne(t, sim.URL(), tc.stream)
			if out.End != tc.end || out.Detail != tc.detail {
				t.Errorf("%s, %s; want %s, %s", out.End, out.Detail, tc.end, tc.detail)
			}
			if (text != "") != (tc.end == loadtest.Answered) || out.Done <= 0 {
				t.Errorf("text %q, done %v", text, out.Done)
			}
			if tc.end == loadtest.Answered && (out.First <= 0 || out.First > out.Done || out.TargetTokens != 8 || out.PromptTokens == 0) {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestARefusedConnectionHasItsName(t *testing.T) {
	addrs, err := process.FreeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, out := sendOne(t, "http://"+addrs[0], true); out.End != loadtest.Failed || out.Detail != "connect" {
		t.Errorf("%+v", out)
	}
}

func TestTheGatewaysWordsBecomeTheOutcome(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		if h.Get("X-Tenant-ID") != "acme" || h.Get("X-Priority") != "low" || h.Get("X-RAG-Hash") != "h" || h.Get("Authorization") != "Bearer k" {
			t.Errorf("headers %v", h)
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("X-Cache", "hit; ttl=9")
		_, _ = w.Write([]byte(`: a comment

data: {"choices":[{"delta":{"role":"assistant","content":""}}]}

data: {"choices":[{"delta":{"content":"Good "}}]}` + "\r\n\r\n" + `data:{"choices":[{"delta":{"content":"day"},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":5},"foregate":{"tier":"mixed","accepted_tokens":2,"target_tokens":3,"acceptance":"rejected","reason":"low_score","score":-0.1}}

data: [DONE]

`))
	}))
	defer srv.Close()
	text, out := sendOne(t, srv.URL, true)
	out.First, out.Done = 0, 0
	want := loadtest.Outcome{End: loadtest.Answered, Tier: "mixed", Acceptance: "rejected", Reason: "low_score", Cached: true,
		PromptTokens: 4, DraftTokens: 2, TargetTokens: 3}
	if text != "Good day" || out != want {
		t.Errorf("%q, %+v", text, out)
	}
}

func TestAShedRequestIsNoError(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Shed-Reason", "kv_pressure;pool=t;usage=0.99;threshold=0.95")
		http.Error(w, "later", http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	if _, out := sendOne(t, srv.URL, true); out.End != loadtest.Shed || out.Detail != "kv_pressure" {
		t.Errorf("%+v", out)
	}
}
