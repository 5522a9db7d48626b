package pressure

import (
	"fmt"
	"io"
	"math"
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
	maxRequests = 1_000_000        // running or waiting in one engine
	maxCounter  = 1e18             // of one series
	maxBlock    = 1 << 16          // tokens per KV block
	maxBlocks   = 1 << 30          // KV blocks of one engine
	maxOld      = 10 * time.Second // age of an explicit timestamp
)

// exposition says how one is read.
type exposition struct {
	names *dialect.Metrics
	now   time.Time
}

// parse parses one exposition of /metrics with these names, in the Prometheus text format. After an error nothing of it
// may be used. A missing KV usage is an error, or missing requests for engines that tell no usage. Other values may be
// absent and are 0 then.
func parse(r io.Reader, e exposition) (Reading, error) {
	// The zero TextParser panics, so the constructor is needed. It returns what it read before an error; that
	// is dropped.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	fams, err := parser.TextToMetricFamilies(&capped{r: r, remaining: maxBody})
	if err != nil {
		return Reading{}, err
	}
	keepFirsts(fams, e.names)
	return reading(fams, e)
}

// capped fails if more than left bytes were read, so that a truncated body does not pass for a complete one.
type capped struct {
	r         io.Reader
	remaining int
}

func (c *capped) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	if c.remaining -= n; c.remaining < 0 {
		return 0, fmt.Errorf("exposition is larger than %d bytes", maxBody)
	}
	return n, err
}

// reading extracts a Reading from the families.
func reading(fams families, e exposition) (Reading, error) {
	out, names := Reading{At: e.now}, e.names
	fullest, err := out.addUsage(fams, e)
	if err != nil {
		return Reading{}, err
	}
	if out.Running, err = requests(first(fams, names.Running)); err != nil {
		return Reading{}, err
	}
	if out.Waiting, err = requests(first(fams, names.Waiting)); err != nil {
		return Reading{}, err
	}
	out.addCapacity(fams, names, fullest)
	if err := out.addCounters(fams, names); err != nil {
		return Reading{}, err
	}
	return out, nil
}

// addUsage finds the KV usage of the fullest engine and returns that engine's label.
func (r *Reading) addUsage(fams families, e exposition) (fullest string, err error) {
	names := e.names
	if len(names.Usage) == 0 {
		if first(fams, names.Running) == nil {
			return "", fmt.Errorf("no requests (%s)", strings.Join(names.Running, " or "))
		}
		r.NoUsage, r.Engines = true, 1
		return "", nil
	}
	fam := first(fams, names.Usage)
	if fam == nil {
		return "", fmt.Errorf("no KV usage (%s)", strings.Join(names.Usage, " or "))
	}
	engines := map[string]bool{}
	r.KVUsage = -1
	for _, m := range fam.GetMetric() {
		v, err := gauge(fam, m)
		if err != nil {
			return "", err
		}
		if !within(v, 1) {
			return "", fmt.Errorf("%s is %v, not within 0..1", fam.GetName(), v)
		}
		if err := recent(fam, m, e.now); err != nil {
			return "", err
		}
		name := label(m, names.Rank)
		engines[name] = true
		if v > r.KVUsage {
			r.KVUsage, fullest = v, name
		}
	}
	r.Engines = len(engines)
	r.KVUsage = max(r.KVUsage, 0) // −0, too
	return fullest, nil
}

// recent refuses a sample with an old explicit timestamp. vLLM sends no timestamps; a proxy that replays an
// exposition may.
func recent(fam *dto.MetricFamily, m *dto.Metric, now time.Time) error {
	if m.TimestampMs == nil {
		return nil
	}
	if age := now.Sub(time.UnixMilli(m.GetTimestampMs())); age > maxOld {
		return fmt.Errorf("%s is %s old", fam.GetName(), age.Round(time.Second))
	}
	return nil
}

// within reports whether v is a number within 0..limit. The condition is positive because every comparison
// with NaN is false.
func within(v, limit float64) bool { return v >= 0 && v <= limit }

// requests sums a count of requests over the engines.
func requests(fam *dto.MetricFamily) (int, error) {
	sum := 0
	for _, m := range fam.GetMetric() {
		v, err := gauge(fam, m)
		if err != nil {
			return 0, err
		}
		if !within(v, maxRequests) {
			return 0, fmt.Errorf("%s is %v, not within 0..%d", fam.GetName(), v, maxRequests)
		}
		sum += int(v)
	}
	return sum, nil
}

// addCounters reads the counters.
func (r *Reading) addCounters(fams families, names *dialect.Metrics) error {
	for _, c := range []struct {
		into  *float64
		names []string
	}{
		{&r.PromptTokens, names.PromptTokens},
		{&r.GenerationTokens, names.GenerationTokens},
		{&r.PrefixQueries, names.PrefixQueries},
		{&r.PrefixHits, names.PrefixHits},
		{&r.Preemptions, names.Preemptions},
		{&r.Iterations, names.Iterations},
	} {
		v, err := counter(first(fams, c.names))
		if err != nil {
			return err
		}
		*c.into = v
	}
	return nil
}

// counter sums a counter over the engines.
func counter(fam *dto.MetricFamily) (float64, error) {
	sum := 0.0
	for _, m := range fam.GetMetric() {
		v := count(m)
		if !within(v, maxCounter) {
			return 0, fmt.Errorf("%s is %v, not within 0..%g", fam.GetName(), v, maxCounter)
		}
		sum += v
	}
	return sum, nil
}

// count is the number of events, for any metric type.
func count(m *dto.Metric) float64 {
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

// addCapacity reads block size and number of blocks of the fullest engine, or if only one engine has them, of that
// one: from the labels of a series, or from a gauge of tokens. Missing or absurd values stay unknown: the KV usage is
// useful without them.
func (r *Reading) addCapacity(fams families, names *dialect.Metrics, engine string) {
	if fam := fams[names.Tokens]; fam != nil {
		for _, m := range fam.GetMetric() {
			v, err := gauge(fam, m)
			if rank := label(m, names.Rank); err == nil && v >= 1 && v < assumedBlock*maxBlocks && (rank == engine || len(fam.GetMetric()) == 1) {
				r.BlockSize, r.Blocks = assumedBlock, int(v)/assumedBlock+1
			}
		}
		return
	}
	series := fams[names.CacheInfo].GetMetric()
	for _, m := range series {
		if name := label(m, names.Rank); name != engine && len(series) > 1 {
			continue
		}
		size, blocks := number(m, "block_size", maxBlock), number(m, "num_gpu_blocks", maxBlocks)
		if size == 0 {
			return
		}
		// Hybrid models share blocks between kinds of layers, so that blocks × size is too high; newer
		// servers report the tokens themselves.
		if tokens := number(m, "kv_cache_size_tokens", maxBlock*maxBlocks); tokens > 0 {
			blocks = min(tokens/size, maxBlocks)
		}
		r.BlockSize, r.Blocks = size, blocks
		return
	}
}

// assumedBlock is the block size, in tokens, of engines that tell their KV memory in tokens.
const assumedBlock = 16
