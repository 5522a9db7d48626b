package cost

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const (
	scrapedBackends = 200
	scrapedTenants  = 100
)

// BenchmarkScrape is GET /metrics over loopback of a gateway with 200 backends in two pools, all of which had
// requests of 100 tenants. The aim is 20 ms. It also says how long a page is.
func BenchmarkScrape(b *testing.B) {
	g := largeGateway(b)
	admin := "http://" + g.admin + "/metrics"
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableCompression: true}}
	read := func(into io.Writer) int64 {
		resp, err := client.Get(admin)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(into, resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("%s, %v", resp.Status, err)
		}
		_ = resp.Body.Close() // it was read to its end
		return n
	}
	var page strings.Builder
	read(&page)
	if n := strings.Count(page.String(), "\nforegate_backend_up{"); n != scrapedBackends {
		b.Fatalf("%d backends on the page", n)
	}
	var bytes int64
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		bytes = read(io.Discard)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[0].Microseconds())/1000, "ms-best")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(bytes), "bytes")
	b.ReportMetric(float64(strings.Count(page.String(), "\n")), "lines")
}

// scrapedSettings keep the replica quiet while it is measured, and have every backend picked.
var scrapedSettings = map[string]string{
	"speculation.mode": "confidence", "route.policy": "round_robin", "scrape.interval": "1m", "cache.mode": "on",
}

// largeGateway is a gateway whose every backend and tenant has had work. A hundred listeners share
// each simulator.
func largeGateway(b *testing.B) *party {
	b.Helper()
	store := miniredis.RunT(b)
	for name, value := range scrapedSettings {
		store.HSet(settings.Key, name, value)
	}
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nredis: {url: \"redis://%s\"}\npools:\n", store.Addr())
	for i, model := range []string{"sim/draft", "sim/target"} {
		sim := vllmsim.Start(b, vllmsim.Options{Model: model, Seed: 1, TimeScale: 1000})
		var urls []string
		for range scrapedBackends / 2 {
			s := httptest.NewServer(sim)
			b.Cleanup(s.Close)
			urls = append(urls, fmt.Sprintf("%q", s.URL))
		}
		text += fmt.Sprintf("  p%d: {model: %s, usd_per_hour: 1, prefill_tokens_per_s: 1000, decode_tokens_per_s: 100, backends: [%s]}\n", i, model, strings.Join(urls, ", "))
	}
	text += "routes: [{model: r, draft: p0, target: p1, same_tokenizer: true}]\ndrain: {delay: 0s, grace: 1s}\n"
	g := startServe(b, nil, foregateBinary(b), text)
	workAll(b, "http://"+g.addr)
	store.Close() // its scripts would cost more than what is measured
	return g
}

// workAll has every backend and tenant do something, in every class.
func workAll(b *testing.B, base string) {
	b.Helper()
	client := &http.Client{Timeout: time.Minute}
	for n := range 4 * scrapedBackends {
		body := fmt.Sprintf(`{"model":"r","max_tokens":8,"messages":[{"role":"user","content":"question %d"}]}`, n)
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Tenant-ID", fmt.Sprintf("tenant-%03d", n%scrapedTenants))
		req.Header.Set("X-Priority", []string{"low", "normal", "high"}[n%3])
		req.Header.Set("X-Tier", []string{"auto", "target"}[n/2%2])
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body) // what it says does not matter
		_ = resp.Body.Close()
	}
}
