package measure

import (
	"context"
	"crypto/rand"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestTheStepTimesOfAKnownEngineAreFound(t *testing.T) {
	synctest.Test(t, stepTimesAreFound)
}

// simulated is a simulator that connections by pipes reach: in a bubble it takes no time but that of its steps.
func simulated(t *testing.T, o vllmsim.Options) (dial func(context.Context, string, string) (net.Conn, error)) {
	t.Helper()
	sim, err := vllmsim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	conns, server := make(pipes), &http.Server{Handler: sim, ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() { _ = sim.Run(ctx) })        // ends with ctx
	wg.Go(func() { _ = server.Serve(conns) }) // ends when it is closed
	t.Cleanup(func() { cancel(); _ = server.Close(); wg.Wait() })
	return func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		conns <- there
		return here, nil
	}
}

// pipes is a listener whose connections are sent to it.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func stepTimesAreFound(t *testing.T) {
	const name = "h100-70b-fp8-tp2"
	o := Options{URL: "http://sim", For: 6 * time.Second, Progress: func(string) {}}
	o.dial = simulated(t, vllmsim.Options{Profile: name, Model: "m", MaxNumSeqs: 24, MaxModelLen: 4096})
	f, err := Engine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want, err := vllmsim.ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", f.Profile)
	for _, sequences := range []int{1, 8, 24} {
		prefill, decode := f.Rates(sequences)
		wantPrefill, wantDecode := want.Rates(sequences)
		if math.Abs(prefill/wantPrefill-1) > 0.1 || math.Abs(decode/wantDecode-1) > 0.1 {
			t.Errorf("with %d sequences %.0f and %.1f tokens a second, want %.0f and %.1f", sequences, prefill, decode, wantPrefill, wantDecode)
		}
	}
	if f.MaxSeqs != 24 || f.Blocks != want.Blocks || f.Model != "m" {
		t.Errorf("%d sequences, %d blocks, model %s", f.MaxSeqs, f.Blocks, f.Model)
	}
	f.Name, f.GPU, f.GPUs = rand.Text(), "OWN", 2
	if err := vllmsim.AddProfiles("own.yaml", []byte(f.YAML("a test"))); err != nil {
		t.Fatal(err)
	}
	if got, err := vllmsim.ProfileByName(f.Name); err != nil || got.Blocks != f.Blocks || math.Abs(got.Base/f.Base-1) > 0.001 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := vllmsim.ParsePrices("p", []byte("usd_per_gpu_hour: {OWN: 3}")); err != nil {
		t.Error(err)
	}
}

func TestAnEngineThatCannotBeMeasuredSaysWhy(t *testing.T) {
	for want, handle := range map[string]http.HandlerFunc{
		"404 Not Found":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"it has none":            func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"data":[]}`)) },
		"no ids here":            models(func(w http.ResponseWriter) { http.Error(w, "no ids here", http.StatusBadRequest) }),
		"came in 1 pieces":       models(func(w http.ResponseWriter) { _, _ = w.Write([]byte("data: {\"choices\":[{}]}\n\n")) }),
		"an event that is no":    models(func(w http.ResponseWriter) { _, _ = w.Write([]byte("data: x\n\n")) }),
		"the engine failed: \"x": models(func(w http.ResponseWriter) { _, _ = w.Write([]byte("data: {\"error\":\"x\"}\n\n")) }),
	} {
		s := httptest.NewServer(handle)
		if _, err := Engine(context.Background(), Options{URL: s.URL, For: time.Second, Progress: func(string) {}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		s.Close()
	}
}

// models is an engine with a model, and with something for completions.
func models(completions func(http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			_, _ = w.Write([]byte(`{"data":[{"id":"m","max_model_len":4096}]}`))
		case "/v1/completions":
			completions(w)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}
}

func TestTheCacheIsReadFromTheMetrics(t *testing.T) {
	for page, want := range map[string]int{
		"": 0, "vllm:cache_config_info{block_size=\"128\",num_gpu_blocks=\"364\"} 1\n": 46592,
		"sglang:max_total_num_tokens{model_name=\"m\"} 5000\n": 5000, "vllm:cache_config_info{block_size=\"16\"} 1\n": 0,
	} {
		if got := cacheTokens(page); got != want {
			t.Errorf("%s: %d, want %d", page, got, want)
		}
	}
}
