package vllmsim

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endless is a request that does not end before its server does.
const endless = `{"prompt":"go on","max_tokens":100000,"ignore_eos":true,"stream":%t}`

// outcome is how one request ended.
type outcome struct {
	status int
	body   string
	err    error
}

// begin sends a completion and returns where its end arrives.
func begin(s *Server, body string) <-chan outcome {
	out := make(chan outcome, 1)
	url := s.URL()
	go func() {
		client := http.Client{Timeout: waiting}
		resp, err := client.Post(url+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			out <- outcome{err: err}
			return
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		out <- outcome{resp.StatusCode, string(b), err}
	}()
	return out
}

// ended is what became of a request that begin sent.
func ended(t *testing.T, c <-chan outcome) outcome {
	t.Helper()
	select {
	case got := <-c:
		return got
	case <-time.After(2 * waiting):
		t.Fatal("a request does not end")
		return outcome{}
	}
}

// refuses reports whether connections to the server are refused.
func refuses(s *Server) bool {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.URL() + "/health")
	if err == nil {
		_ = resp.Body.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

const deadBody = `{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}`

// deadEnds checks a stream and a JSON answer whose engine died under them.
func deadEnds(t *testing.T, stream, plain outcome) {
	t.Helper()
	if stream.err != nil || stream.status != 200 || !strings.HasSuffix(stream.body, "data: "+deadBody+"\n\ndata: [DONE]\n\n") {
		t.Errorf("stream: %d %v %s", stream.status, stream.err, stream.body[max(0, len(stream.body)-300):])
	}
	if plain.err != nil || plain.status != 500 || plain.body != deadBody {
		t.Errorf("JSON: %+v", plain)
	}
}

func TestAnEngineThatRunsOutOfMemoryDiesAndComesBackEmpty(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, BlocksOverride: 20, OOM: true, Restart: 1200 * time.Second, PromptTokensDetails: true})
	warm := `{"prompt":"` + strings.Repeat("the river and the house ", 10) + `","max_tokens":1}`
	ask(t, s, "/v1/completions", warm)
	if cachedOf(ask(t, s, "/v1/completions", warm)) == 0 {
		t.Error("the warm prefix is not reused")
	}
	// Two answers that cannot both be held to their end.
	long := `{"prompt":"go on","max_tokens":250,"ignore_eos":true,"stream":%t}`
	if err := s.SetFault(Fault{Slow: 2e4}); err != nil {
		t.Fatal(err)
	}
	a, b := begin(s, fmt.Sprintf(long, true)), begin(s, fmt.Sprintf(long, false))
	eventually(t, "both are there", func() bool { st := s.State(); return st.Running+st.Waiting == 2 })
	if err := s.SetFault(Fault{}); err != nil {
		t.Fatal(err)
	}
	deadEnds(t, ended(t, a), ended(t, b))
	eventually(t, "connections are refused", func() bool { return refuses(s) })
	st := s.State()
	if st.Alive || st.Deaths != 1 || st.Running != 0 || st.KVBlocksUsed != 0 {
		t.Errorf("dead: %+v", st)
	}
	eventually(t, "it is back", func() bool { return s.State().Alive })
	_, page := do(t, s, "GET", "/metrics", "")
	if !strings.Contains(page, `vllm:generation_tokens_total{engine="0",model_name="sim"} 0`) {
		t.Error("the metrics remember a former life")
	}
	expect(t, "an empty cache", cachedOf(ask(t, s, "/v1/completions", warm)), 0)
	now := s.State()
	if now.Finished != st.Finished+1 || now.GeneratedTokens != st.GeneratedTokens+1 || now.PrefixHits != st.PrefixHits || now.Aborted != 2 {
		t.Errorf("totals were lost:\n%+v\n%+v", st, now)
	}
}

func TestADeathByOrderTellsEveryoneFirst(t *testing.T) {
	s := Start(t, Options{TimeScale: 50, Restart: 30 * time.Second})
	a, b := begin(s, fmt.Sprintf(endless, true)), begin(s, fmt.Sprintf(endless, false))
	eventually(t, "both run", func() bool { return s.State().Running == 2 })
	status, body := post(t, s, "/sim/fault", `{"die":true}`)
	expect(t, "the order's answer", [2]any{status, body}, [2]any{200, "{}"})
	deadEnds(t, ended(t, a), ended(t, b))
	eventually(t, "connections are refused", func() bool { return refuses(s) })
	eventually(t, "it is back", func() bool { return s.State().Alive })
	expect(t, "deaths", s.State().Deaths, 1)
	ask(t, s, "/v1/completions", `{"prompt":"x","max_tokens":1}`)
}

func TestKVUsageCanLie(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Fault: Fault{KVUsage: new(0.05)}})
	_, page := do(t, s, "GET", "/metrics", "")
	if !strings.Contains(page, `vllm:kv_cache_usage_perc{engine="0",model_name="sim"} 0.05`) {
		t.Error("the truth is told")
	}
}
