package vllmsim

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const faultBody = `{"prompt":"x","max_tokens":20,"ignore_eos":true,"temperature":0,"stream":true}`

// fetch reads an answer as far as it comes.
func fetch(t *testing.T, s *Server, body string) (*http.Response, string, error) {
	t.Helper()
	resp, err := http.Post(s.URL()+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func TestAStatusFaultAnswersUntilItIsHealed(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	status, _ := post(t, s, "/sim/fault", `{"status":503,"retry_after":"7"}`)
	expect(t, "set", status, 200)
	resp, body, err := fetch(t, s, faultBody)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "status", resp.StatusCode, 503)
	expect(t, "retry", resp.Header.Get("Retry-After"), "7")
	if !strings.Contains(body, `"type":"Service Unavailable","param":null,"code":503}}`) {
		t.Error(body)
	}
	post(t, s, "/sim/fault", `{}`)
	resp, _, err = fetch(t, s, faultBody)
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("afterwards: %v %v", resp, err)
	}
	status, _ = post(t, s, "/sim/fault", `{"hang":"often"}`)
	expect(t, "nonsense is refused", status, 400)
}

func TestARateFaultHitsItsShare(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	s.SetFault(Fault{Status: 500, Rate: 0.3})
	hits := 0
	for range 100 {
		resp, body, err := fetch(t, s, `{"prompt":"x","max_tokens":1}`)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == 500 {
			hits++
			if !strings.HasPrefix(body, `{"error":{`) {
				t.Fatal(body)
			}
		}
	}
	if hits < 15 || hits > 45 {
		t.Errorf("%d of 100 were hit", hits)
	}
}

func TestAStreamCanEndInEveryWrongWay(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	s.SetFault(Fault{CutAfterBytes: 300})
	_, body, err := fetch(t, s, faultBody)
	if err == nil || len(body) > 300 {
		t.Errorf("cut: %d bytes, error %v", len(body), err)
	}
	s.SetFault(Fault{CleanEOFAfterTokens: 5})
	_, body, err = fetch(t, s, faultBody)
	if err != nil || strings.Count(body, "data: ") != 5 || strings.Contains(body, "[DONE]") {
		t.Errorf("clean end: %v %s", err, body)
	}
	s.SetFault(Fault{ErrorEventAfterTokens: 5})
	_, body, err = fetch(t, s, faultBody)
	if err != nil || strings.Count(body, "data: ") != 7 || !strings.Contains(body, `data: {"error":{"message":"Internal server error"`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("error event: %v %s", err, body)
	}
	s.SetFault(Fault{AbortAfterTokens: 5})
	_, body, err = fetch(t, s, faultBody)
	if err != nil || strings.Count(body, "data: ") != 6 || !strings.Contains(body, `"finish_reason":"abort"`) {
		t.Errorf("abort: %v %s", err, body)
	}
	s.SetFault(Fault{})
	_, body, err = fetch(t, s, faultBody)
	if err != nil || strings.Count(body, "data: ") != 21 {
		t.Errorf("healed: %v %s", err, body)
	}
	eventually(t, "nothing runs", func() bool { return s.State().Running == 0 })
}

func TestAHangLastsUntilTheClientLeaves(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	for _, c := range []struct {
		f      Fault
		chunks int
	}{{Fault{Hang: "headers"}, 0}, {Fault{Hang: "stream", AfterTokens: 3}, 3}} {
		s.SetFault(c.f)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL()+"/v1/completions", strings.NewReader(faultBody))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		var got []byte
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			got, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if !errors.Is(err, context.DeadlineExceeded) || strings.Count(string(got), "data: ") != c.chunks {
			t.Errorf("%+v: %v %s", c.f, err, got)
		}
		cancel()
	}
	eventually(t, "nothing runs", func() bool { return s.State().Running == 0 })
}

func TestMetricsCanLie(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	s.SetFault(Fault{Metrics: "frozen"})
	_, before := do(t, s, "GET", "/metrics", "")
	if _, _, err := fetch(t, s, faultBody); err != nil {
		t.Fatal(err)
	}
	_, after := do(t, s, "GET", "/metrics", "")
	expect(t, "frozen page", after, before)
	s.SetFault(Fault{Metrics: "nan"})
	_, page := do(t, s, "GET", "/metrics", "")
	if !strings.Contains(page, `vllm:kv_cache_usage_perc{engine="0",model_name="sim"} NaN`) {
		t.Error("no NaN")
	}
	s.SetFault(Fault{Metrics: "garbage"})
	_, page = do(t, s, "GET", "/metrics", "")
	if strings.Contains(page, "kv_cache_usage_perc") {
		t.Error("not garbage")
	}
}

func TestKVUsageCanLie(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Fault: Fault{KVUsage: new(0.05)}})
	_, page := do(t, s, "GET", "/metrics", "")
	if !strings.Contains(page, `vllm:kv_cache_usage_perc{engine="0",model_name="sim"} 0.05`) {
		t.Error("the truth is told")
	}
}
