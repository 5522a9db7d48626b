package cost

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Routes of the judging benchmark: they share the pools, and differ in how drafts are
// judged.
const (
	judgeRoute = "bench"   // by their own score, as most routes are
	headRoute  = "bench-h" // all are doubtful: the target is asked about the first 32 tokens
	wholeRoute = "bench-w" // the target is asked about the whole answer (mode lenient)
)

// judgeSettings make the routes what they are called.
var judgeSettings = map[string]string{
	"speculation.mode":                        "confidence",
	"economy.guard":                           "off", // or it would learn what pays
	"speculation.head_check@" + judgeRoute:    "off",
	"speculation.head_check@" + headRoute:     "always",
	"speculation.threshold_nats@" + headRoute: "1", // no score is above it,
	"speculation.band_nats@" + headRoute:      "5", // and none of the mock's below the band
	"speculation.mode@" + wholeRoute:          "lenient",
	"speculation.max_concurrent_scores":       "1000",
	"speculation.score_timeout":               "10s",
	"receipts.log_sample_rate":                "0.01", // as by default
	"speculation.holdback_ms@" + headRoute:    "60000",
	"speculation.holdback_ms@" + judgeRoute:   "60000",
	"speculation.max_extra_ttft_ms":           "0",
}

// maxJudging is the aim: CPU of judging a drafted token, beside relaying one.
const maxJudging = 1.5

// judging is a way to answer from the draft pool.
type judging struct {
	title   string
	route   string
	tier    string
	checked bool // the target is asked, once for each draft
	aim     float64
}

// judgings are measured in each round, in this order; the first is the measure.
var judgings = []judging{
	{"relayed: `X-Tier: draft`, without logprobs", judgeRoute, "draft", false, 0},
	{"judged by its own score, released after 32 tokens", judgeRoute, "auto", false, maxJudging},
	{"… and the target asked about these 32", headRoute, "auto", true, 0},
	{"held back whole, the target asked about all of it (`lenient`)", wholeRoute, "auto", true, 0},
}

// BenchmarkJudge measures what judging costs the gateway: CPU time of its process and
// allocations for each drafted token, beside the same stream relayed without logprobs
// by the same process in the same run. Tokens come one an event; paced as engines
// send them, and for information all at once. It prints a table, fails when a draft was
// not judged as its row says, and does not fail for a ratio.
//
// FOREGATE_COST=short takes a quarter of a minute instead of one and a half.
// FOREGATE_COST_PROFILE=DIR also writes CPU profiles of the gateway there.
func BenchmarkJudge(b *testing.B) {
	if raced() {
		b.Skip("the race detector costs more than what is measured")
	}
	f := form{rounds: 9, lasts: 60 * time.Millisecond, slices: 6, tokens: 200, pause: 8 * time.Millisecond}
	if testing.Short() || os.Getenv("FOREGATE_COST") == "short" {
		f = form{rounds: 3, lasts: 50 * time.Millisecond, slices: 3, tokens: 100, pause: 6 * time.Millisecond}
	}
	for b.Loop() {
		j := newJudgeBench(b, f)
		for r := range f.rounds {
			j.round(b, r)
		}
		j.verify(b)
		j.report(b)
		if dir := os.Getenv("FOREGATE_COST_PROFILE"); dir != "" {
			j.profile(b, dir)
		}
	}
}

// judgeBench is one run of the benchmark.
type judgeBench struct {
	form
	own              *party
	cost             map[string][]sample // by title and pace, a sample per round
	judged, answered int                 // tokens, and drafts about which the target was asked
	began            time.Time
}

