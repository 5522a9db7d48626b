package pressure

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

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

// exposition says how one is read.
type exposition struct {
	names *dialect.Metrics
	now   time.Time
}

// parse parses one exposition of /metrics with these names, in the Prometheus text format. After an error nothing of it
// may be used. A missing KV usage is an error, or missing requests for engines that tell no usage. Other values may be
// absent and are 0 then.
func parse(r io.Reader, e exposition) (Reading, error) {
	body, err := io.ReadAll(&capped{r: r, remaining: maxBody})
	switch {
	case err != nil:
		return Reading{}, err
	case len(body) > 0 && body[len(body)-1] != '\n':
		return Reading{}, errors.New("the exposition's last line is cut")
	}
	// The zero TextParser panics, so the constructor is needed. It returns what it read before an error; that
	// is dropped.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	fams, err := parser.TextToMetricFamilies(bytes.NewReader(wanted(body, e.names)))
	if err != nil {
		return Reading{}, err
	}
	keepFirsts(fams, e.names)
	if err := dropRanks(fams, e); err != nil {
		return Reading{}, err
	}
	return reading(fams, e.names, e.now)
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

// reading extracts a Reading from families whose values are in range.
func reading(fams families, names *dialect.Metrics, now time.Time) (Reading, error) {
	out := Reading{At: now}
	fullest, err := out.addUsage(fams, names)
	if err != nil {
		return Reading{}, err
	}
	out.Running, out.Waiting = int(sum(first(fams, names.Running))), int(sum(first(fams, names.Waiting)))
	out.addCapacity(fams, names, fullest)
	out.PromptTokens, out.GenerationTokens = sum(first(fams, names.PromptTokens)), sum(first(fams, names.GenerationTokens))
	out.PrefixQueries, out.PrefixHits = sum(first(fams, names.PrefixQueries)), sum(first(fams, names.PrefixHits))
	out.Preemptions, out.Iterations = sum(first(fams, names.Preemptions)), sum(first(fams, names.Iterations))
	if err := out.Check(); err != nil {
		return Reading{}, err
	}
	return out, nil
}

// addUsage finds the KV usage of the fullest engine and returns that engine's label.
func (r *Reading) addUsage(fams families, names *dialect.Metrics) (fullest string, err error) {
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
		v, name := value(m), label(m, names.Rank)
		engines[name] = true
		if v > r.KVUsage {
			r.KVUsage, fullest = v, name
		}
	}
	r.Engines = len(engines)
	r.KVUsage = max(r.KVUsage, 0) // −0, too
	return fullest, nil
}

// addCapacity reads block size and number of blocks of the fullest engine, or if only one engine has them, of that
// one: from the labels of a series, or from a gauge of tokens. Missing or absurd values stay unknown: the KV usage is
// useful without them.
func (r *Reading) addCapacity(fams families, names *dialect.Metrics, engine string) {
	if fam := fams[names.Tokens]; fam != nil {
		for _, m := range fam.GetMetric() {
			v := value(m)
			if rank := label(m, names.Rank); !counts(m) && v >= 1 && v < assumedBlock*maxBlocks && (rank == engine || len(fam.GetMetric()) == 1) {
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
