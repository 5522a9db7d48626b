package cost

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	hitClients = 32  // connections at once, each with a question of its own, so that none of them share a lookup
	hitTokens  = 300 // of an answer

	// minHits is the share of the requests that must be the hits that are measured. A Redis that a busy machine
	// keeps from answering for a moment is left alone for a while.
	minHits = 0.95
)

// hitForm is how long the benchmark takes and how sure it is.
type hitForm struct {
	rounds, slices int
	lasts          time.Duration // of a slice
}

var (
	fullHits  = hitForm{rounds: 12, slices: 8, lasts: 60 * time.Millisecond}
	shortHits = hitForm{rounds: 3, slices: 4, lasts: 50 * time.Millisecond}
)

// duel is one kind of hit beside the bare handler that does no more than must be done.
type duel struct {
	title     string
	own       *party
	ours      []exchangeOf // of the connections
	bare      []exchangeOf
	result    string  // of the gateway's lookups
	aim       float64 // the share of the bare handler's requests/s that is hoped for
	ratios    []float64
	cpuRatios []float64
	did       [2][]feat // the gateway's, the bare handler's
	missed    float64   // requests that were not served from the cache
}

// feat is what a process did in a round.
type feat struct{ rate, cpu, mallocs float64 } // requests/s; µs and objects per request

// BenchmarkHits measures what an answer from the cache costs, beside a bare handler in the same
// run that reads the request, gets as many bytes from Redis or from nowhere, and returns the same answer.
// Each is a process of its own; the rounds are interleaved. It prints a table, and fails only where
// an answer is wrong, or too many were no hits.
//
// FOREGATE_HITS=short takes some ten seconds instead of a minute.
// FOREGATE_HITS_PROFILE=DIR also writes CPU profiles of the gateway there.
func BenchmarkHits(b *testing.B) {
	if raced() {
		b.Skip("the race detector costs more than what is measured")
	}
	f := fullHits
	if testing.Short() || os.Getenv("FOREGATE_HITS") == "short" {
		f = shortHits
	}
	for b.Loop() {
		h := newHits(b, f)
		for r := range f.rounds {
			for _, d := range h.duels {
				h.round(b, d, r)
			}
		}
		h.report(b)
		if dir := os.Getenv("FOREGATE_HITS_PROFILE"); dir != "" {
			h.profile(b, dir)
		}
	}
}

// hits is one run of the benchmark.
type hits struct {
	hitForm
	bare, far, near *party // near has copies of its own, far has none
	duels           []*duel
	began           time.Time
}

func newHits(b *testing.B, f hitForm) *hits {
	b.Helper()
	h := &hits{hitForm: f, began: time.Now()}
	binary := gatewayBinary(b)
	addr, store := startStore(b)
	if err := store.HSet(b.Context(), "foregate:settings", "cache.lookup_timeout", "1s").Err(); err != nil { // the machine may be busy
		b.Fatal(err)
	}
	mock := startMock(b)
	h.far = startServe(b, binary, hitConfig(addr, mock.addr, "0"))
	h.near = startServe(b, binary, hitConfig(addr, mock.addr, "32MiB"))
	h.far.settle(b, chatOf(1<<10, "target"), hitClients)
	h.near.settle(b, chatOf(1<<10, "target"), hitClients)
	small, large := hitQuestions(1<<10), hitQuestions(4<<10)
	h.fill(b, small)
	h.fill(b, large)
	keys, err := store.Keys(b.Context(), "foregate:cache:*").Result()
	if err != nil || len(keys) != 2*hitClients {
		b.Fatalf("%d answers are kept instead of %d: %v", len(keys), 2*hitClients, err)
	}
	file := filepath.Join(b.TempDir(), "answer")
	if err := os.WriteFile(file, h.answer(b, small[0]), 0o600); err != nil {
		b.Fatal(err)
	}
	h.bare = startBare(b, addr, keys[0], file)
	h.bare.settle(b, small[0].bare("/memory"), hitClients)
	for _, q := range [][]hitQuestion{small, large} {
		size := len(q[0].body) >> 10
		for _, p := range []struct {
			title, path, result string
			own                 *party
			aim                 float64
		}{{"from Redis", "/get", "hit", h.far, 0.5}, {"from the local layer", "/memory", "local", h.near, 0.9}} {
			d := &duel{title: fmt.Sprintf("%s, %d KiB request", p.title, size), own: p.own, result: p.result, aim: p.aim}
			for _, one := range q {
				d.ours, d.bare = append(d.ours, one.ask("")), append(d.bare, one.bare(p.path))
			}
			h.duels = append(h.duels, d)
		}
	}
	return h
}

