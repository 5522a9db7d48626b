package vllmsim

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
)

// TestAHostedServerChargesWhatItTellsAndRefusesWhatProvidersDo asks it for answers of both forms, and beyond its limit.
func TestAHostedServerChargesWhatItTellsAndRefusesWhatProvidersDo(t *testing.T) {
	s := Start(t, Options{Engine: engineOpenAI, Hosted: Hosted{Input: 3, Cached: 0.3, Output: 15}, TimeScale: 100})
	ask := func(more string) (int, http.Header, string) {
		resp, err := http.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"sim","messages":[{"role":"user","content":"`+strings.Repeat("The sea is wide. ", 20)+`"}`+more+`}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header, string(body)
	}
	want := 0.0
	for _, more := range []string{`],"max_tokens":9`, `],"max_tokens":9`, `],"max_tokens":9,"stream":true,"stream_options":{"include_usage":true}`} {
		status, _, body := ask(more)
		var told struct {
			Usage struct {
				Prompt     int `json:"prompt_tokens"`
				Completion int `json:"completion_tokens"`
				Details    struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		for line := range strings.Lines(body) {
			if line = strings.TrimPrefix(strings.TrimSpace(line), "data: "); strings.Contains(line, `"prompt_tokens"`) {
				if err := json.Unmarshal([]byte(line), &told); err != nil {
					t.Fatal(err)
				}
			}
		}
		u := told.Usage
		if status != http.StatusOK || u.Completion != 9 {
			t.Fatalf("status %d: %s", status, body)
		}
		want += (float64(u.Prompt-u.Details.Cached)*3 + float64(u.Details.Cached)*0.3 + 9*15) / 1e6
	}
	for _, more := range []string{`],"logprobs":true`, `,{"role":"assistant","content":"It is"}]`} {
		if status, _, body := ask(more); status != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s", more, status, body)
		}
	}
	m := s.Meter()
	if m.Calls != 3 || m.Left != 0 || m.Cached == 0 || math.Abs(m.USD-want) > 1e-12 || m.ProbeUSD != 0 {
		t.Errorf("%+v, want %g USD", m, want)
	}
	s.SetLimit(2)
	refused := 0
	for range 6 {
		status, head, _ := ask(`],"max_tokens":1`)
		if status == http.StatusTooManyRequests {
			refused++
			if head.Get("Retry-After") != "1" || head.Get("X-Ratelimit-Remaining-Requests") != "0" || head.Get("X-Ratelimit-Limit-Requests") != "2" {
				t.Errorf("%v", head)
			}
		}
	}
	if refused == 0 || s.Meter().Refused != refused {
		t.Errorf("refused %d, counted %d", refused, s.Meter().Refused)
	}
}
