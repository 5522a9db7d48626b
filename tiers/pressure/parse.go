package pressure

import (
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Bounds of the values in an exposition. They are far above any real server and keep sums and products of
// readings finite.
const (
	maxRequests = 1_000_000        // running or waiting in one engine
	maxCounter  = 1e18             // of one series
	maxBlock    = 1 << 16          // tokens per KV block
	maxBlocks   = 1 << 30          // KV blocks of one engine
	maxOld      = 10 * time.Second // age of an explicit timestamp
)

// Parse parses one exposition of /metrics, of vLLM's V1 or V0 engine, in the Prometheus text format or
// OpenMetrics by its content type (an unknown or empty one is read as text). At is set to now. After an error
// nothing of it may be used. A missing KV usage is an error. Running, waiting and counters may be absent and
// are 0 then.
func Parse(r io.Reader, contentType string) (Reading, error) {
	return parse(r, contentType, time.Now())
}

func parse(r io.Reader, contentType string, now time.Time) (Reading, error) {
	limited := &capped{r: r, remaining: maxBody}
	var in io.Reader = limited
	if mediatype, _, err := mime.ParseMediaType(contentType); err == nil && mediatype == openMetrics {
		text, err := fromOpenMetrics(limited)
		if err != nil {
			return Reading{}, fmt.Errorf("openmetrics: %w", err)
		}
		in = text
	}
	// The zero TextParser panics, so the constructor is needed. It returns what it read before an error; that
	// is dropped.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	fams, err := parser.TextToMetricFamilies(in)
	if err != nil {
		return Reading{}, err
	}
	return reading(fams, now)
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
func reading(fams families, now time.Time) (Reading, error) {
	out := Reading{At: now}
	fullest, err := out.addUsage(fams, now)
	if err != nil {
		return Reading{}, err
	}
	if out.Running, err = requests(fams, "vllm:num_requests_running"); err != nil {
		return Reading{}, err
	}
	if out.Waiting, err = requests(fams, "vllm:num_requests_waiting"); err != nil {
		return Reading{}, err
	}
	out.addRanks(fams)
	out.addCapacity(fams["vllm:cache_config_info"], fullest)
	if err := out.addCounters(fams); err != nil {
		return Reading{}, err
	}
	return out, nil
}

// addUsage finds the KV usage of the fullest engine and returns that engine's label. If both names are
// exposed (v0.9.2–v0.10.0) the newer one counts.
func (r *Reading) addUsage(fams families, now time.Time) (engine string, err error) {
	r.Generation = "v1"
	fam := fams["vllm:kv_cache_usage_perc"]
	if fam == nil {
		fam = fams["vllm:gpu_cache_usage_perc"]
		r.Generation = "v0" // unless there is an engine label
	}
	if fam == nil {
		return "", errors.New("no KV usage (vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc)")
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
		if err := recent(fam, m, now); err != nil {
			return "", err
		}
		name, has := label(m, "engine")
		if has {
			r.Generation = "v1"
		}
		engines[name] = true
		if v > r.KVUsage {
			r.KVUsage, engine = v, name
		}
	}
	r.Engines = len(engines)
	r.KVUsage = max(r.KVUsage, 0) // −0, too
	return engine, nil
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
func requests(fams families, name string) (int, error) {
	fam, sum := fams[name], 0
	for _, m := range fam.GetMetric() {
		v, err := gauge(fam, m)
		if err != nil {
			return 0, err
		}
		if !within(v, maxRequests) {
			return 0, fmt.Errorf("%s is %v, not within 0..%d", name, v, maxRequests)
		}
		sum += int(v)
	}
	return sum, nil
}

// addCounters reads the counters. Each has several names: Python's client appends _total, some exporters do
// not, and the prefix cache's counters were named after the GPU up to v0.9.1.
func (r *Reading) addCounters(fams families) error {
	for _, c := range []struct {
		into  *float64
		names []string
	}{
		{&r.PromptTokens, []string{"vllm:prompt_tokens_total", "vllm:prompt_tokens"}},
		{&r.GenerationTokens, []string{"vllm:generation_tokens_total", "vllm:generation_tokens"}},
		{&r.PrefixQueries, []string{"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries",
			"vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries"}},
		{&r.PrefixHits, []string{"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits",
			"vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits"}},
		{&r.Preemptions, []string{"vllm:num_preemptions_total", "vllm:num_preemptions"}},
		// A histogram: its count is the number of engine steps.
		{&r.Iterations, []string{"vllm:iteration_tokens_total", "vllm:iteration_tokens_total_count"}},
	} {
		v, err := counter(fams, c.names)
		if err != nil {
			return err
		}
		*c.into = v
	}
	return nil
}

// counter sums the first of the families that exists over the engines.
func counter(fams families, names []string) (float64, error) {
	for _, name := range names {
		fam, sum := fams[name], 0.0
		if fam == nil {
			continue
		}
		for _, m := range fam.GetMetric() {
			v := count(m)
			if !within(v, maxCounter) {
				return 0, fmt.Errorf("%s is %v, not within 0..%g", name, v, maxCounter)
			}
			sum += v
		}
		return sum, nil
	}
	return 0, nil
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

// addCapacity reads block size and number of blocks from the labels of cache_config_info, of the fullest
// engine, or if only one engine has them, of that one. Missing or absurd values stay unknown: the KV usage is
// useful without them.
func (r *Reading) addCapacity(info *dto.MetricFamily, engine string) {
	series := info.GetMetric()
	for _, m := range series {
		if name, _ := label(m, "engine"); name != engine && len(series) > 1 {
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