func hitConfig(redis, upstream, local string) string {
	return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%[3]s"}
cache: {local_bytes: %[4]s}
pools:
  draft: {model: %[1]s, usd_per_hour: 1, backends: ["http://%[2]s"]}
  target: {model: %[1]s, usd_per_hour: 12, backends: ["http://%[2]s"]}
routes:
  - {model: bench, draft: draft, target: target, same_tokenizer: true}
drain: {delay: 0s, grace: 1s}
`, mockModel, upstream, redis, local)
}

// hitQuestion is a chat that is answered in hitTokens.
type hitQuestion struct{ body, streamed string }

// hitQuestions are different ones of one size.
func hitQuestions(size int) []hitQuestion {
	list := make([]hitQuestion, hitClients)
	for i := range list {
		head := conversation + fmt.Sprintf("Question %d. ", i)
		tail := fmt.Sprintf(`"}],"temperature":0.7,"max_tokens":%d`, hitTokens)
		body := filled(size, head, tail+"}")
		list[i] = hitQuestion{body: body, streamed: body[:len(body)-1] + `,"stream":true,"stream_options":{"include_usage":true}}`}
	}
	return list
}

func (q hitQuestion) ask(more string) exchangeOf {
	return exchangeOf{request: requestOf("/v1/chat/completions", more, q.body), marks: hitTokens}
}

func (q hitQuestion) bare(path string) exchangeOf {
	return exchangeOf{request: requestOf(path, "", q.body), marks: hitTokens}
}

