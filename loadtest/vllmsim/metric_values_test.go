package vllmsim

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// toy is a profile to reckon with: a step takes 10 ms, and 1 ms for each prompt token and 2 ms for each sequence that
// decodes in it.
func toy(blocks, seats int) Profile {
	return Profile{Blocks: blocks, MaxBatchedTokens: 64, MaxSeqs: seats, Base: 10e-3, PerPrefillToken: 1e-3, PerSeq: 2e-3}
}

// bench is an engine with its metrics and no server around it.
type bench struct {
	*engine
	t      *testing.T
	model  *Model
	start  time.Time
	begins func() // lets the engine run, at the first wait: what is asked before comes in one step; nil: it runs
}

func newBench(t *testing.T, p *Profile) *bench {
	t.Helper()
	o, _, err := Options{Model: "m"}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{engine: newEngine(NewScheduler(*p, SchedulerOptions{}), 1, newMetrics(&o, p)), t: t, model: NewModel(1, 0), start: time.Now()}
}

// ask submits one prompt with one choice for each limit of tokens.
func (b *bench) ask(prompt []int32, limits ...int) []*job {
	b.t.Helper()
	var jobs []*job
	for i, limit := range limits {
		g := newGenerator(b.model, prompt, &genSpec{maxTokens: limit, ignoreEOS: true, logprobs: none}, i)
		jobs = append(jobs, &job{seq: &Seq{Prompt: prompt, Source: g}, gen: g, box: newMailbox()})
	}
	b.add(jobs)
	return jobs
}

// at lets the bubble's time pass up to d after the start.
func (b *bench) at(d time.Duration) {
	if b.begins != nil {
		b.begins()
		b.begins = nil
	}
	time.Sleep(time.Until(b.start.Add(d)))
	synctest.Wait()
}

// values are the engine's series, without what every one of them has: the namespace, the labels of the model. Buckets and
// times of birth are left out, and so are those that are 0.
func (b *bench) values() map[string]float64 {
	b.t.Helper()
	page, err := b.met.expose()
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(page)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "vllm:")
		if !ok || strings.Contains(name, "_bucket{") || strings.Contains(name, "_created{") ||
			strings.HasPrefix(name, "cache_config") {
			continue
		}
		name, text, _ := strings.Cut(name, "} ")
		name, labels, _ := strings.Cut(name, "{")
		for label := range strings.SplitSeq(labels, ",") {
			if !strings.HasPrefix(label, "engine=") && !strings.HasPrefix(label, "model_name=") {
				name += "/" + strings.Trim(label[strings.IndexByte(label, '=')+1:], `"`)
			}
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			b.t.Fatal(err)
		}
		if v != 0 {
			out[name] = v
		}
	}
	return out
}

// shows compares every value that is not 0.
func (b *bench) shows(what string, want map[string]float64) {
	b.t.Helper()
	if d := cmp.Diff(want, b.values(), cmpopts.EquateApprox(0, 1e-6)); d != "" {
		b.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// level compares those named.
func (b *bench) level(what string, want map[string]float64) {
	b.t.Helper()
	all := b.values()
	for name, v := range want {
		if got := all[name]; got < v-1e-9 || got > v+1e-9 {
			b.t.Errorf("%s: %s is %g, not %g", what, name, got, v)
		}
	}
}

func histogram(m map[string]float64, name string, count, sum float64) {
	m[name+"_count"], m[name+"_sum"] = count, sum
}

func ids(from, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(from + i)
	}
	return out
}

// running runs the engine in a bubble.
func running(t *testing.T, p Profile, history func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &p)
		ctx, cancel := context.WithCancel(t.Context())
		b.begins = func() { go b.run(ctx) }
		history(b)
		cancel()
		synctest.Wait()
	})
}