func newJudgeBench(b *testing.B, f form) *judgeBench {
	b.Helper()
	store := miniredis.RunT(b)
	for name, value := range judgeSettings {
		store.HSet("foregate:settings", name, value)
	}
	binary := gatewayBinary(b)
	mock := startMock(b, "scores")
	j := &judgeBench{form: f, cost: map[string][]sample{}, began: time.Now()}
	j.own = startServe(b, binary, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools:
  draft: {model: %[2]s, usd_per_hour: 1, backends: ["http://%[3]s"]}
  target: {model: %[2]s, usd_per_hour: 12, backends: ["http://%[3]s"]}
routes:
  - {model: %[4]s, draft: draft, target: target}
  - {model: %[5]s, draft: draft, target: target}
  - {model: %[6]s, draft: draft, target: target}
drain: {delay: 0s, grace: 1s}
`, store.Addr(), mockModel, mock.addr, judgeRoute, headRoute, wholeRoute))
	j.own.settle(b, chatOf(1<<10, "target"), connections)
	for end := time.Now().Add(20 * time.Second); bytes.Count(j.own.get(b, "/metrics"), []byte("\nforegate_probe_age_seconds{")) < 2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("the gateway does not know its engines")
		}
	}
	return j
}

// exchange is a stream of a row, paced or sent at once.
func (j *judgeBench) exchange(w judging, pause time.Duration) exchangeOf {
	return streaming{model: w.route, tier: w.tier, tokens: j.tokens, pause: pause}.exchange()
}

// round measures every row once, in an order that changes.
func (j *judgeBench) round(b *testing.B, round int) {
	b.Helper()
	for _, pause := range []time.Duration{j.pause, 0} {
		for i := range judgings {
			row := judgings[(round+i)%len(judgings)]
			w := workload{title: row.title, tokens: j.tokens, load: load{exchangeOf: j.exchange(row, pause), lasts: j.lasts, most: 1 << 20}}
			slices := j.slices
			if pause > 0 { // a stream each, begun one after the other
				slices, w.lasts, w.most, w.stagger = 1, 0, 1, pause/connections
			}
			t := &tally{party: j.own}
			t.begin(b)
			for range slices {
				t.slice(b, w)
			}
			key := row.title + pause.String()
			j.cost[key] = append(j.cost[key], t.end(b, w))
			if row.tier == "auto" {
				j.judged += t.requests * j.tokens
			}
			if row.checked {
				j.answered += t.requests
			}
		}
	}
}

// minHeard is the share of drafts and checks that must go as the rows say: on a machine
// that starves the mock its readings age, and a gateway then asks nobody for a while.
const minHeard = 0.9

// verify checks that what was to be judged was, the target asked as the rows say, and the
// drafts kept.
func (j *judgeBench) verify(b *testing.B) {
	b.Helper()
	kept, agreed := j.own.metric(b, "foregate_accepted_tokens_total{"), j.own.metric(b, `foregate_verifications_total{reason="target_agrees"`)
	if kept > float64(j.judged) || kept < minHeard*float64(j.judged) {
		b.Fatalf("drafts of %d tokens were to be judged and kept, and of %.0f were\n%s", j.judged, kept, j.reasons(b))
	}
	if agreed > float64(j.answered) || agreed < minHeard*float64(j.answered) {
		b.Fatalf("the target was to be asked %d times and to agree, and did %.0f times\n%s", j.answered, agreed, j.reasons(b))
	}
	if kept < float64(j.judged) || agreed < float64(j.answered) {
		b.Logf("%.0f of %d tokens were kept, and the target agreed %.0f of %d times\n%s", kept, j.judged, agreed, j.answered, j.reasons(b))
	}
}

// reasons are what the gateway says of drafts and checks, for whom it surprises.
func (j *judgeBench) reasons(b *testing.B) string {
	b.Helper()
	var out strings.Builder
	for line := range strings.Lines(string(j.own.get(b, "/metrics"))) {
		if strings.HasPrefix(line, "foregate_acceptance_total{") || strings.HasPrefix(line, "foregate_verifications_total{") || strings.HasPrefix(line, "foregate_upstream_failures_total{") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// report prints the table and hands the ratios to the benchmark.
func (j *judgeBench) report(b *testing.B) {
	b.Helper()
	var t strings.Builder
	fmt.Fprintf(&t, "\n### What judging costs, per drafted token\n\n"+
		"Medians of %d interleaved rounds, %d connections, GOMAXPROCS=%d for the gateway, %d CPUs, %s %s/%s; streams of %d tokens, one an event; %s in all.\n\n",
		j.rounds, connections, proxyProcs, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, j.tokens, time.Since(j.began).Round(time.Second))
	t.WriteString("| a draft is | tokens | × relayed | lowest–highest | CPU, µs | allocations | aim | met |\n|---|---|--:|--:|--:|--:|--:|---|\n")
	for _, pause := range []time.Duration{j.pause, 0} {
		for i, w := range judgings {
			j.row(&t, b, w, pause, i > 0)
		}
	}
	fmt.Println(t.String())
	b.ReportMetric(0, "ns/op") // it would be the length of the run
}

func (j *judgeBench) row(t *strings.Builder, b *testing.B, w judging, pause time.Duration, compared bool) {
	how, name := "at once", "at-once"
	if pause > 0 {
		how, name = "every "+pause.String(), "paced"
	}
	mine, base := j.cost[w.title+pause.String()], j.cost[judgings[0].title+pause.String()]
	var ratios, cpu, objects []float64
	for i := range mine {
		ratios = append(ratios, mine[i].cpu/base[i].cpu)
		cpu, objects = append(cpu, mine[i].cpu), append(objects, mine[i].mallocs)
	}
	ratio, span, aim, met := "", "", "", ""
	if compared {
		ratio, span = fmt.Sprintf("**%.2f**", quantile(ratios, 0.5)), fmt.Sprintf("%.2f–%.2f", slices.Min(ratios), slices.Max(ratios))
		b.ReportMetric(quantile(ratios, 0.5), fmt.Sprintf("%s-%s-x", w.short(), name))
	}
	if w.aim > 0 && pause > 0 {
		aim, met = fmt.Sprintf("≤ %.1f", w.aim), "yes"
		if quantile(ratios, 0.5) > w.aim {
			met = "no"
		}
	}
	fmt.Fprintf(t, "| %s | %s | %s | %s | %.1f | %.2f | %s | %s |\n", w.title, how, ratio, span, quantile(cpu, 0.5), quantile(objects, 0.5), aim, met)
}

// short names a row in a metric.
func (w judging) short() string {
	switch {
	case !w.checked:
		return "judged"
	case w.route == headRoute:
		return "head-checked"
	}
	return "whole-checked"
}

// profile writes CPU profiles of the gateway: relayed and judged, paced and at once.
func (j *judgeBench) profile(b *testing.B, dir string) {
	b.Helper()
	const seconds = 5
	for i, w := range judgings[:2] {
		for k, pause := range []time.Duration{j.pause, 0} {
			l := load{exchangeOf: j.exchange(w, pause), lasts: (seconds + 1) * time.Second, most: 1 << 20}
			done := make(chan error, 1)
			go func() {
				_, err := j.own.apply(l)
				done <- err
			}()
			text := j.own.get(b, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds))
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			name := filepath.Join(dir, fmt.Sprintf("judge-%d-%d.pprof", i, k))
			if err := os.WriteFile(name, text, 0o600); err != nil {
				b.Fatal(err)
			}
			b.Logf("%s: %s, pause %v", name, w.title, pause)
		}
	}
}