// fill has the questions answered, and waits until both gateways have the answers.
func (h *hits) fill(b *testing.B, list []hitQuestion) {
	b.Helper()
	end := time.Now().Add(30 * time.Second)
	for _, q := range list {
		x := exchangeOf{request: requestOf("/v1/chat/completions", "", q.streamed), marks: hitTokens, stream: true}
		if _, err := h.far.sessions[0].ask(x); err != nil {
			b.Fatal(err)
		}
		for _, p := range []*party{h.far, h.near} {
			for {
				_, err := p.sessions[0].ask(q.ask("Cache-Control: only-if-cached\r\n"))
				if err == nil {
					break
				}
				if time.Now().After(end) {
					b.Fatalf("an answer is not kept: %v", err)
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// answer is what the gateway says to a question.
func (h *hits) answer(b *testing.B, q hitQuestion) []byte {
	b.Helper()
	resp, err := http.Post("http://"+h.far.addr+"/v1/chat/completions", "application/json", strings.NewReader(q.body))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.Header.Get("X-Cache") != "HIT" || bytes.Count(body, []byte{marker}) != hitTokens {
		b.Fatalf("%s, X-Cache %q, %v: %s", resp.Status, resp.Header.Get("X-Cache"), err, body)
	}
	return body
}

// round measures a duel once, slice by slice in turn; who is first changes.
func (h *hits) round(b *testing.B, d *duel, round int) {
	b.Helper()
	sides := [2]*bout{{party: d.own, each: d.ours}, {party: h.bare, each: d.bare}}
	before, kept := d.own.metric(b, countOf(d.result)), d.own.metric(b, countOf("hit"))
	for _, s := range sides {
		if _, err := s.party.apply(load{each: s.each, most: warmUp}); err != nil {
			b.Fatalf("%s: warming up: %v", d.title, err)
		}
		s.mallocs = s.party.mallocs(b)
	}
	for i := range 2 * h.slices {
		if err := sides[(round+i)%2].slice(b, h.lasts); err != nil {
			b.Fatalf("%s: %v", d.title, err)
		}
	}
	for i, s := range sides {
		d.did[i] = append(d.did[i], s.end(b))
	}
	ours, bare := d.did[0][round], d.did[1][round]
	d.ratios, d.cpuRatios = append(d.ratios, ours.rate/bare.rate), append(d.cpuRatios, ours.cpu/bare.cpu)
	asked := float64(sides[0].requests + warmUp*hitClients)
	got := d.own.metric(b, countOf(d.result)) - before
	missed := asked - got
	if d.result == "local" { // a copy that may not be used any more is asked for again
		missed -= d.own.metric(b, countOf("hit")) - kept
	}
	d.missed += missed
	if got < minHits*asked {
		b.Fatalf("%s: %.0f requests, of which %.0f were served so, and %.0f not from the cache", d.title, asked, got, missed)
	}
}

// countOf is how the line of the metric begins that counts such hits.
func countOf(result string) string {
	return `llm_cache_requests_total{result="` + result + `"`
}

// bout gathers what one side of a duel does in a round.
type bout struct {
	party        *party
	each         []exchangeOf
	requests     int
	took         time.Duration
	cpu, mallocs float64 // ns; objects
}

func (s *bout) slice(b *testing.B, lasts time.Duration) error {
	b.Helper()
	cpu, began := s.party.cpu(b), time.Now()
	n, err := s.party.apply(load{each: s.each, lasts: lasts, most: 1 << 20})
	s.took += time.Since(began)
	s.cpu += s.party.cpu(b) - cpu
	s.requests += n
	return err
}

func (s *bout) end(b *testing.B) feat {
	b.Helper()
	n := float64(s.requests)
	objects := s.party.mallocs(b) - s.mallocs - s.party.scrape
	return feat{rate: n / s.took.Seconds(), cpu: s.cpu / 1e3 / n, mallocs: objects / n}
}

// report prints the table and hands the ratios to the benchmark.
func (h *hits) report(b *testing.B) {
	b.Helper()
	var t strings.Builder
	fmt.Fprintf(&t, "\n### What an answer from the cache costs, beside a bare handler\n\n"+
		"Medians of %d interleaved rounds, %d connections, answers of %d tokens, GOMAXPROCS=%d for gateway and handler, %d CPUs, %s %s/%s; %s in all.\n\n",
		h.rounds, hitClients, hitTokens, proxyProcs, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Since(h.began).Round(time.Second))
	t.WriteString("| hits | requests/s, of the handler's | lowest–highest | Foregate | handler | CPU µs, Foregate | handler | × handler | lowest–highest | allocations, Foregate | handler | aim | met |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for _, d := range h.duels {
		ratio, cpu := quantile(d.ratios, 0.5), quantile(d.cpuRatios, 0.5)
		met := "yes"
		if ratio < d.aim {
			met = "no"
		}
		of := func(who int, what func(feat) float64) float64 {
			var list []float64
			for _, f := range d.did[who] {
				list = append(list, what(f))
			}
			return quantile(list, 0.5)
		}
		rate, micros, objects := func(f feat) float64 { return f.rate }, func(f feat) float64 { return f.cpu }, func(f feat) float64 { return f.mallocs }
		fmt.Fprintf(&t, "| %s | **%.0f %%** | %.0f–%.0f %% | %.0f | %.0f | %.1f | %.1f | %.2f | %.2f–%.2f | %.1f | %.1f | ≥ %.0f %% | %s |\n",
			d.title, 100*ratio, 100*slices.Min(d.ratios), 100*slices.Max(d.ratios), of(0, rate), of(1, rate), of(0, micros), of(1, micros),
			cpu, slices.Min(d.cpuRatios), slices.Max(d.cpuRatios), of(0, objects), of(1, objects), 100*d.aim, met)
		if d.missed > 0 {
			b.Logf("%s: %.0f requests were not served from the cache", d.title, d.missed)
		}
		name := strings.NewReplacer(" ", "-", ",", "").Replace(d.title)
		b.ReportMetric(ratio, name+"-rate")
		b.ReportMetric(cpu, name+"-cpu-x")
		b.ReportMetric(of(0, objects), name+"-allocs")
	}
	fmt.Println(t.String())
	b.ReportMetric(0, "ns/op") // it would be the length of the run
}

// profile writes CPU profiles of the gateway, one for each duel.
func (h *hits) profile(b *testing.B, dir string) {
	b.Helper()
	const seconds = 5
	for i, d := range h.duels {
		done := make(chan error, 1)
		go func() {
			_, err := d.own.apply(load{each: d.ours, lasts: (seconds + 1) * time.Second, most: 1 << 20})
			done <- err
		}()
		text := d.own.get(b, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds))
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("hits%d.pprof", i)), text, 0o600); err != nil {
			b.Fatal(err)
		}
		b.Logf("hits%d.pprof: %s", i, d.title)
	}
}
