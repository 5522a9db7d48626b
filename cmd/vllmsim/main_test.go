package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
)

func TestItSaysWhereItListensAndStopsWhenTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- serve(ctx, []string{"--listen", "127.0.0.1:0", "--model", "tiny"}, w, io.Discard)
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " on ")
	resp, err := http.Get(url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("health %d", resp.StatusCode)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

func TestAnUnknownProfileEndsWithTheKnownOnes(t *testing.T) {
	var errs bytes.Buffer
	if c := serve(t.Context(), []string{"--profile", "tpu"}, io.Discard, &errs); c != 1 {
		t.Errorf("exit code %d", c)
	}
	if !strings.Contains(errs.String(), "a10g-8b") {
		t.Error(errs.String())
	}
}

func TestEveryFlagReachesTheServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- serve(ctx, []string{"--listen=127.0.0.1:0", "--blocks=100", "--max-num-seqs=4", "--max-num-batched-tokens=64",
			"--scheduling-policy=priority", "--max-num-queued-reqs=9", "--max-num-queued-tokens=900", "--oom", "--restart=5s", "--blind=0.5",
			"--divergence=0.1", "--time-scale=100", "--enable-prompt-tokens-details", "--max-model-len=512",
			`--fault={"status":503,"for":1}`}, w, io.Discard)
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
	if status, body := ask(); status != 503 || !strings.HasPrefix(body, `{"error":{`) {
		t.Errorf("the fault: %d %s", status, body)
	}
	if status, body := ask(); status != 200 {
		t.Errorf("healed: %d %s", status, body)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

func TestKeysAndTLSAreFlags(t *testing.T) {
	ca, cert, key := redistest.Certificates(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- serve(ctx, []string{"--listen=127.0.0.1:0", "--api-key=one", "--api-key=two", "--key-for-all-paths",
			"--ssl-certfile=" + cert, "--ssl-keyfile=" + key, "--ssl-ca-certs=" + ca, "--ssl-cert-reqs=1"}, w, io.Discard)
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " on ")
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	for shown, want := range map[string]int{"": 401, "Bearer two": 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/health", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", shown)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with %q: %d", shown, resp.StatusCode)
		}
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

func TestWhatCannotBeIsSaidOnce(t *testing.T) {
	for _, c := range []struct{ flag, says string }{
		{`--fault={"refues":true}`, `vllmsim: this is no fault: unknown field "refues"`},
		{`--fault={"slow":1e300}`, "vllmsim: fault slow is within 0..1000000, not 1e+300"},
		{"--time-scale=0", "vllmsim: time scale 0 stands still"},
		{"--time-scale=Inf", "vllmsim: time scale +Inf is not within"},
		{"--time-scale=NaN", "vllmsim: time scale NaN is not within"},
		{"--max-model-len=0", "vllmsim: a context of 0 tokens"},
		{`--fault={"refuse":true,"die":true}`, "vllmsim: a fault has one of"},
		{"--max-num-queued-reqs=-1", "vllmsim: -1 queued requests"},
		{"--policy=random", "--policy"},
		{"--tokenizer=mine", "--tokenizer"},
		{"--stream-interval=0", "vllmsim: a stream interval of 0 tokens is none"},
		{"--ssl-keyfile=x", "vllmsim: TLS needs a certificate"},
		{"--ssl-certfile=/none/x", "vllmsim: open /none/x"},
		{"--ties=2", "vllmsim: ties 2 are not within 0..1"},
		{"--without=tokenize,wings", `vllmsim: unknown feature "wings"`},
		{"--engine=tgi", "--engine"},
		{"--engine=openai --sglang", "half face is vLLM's, not that of engine \"openai\""},
		{"--hazard=fire", `vllmsim: unknown hazard "fire"; known: constant_logprobs`},
		{`--fault={"score":"badly"}`, `vllmsim: unknown score fault "badly"`},
	} {
		var errs bytes.Buffer
		if code := serve(t.Context(), strings.Split(c.flag, " "), io.Discard, &errs); code != 1 {
			t.Errorf("%s: exit code %d", c.flag, code)
		}
		if got := errs.String(); !strings.Contains(got, c.says) || strings.Count(got, "vllmsim:") != 1 {
			t.Errorf("%s: %q", c.flag, got)
		}
	}
}

func TestAnEngineOfAnotherMakeIsAFlagAway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- serve(ctx, []string{"--listen=127.0.0.1:0", "--sglang", "--without=tokenize,logprobs", "--tokenizer=other", "--ties=0.1", "--stream-interval=4", "--time-scale=1000"}, w, io.Discard)
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " on ")
	ask := func(path, body string) (int, string) {
		resp, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	status, body := ask("/generate", `{"input_ids":[1500,1501],"sampling_params":{"max_new_tokens":2},"return_logprob":true,"logprob_start_len":0}`)
	if status != 200 || !strings.Contains(body, `"input_token_logprobs":[[null,1500,null],[`) || strings.Contains(body, "output_token_logprobs") {
		t.Errorf("/generate: %d %s", status, body)
	}
	if status, body = ask("/tokenize", `{"prompt":"x"}`); status != 404 {
		t.Errorf("/tokenize: %d %s", status, body)
	}
	_, body = ask("/v1/completions", `{"prompt":"x","max_tokens":1,"logprobs":1,"return_token_ids":true}`)
	if !strings.Contains(body, `"logprobs":null`) || !strings.Contains(body, `"prompt_token_ids":[1009,`) {
		t.Errorf("/v1/completions: %s", body)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

func TestAnEngineAndItsHazardsAreFlags(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- serve(ctx, []string{"--listen=127.0.0.1:0", "--engine=sglang", "--hazard=thinks_first", "--time-scale=1000"}, w, io.Discard)
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " on ")
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"hi"}],"max_tokens":60}`))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if !strings.Contains(string(b), `<think>\nThe question is clear`) {
		t.Errorf("%s", b)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

// A restart after no time is what was asked for, not the default.
func TestAServerCanBeToldToComeBackAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- serve(ctx, []string{"--listen=127.0.0.1:0", "--restart=0s", "--time-scale=1000", `--fault={"die":true}`}, w, io.Discard)
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " on ")
	start := time.Now()
	client := http.Client{Timeout: time.Second}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for back := false; !back; <-tick.C {
		if time.Since(start) > 10*time.Second {
			t.Fatal("it does not come back")
		}
		resp, err := client.Get(url + "/sim/state")
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		back = strings.Contains(string(b), `"alive":true`) && strings.Contains(string(b), `"deaths":1`)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}
