package vllmsim

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sample is the value of one series of a page, -1 when it is not there.
func sample(t *testing.T, page, series string) float64 {
	t.Helper()
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return -1
}

func TestV1TellsWhenItsSeriesWereBorn(t *testing.T) {
	start := float64(time.Now().Unix())
	s := Start(t, Options{TimeScale: fast, Model: "m"})
	ask(t, s, "/v1/completions", `{"prompt":"x","max_tokens":3}`)
	_, page := do(t, s, "GET", "/metrics", "")
	for _, series := range []string{`vllm:prompt_tokens_created{engine="0",model_name="m"}`, `process_start_time_seconds`,
		`vllm:iteration_tokens_total_created{engine="0",model_name="m"}`, `vllm:lora_requests_info{max_lora="0",running_lora_adapters="",waiting_lora_adapters=""}`,
		`http_requests_created{handler="/v1/completions",method="POST",status="2xx"}`} {
		if at := sample(t, page, series); at < start || at > start+60 {
			t.Errorf("%s %g", series, at)
		}
	}
	expect(t, "a cache that is not there", sample(t, page, `vllm:external_prefix_cache_hits_total{engine="0",model_name="m"}`), 0.0)
}

// What a step left is what an idle server shows, however long ago that was.
func TestGaugesGoStaleWhileNothingHappens(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Model: "m", Fault: Fault{Slow: 1e6}})
	running := begin(s, fmt.Sprintf(endless, false))
	eventually(t, "it runs", func() bool { return s.State().Running == 1 })
	_, page := do(t, s, "GET", "/metrics", "") // the first step has not ended
	expect(t, "running", sample(t, page, `vllm:num_requests_running{engine="0",model_name="m"}`), 0.0)
	if err := s.SetFault(Fault{Die: true}); err != nil {
		t.Fatal(err)
	}
	expect(t, "status", ended(t, running).status, 500)
}
