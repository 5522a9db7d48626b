package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestEveryFlagReachesTheServerAndItStopsWhenTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- serve(ctx, []string{"--listen=127.0.0.1:0", "--engine=sglang", "--model=tiny", "--blocks=100", "--max-num-seqs=4",
			"--max-num-batched-tokens=64", "--scheduling-policy=priority", "--blind=0.5", "--divergence=0.1", "--time-scale=100",
			"--enable-prompt-tokens-details", "--max-model-len=512", `--fault={"status":503}`}, w, io.Discard)
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " on ")
	ask := func() (int, string) {
		resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","max_tokens":1}`))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	if status, body := ask(); status != 503 || !strings.HasPrefix(body, `{"object":"error"`) {
		t.Errorf("the fault: %d %s", status, body)
	}
	resp, err := http.Post(url+"/sim/fault", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if status, body := ask(); status != 200 {
		t.Errorf("healed: %d %s", status, body)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

func TestWhatCannotBeIsSaidOnce(t *testing.T) {
	for _, c := range []struct{ flag, says string }{
		{"--profile=tpu", "a10g-8b"},
		{`--fault={"refues":true}`, `vllmsim: this is no fault: unknown field "refues"`},
		{"--time-scale=0", "vllmsim: time scale 0 stands still"},
		{"--time-scale=NaN", "vllmsim: time scale NaN is not within"},
		{"--max-model-len=0", "vllmsim: a context of 0 tokens"},
		{"--engine=tgi", "--engine"},
		{`--fault={"score":"badly"}`, `vllmsim: unknown score fault "badly"`},
	} {
		var errs bytes.Buffer
		if code := serve(t.Context(), []string{c.flag}, io.Discard, &errs); code != 1 {
			t.Errorf("%s: exit code %d", c.flag, code)
		}
		if got := errs.String(); !strings.Contains(got, c.says) || strings.Count(got, "vllmsim:") != 1 {
			t.Errorf("%s: %q", c.flag, got)
		}
	}
}
