package vllmsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// sent posts a completion to one rank, as the header says.
func sent(t *testing.T, s *Server, rank, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL()+"/v1/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-data-parallel-rank", rank)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestARequestIsComputedByTheRankThatItsHeaderNames(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, DataParallelSize: 3})
	body := `{"prompt":"` + strings.Repeat("river ", 100) + `","max_tokens":2}`
	for range 2 {
		status, got := sent(t, s, "2", body)
		expect(t, "status of "+got, status, 200)
	}
	st := s.State()
	if e := st.Engines[2]; e.Finished != 2 || e.PrefixHits < 6*BlockSize || e.KVBlocksTotal != st.Engines[0].KVBlocksTotal {
		t.Errorf("rank 2: %+v", e)
	}
	expect(t, "all", []int{st.Finished, st.PrefixHits}, []int{2, st.Engines[2].PrefixHits})
	// Each rank has a cache of its own.
	sent(t, s, "1", body)
	e := s.State().Engines[1]
	expect(t, "rank 1", []int{e.Finished, e.PrefixHits}, []int{1, 0})
	expect(t, "rank 0", s.State().Engines[0].Steps, 0)
}

func TestTheBalancerSpreadsWhatNamesNoRank(t *testing.T) {
	s := Start(t, Options{DataParallelSize: 3}) // in real time: the balancer's counts live for a tenth of a second
	ask(t, s, "/v1/completions", `{"prompt":"alone","max_tokens":1}`)
	expect(t, "the first of equals", s.State().Engines[0].Finished, 1)
	out := begin(s, `{"prompt":["a","b"],"n":3,"max_tokens":100000,"ignore_eos":true,"temperature":1}`)
	eventually(t, "all choices run", func() bool { return s.State().Running == 6 })
	for rank, e := range s.State().Engines {
		expect(t, fmt.Sprintf("rank %d", rank), e.Running, 2)
	}
	if err := s.SetFault(Fault{Die: true, DownSeconds: 30}); err != nil {
		t.Fatal(err)
	}
	expect(t, "status", ended(t, out).status, 500)
}

func TestTheBalancerGoesByWaitingFourfoldAndRunning(t *testing.T) {
	b := &balancer{every: time.Hour, at: time.Now()}
	b.counts = []struct{ waiting, running int }{{1, 3}, {0, 8}, {2, 0}, {0, 6}}
	engines := []*engine{{scale: 0}, {scale: 1}, {scale: 2}, {scale: 3}}
	var got []float64
	for range 5 {
		got = append(got, b.pick(engines).scale)
	}
	// Scores 7, 8, 8, 6; each that is sent adds 4.
	expect(t, "picked", got, []float64{3, 0, 1, 2, 3})
}

func TestOneEnginesDeathTakesTheOthersAlong(t *testing.T) {
	s := Start(t, Options{TimeScale: 50, DataParallelSize: 2, OOM: true, BlocksOverride: 30, MaxNumSeqs: 2})
	other := begin(s, fmt.Sprintf(`{"prompt":"go on","max_tokens":%d,"ignore_eos":true}`, 29*BlockSize-10))
	eventually(t, "it runs", func() bool { return s.State().Running == 1 })
	status, _ := post(t, s, "/v1/completions", `{"prompt":["one","two"],"max_tokens":400,"ignore_eos":true}`)
	expect(t, "the one that ran out", status, 500)
	if got := ended(t, other); got.status != 500 && !strings.Contains(got.body, `"finish_reason":"length"`) {
		t.Errorf("the other: %+v", got)
	}
	eventually(t, "it is counted", func() bool { return s.State().OOMDeaths == 1 })
	eventually(t, "it is back", func() bool { return s.State().Alive })
	expect(t, "what they counted goes on", s.State().Aborted > 0, true)
}

func TestEveryEngineHasItsOwnSeries(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, DataParallelSize: 3, Model: "m"})
	ask(t, s, "/v1/completions", `{"prompt":"x","max_tokens":3}`)
	_, page := do(t, s, "GET", "/metrics", "")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		if !strings.HasPrefix(name, "vllm:") || name == "vllm:lora_requests_info" {
			continue
		}
		ranks := map[string]int{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "engine" {
					ranks[l.GetValue()]++
				}
			}
		}
		if len(ranks) != 3 || ranks["0"] == 0 || ranks["0"] != ranks["1"] || ranks["1"] != ranks["2"] {
			t.Errorf("%s: %v", name, ranks)
		}
	}
	for rank, want := range []float64{3, 0, 0} {
		expect(t, fmt.Sprintf("tokens of rank %d", rank), sample(t, page, fmt.Sprintf(`vllm:generation_tokens_total{engine="%d",model_name="m"}`, rank)), want)
	}
}

func TestAProcessThatHangsAnswersNothingAndThenGoesOnWhereItStood(t *testing.T) {
	s := Start(t, Options{TimeScale: 50})
	if err := s.SetFault(Fault{Hang: hangProcess}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for _, path := range []string{"/metrics", "/health"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, %v", path, resp, err)
		}
	}
	out := begin(s, `{"prompt":"x","max_tokens":2}`)
	eventually(t, "it has come", func() bool { return s.State().Requests["/v1/completions"] == 1 })
	if err := s.SetFault(Fault{}); err != nil {
		t.Fatal(err)
	}
	expect(t, "status", ended(t, out).status, 200)
}
