package pressure

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/foregate/foregate/tiers/dialect"
)

// Bounds of the values in an exposition. They are far above any real server and keep sums and products of
// readings finite.
const (
	maxBody     = 4 << 20          // bytes of an exposition
	maxEngines  = 1024             // behind one URL
	maxRequests = 1_000_000        // running or waiting in one engine
	maxCounter  = 1e18             // of one series
	maxBlock    = 1 << 16          // tokens per KV block
	maxBlocks   = 1 << 30          // KV blocks of one engine
	maxOld      = 10 * time.Second // age of an explicit timestamp
)

// assumedBlock is the block size, in tokens, of engines that tell their KV memory in tokens.
const assumedBlock = 16

// exposition is one answer of /metrics.
type exposition struct {
	names    *dialect.Metrics
	now      time.Time
	families map[string]*dto.MetricFamily
	bad      map[string]error // by the label of an engine that tells a value out of range, or an old one: it is left out
	err      error            // why there is no reading
}

// parse parses one exposition of /metrics with these names, in the Prometheus text format. After an error nothing of it
// may be used. A missing KV usage is an error, or missing requests for engines that tell no usage. Other values may be
// absent and are 0 then.
func parse(r io.Reader, names *dialect.Metrics, now time.Time) (Reading, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	switch {
	case err != nil:
		return Reading{}, err
	case len(body) > maxBody:
		return Reading{}, fmt.Errorf("exposition is larger than %d bytes", maxBody)
	case len(body) > 0 && body[len(body)-1] != '\n':
		return Reading{}, errors.New("the exposition's last line is cut")
	}
	// The zero TextParser panics, so the constructor is needed. It returns what it read before an error; that
	// is dropped.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(wanted(body, names)))
	if err != nil {
		return Reading{}, err
	}
	e := exposition{names: names, now: now, families: families, bad: map[string]error{}}
	out := e.reading()
	if err := cmp.Or(e.err, out.Check()); err != nil {
		return Reading{}, err
	}
	return out, nil
}