// Two seats. A (33 tokens in, 3 out) comes at 0, and at 20 ms B and C, two choices (4 and 2 out) for the same prompt, of
// which 32 tokens are cached by then.
//
//	step  from  to   cost                  A    B    C
//	1       0   43   10 + 33               1
//	2      43   56   10 + 1 prompt + 2     2    1
//	3      56   70   10 + 2*2              3    2
//	4      70   83   10 + 2 + 1 prompt          3    1
//	5      83   97   10 + 2*2                   4    2
func queueAndCache(b *bench) {
	prompt := ids(300, 33)
	b.ask(prompt, 3)
	b.at(20 * time.Millisecond)
	b.ask(prompt, 4, 2)
	b.at(60 * time.Millisecond)
}

// Times of A, B and C, in seconds; B and C have waited for a seat.
var (
	ttft    = .043 + .036 + .063
	decoded = .027 + .041 + .014
)

// common is what both generations show of them in the end.
func common() map[string]float64 {
	m := map[string]float64{"prompt_tokens_total": 99, "generation_tokens_total": 9}
	histogram(m, "iteration_tokens_total", 5, 33+2+2+2+2)
	histogram(m, "time_to_first_token_seconds", 3, ttft)
	return m
}

func TestMetricsOfAQueueAndACacheAddUp(t *testing.T) {
	running(t, toy(20, 2), func(b *bench) {
		queueAndCache(b)
		// After step 2: A has 34 tokens in 3 blocks, B shares two of them, C has no seat.
		b.level("in step 3", map[string]float64{"num_requests_running": 2, "num_requests_waiting": 1,
			"kv_cache_usage_perc": 4. / 19})
		b.at(time.Second)
		want := common()
		maps.Copy(want, map[string]float64{"prefix_cache_queries_total": 99, "prefix_cache_hits_total": 64})
		histogram(want, "inter_token_latency_seconds", 6, decoded)
		b.shows("in the end", want)
	})
}

// Four blocks. A (30 in, 10 out) and B (15 in, many out) fill them; in step 4 A needs a third, and B gives way. It comes
// back when A is done, with the first block of its own still cached, and its client leaves in the step after.
//
//	step  from  to   cost             A    B
//	1       0   55   10 + 45          1    1
//	2, 3   55   83   2 * (10 + 2*2)   3    3
//	4      83   95   10 + 2           4    preempted
//	5-10   95  167   6 * (10 + 2)     10
//	11    167  179   10 + 2 prompt         4
//	12    179  191   10 + 2                gone at 185
func TestMetricsOfAPreemptionAndADisconnectAddUp(t *testing.T) {
	running(t, toy(5, 8), func(b *bench) {
		b.ask(ids(300, 30), 10)
		gone := b.ask(ids(400, 15), 40)
		b.at(90 * time.Millisecond)
		b.level("in step 4", map[string]float64{"num_requests_running": 2, "num_requests_waiting": 0, "kv_cache_usage_perc": 1, "num_preemptions_total": 0})
		b.at(100 * time.Millisecond)
		b.level("in step 5", map[string]float64{"num_requests_running": 1, "num_requests_waiting": 1, "kv_cache_usage_perc": .75, "num_preemptions_total": 1})
		b.at(185 * time.Millisecond)
		b.level("in step 12", map[string]float64{"num_requests_running": 1, "num_requests_waiting": 0, "kv_cache_usage_perc": .5})
		b.abort(gone)
		b.level("until it ends", map[string]float64{"num_requests_running": 1})
		b.at(time.Second)
		want := map[string]float64{"prompt_tokens_total": 45, "generation_tokens_total": 14, "num_preemptions_total": 1,
			"prefix_cache_queries_total": 45} // a readmission is no hit
		histogram(want, "iteration_tokens_total", 12, 45+2+2+1+6+2+1)
		histogram(want, "time_to_first_token_seconds", 2, .055+.055)
		histogram(want, "inter_token_latency_seconds", 9+3, .112+(.179-.055))
		b.shows("in the end", want)
	})
}