// wanted returns the lines of the families that are read, in the memory of body: parsing the rest of vLLM's would be half of
// the work of an idle replica.
func wanted(body []byte, names *dialect.Metrics) []byte {
	all := slices.Concat(names.Usage, names.Running, names.Waiting, names.PromptTokens, names.GenerationTokens,
		names.PrefixQueries, names.PrefixHits, names.Preemptions, names.Iterations)
	all = append(all, names.Tokens, names.CacheInfo)
	kept := body[:0]
	for line := range bytes.Lines(body) {
		name := bytes.TrimPrefix(line, []byte("# TYPE "))
		if slices.ContainsFunc(all, func(n string) bool { return n != "" && len(name) > len(n) && string(name[:len(n)]) == n }) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// reading reads all values; it sets e.err if there is no reading.
func (e *exposition) reading() Reading {
	n, out := e.names, Reading{At: e.now}
	usage, running, waiting := e.read(n.Usage, 1), e.read(n.Running, maxRequests), e.read(n.Waiting, maxRequests)
	prompts, generated := e.read(n.PromptTokens, maxCounter), e.read(n.GenerationTokens, maxCounter)
	queries, hits := e.read(n.PrefixQueries, maxCounter), e.read(n.PrefixHits, maxCounter)
	preempted, steps := e.read(n.Preemptions, maxCounter), e.read(n.Iterations, maxCounter)

	fullest := ""
	switch {
	case len(n.Usage) > 0:
		fullest = e.fullest(&out, usage)
	case running == nil:
		e.fail(fmt.Errorf("no requests (%s)", strings.Join(n.Running, " or ")))
	default:
		out.NoUsage, out.Engines = true, 1
	}
	out.BlockSize, out.Blocks = e.capacity(fullest)
	out.Running, out.Waiting = int(e.sum(running)), int(e.sum(waiting))
	out.PromptTokens, out.GenerationTokens = e.sum(prompts), e.sum(generated)
	out.PrefixQueries, out.PrefixHits = e.sum(queries), e.sum(hits)
	out.Preemptions, out.Iterations = e.sum(preempted), e.sum(steps)
	return out
}

func (e *exposition) fail(err error) { e.err = cmp.Or(e.err, err) }

// read returns the values of the first of these families that is exposed, by the engine's label; nil: none is. An engine
// with a value outside of 0..limit, or an old one, is bad; without a label there is no reading. Families with a limit below
// maxCounter must be gauges. vLLM sends no timestamps; a proxy that replays an exposition may.
func (e *exposition) read(names []string, limit float64) (told map[string]float64) {
	var fam *dto.MetricFamily
	for _, name := range names {
		fam = cmp.Or(fam, e.families[name])
	}
	if fam == nil {
		return nil
	}
	told = map[string]float64{}
	fam.Metric = e.firsts(fam.Metric)
	for _, m := range fam.Metric {
		rank, v, age := label(m, e.names.Rank), value(m), e.now.Sub(time.UnixMilli(m.GetTimestampMs()))
		var err error
		switch {
		case limit < maxCounter && !isGauge(m):
			e.fail(fmt.Errorf("%s is a %s, not a gauge", fam.GetName(), fam.GetType()))
		case !(v >= 0 && v <= limit): // every comparison with NaN is false
			err = fmt.Errorf("%s is %v, not within 0..%g", fam.GetName(), v, limit)
		case m.TimestampMs != nil && age > maxOld:
			err = fmt.Errorf("%s is %s old", fam.GetName(), age.Round(time.Second))
		}
		if err != nil && rank == "" {
			e.fail(err)
		} else if err != nil {
			e.bad[rank] = err
		}
		if limit == 1 { // shares are not added
			told[rank] = max(v, told[rank])
		} else {
			told[rank] += v
		}
	}
	return told
}

// firsts drops the series of all but the first part of each engine: several parts tell the same.
func (e *exposition) firsts(all []*dto.Metric) []*dto.Metric {
	for _, part := range e.names.Parts {
		lowest := map[string]int{} // by the engine's label
		for _, m := range all {
			if n, err := strconv.Atoi(label(m, part)); err == nil {
				engine := label(m, e.names.Rank)
				if least, seen := lowest[engine]; !seen || n < least {
					lowest[engine] = n
				}
			}
		}
		all = slices.DeleteFunc(all, func(m *dto.Metric) bool {
			n, err := strconv.Atoi(label(m, part))
			return err == nil && n > lowest[label(m, e.names.Rank)]
		})
	}
	return all
}

// sum sums what the engines tell that are not bad.
func (e *exposition) sum(told map[string]float64) (total float64) {
	for rank, v := range told {
		if e.bad[rank] == nil {
			total += v
		}
	}
	return total
}

// fullest sets the KV usage of the fullest engine and the number of engines, and returns that engine's label.
func (e *exposition) fullest(r *Reading, usage map[string]float64) (engine string) {
	if usage == nil {
		e.fail(fmt.Errorf("no KV usage (%s)", strings.Join(e.names.Usage, " or ")))
	}
	var why error
	for rank, v := range usage {
		if err := e.bad[rank]; err != nil {
			why = err
			continue
		}
		if r.Engines == 0 || v > r.KVUsage || v == r.KVUsage && rank < engine {
			r.KVUsage, engine = v, rank
		}
		r.Engines++
	}
	if r.Engines == 0 && why != nil {
		e.fail(why)
	}
	return engine
}

// capacity returns block size and number of blocks of an engine, or if only one engine has them, of that one: from the
// labels of a series, or from a gauge of tokens. Missing or absurd values stay unknown: the KV usage is useful without
// them.
func (e *exposition) capacity(engine string) (size, blocks int) {
	series := e.firsts(e.families[cmp.Or(e.names.Tokens, e.names.CacheInfo)].GetMetric())
	series = slices.DeleteFunc(series, func(m *dto.Metric) bool { return e.bad[label(m, e.names.Rank)] != nil })
	at := slices.IndexFunc(series, func(m *dto.Metric) bool { return label(m, e.names.Rank) == engine || len(series) == 1 })
	if at < 0 {
		return 0, 0
	}
	m := series[at]
	if e.names.Tokens != "" {
		if v := value(m); isGauge(m) && v >= 1 && v < assumedBlock*maxBlocks {
			return assumedBlock, int(v)/assumedBlock + 1
		}
		return 0, 0
	}
	size, blocks = number(m, "block_size", maxBlock), number(m, "num_gpu_blocks", maxBlocks)
	if size == 0 {
		return 0, 0
	}
	// Hybrid models share blocks between kinds of layers, so that blocks × size is too high; newer servers report the
	// tokens themselves.
	if tokens := number(m, "kv_cache_size_tokens", maxBlock*maxBlocks); tokens > 0 {
		blocks = min(tokens/size, maxBlocks)
	}
	return size, blocks
}

// isGauge reports whether a series is a gauge, or of no type.
func isGauge(m *dto.Metric) bool { return m.Gauge != nil || m.Untyped != nil }

// value is the value of a gauge or counter, or the number of events of a histogram.
func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Histogram != nil:
		return max(float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleCountFloat())
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	case m.Untyped != nil:
		return m.GetUntyped().GetValue()
	default:
		return math.NaN()
	}
}

// number is a label's value if it is an integer within 1..limit, else 0.
func number(m *dto.Metric, name string, limit int) int {
	n, err := strconv.Atoi(label(m, name))
	if err != nil || n < 1 || n > limit {
		return 0
	}
	return n
}

// label is the value of a series' label, "" without it.
func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
