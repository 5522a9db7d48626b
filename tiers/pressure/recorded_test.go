package pressure

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
)

func TestRecordedMetricsAreRead(t *testing.T) {
	for kind, families := range map[dialect.Kind]map[string]func(Reading) float64{
		dialect.VLLM: {
			"vllm:num_requests_running{": func(r Reading) float64 { return float64(r.Running) }, "vllm:num_requests_waiting{": func(r Reading) float64 { return float64(r.Waiting) },
			"vllm:kv_cache_usage_perc{": func(r Reading) float64 { return r.KVUsage }, "vllm:prompt_tokens_total{": func(r Reading) float64 { return r.PromptTokens },
			"vllm:generation_tokens_total{": func(r Reading) float64 { return r.GenerationTokens }, "vllm:prefix_cache_queries_total{": func(r Reading) float64 { return r.PrefixQueries },
			"vllm:prefix_cache_hits_total{": func(r Reading) float64 { return r.PrefixHits }, "vllm:iteration_tokens_total_count{": func(r Reading) float64 { return r.Iterations },
		},
		dialect.LlamaCpp: {
			"llamacpp:requests_processing ": func(r Reading) float64 { return float64(r.Running) }, "llamacpp:requests_deferred ": func(r Reading) float64 { return float64(r.Waiting) },
			"llamacpp:prompt_tokens_total ": func(r Reading) float64 { return r.PromptTokens }, "llamacpp:tokens_predicted_total ": func(r Reading) float64 { return r.GenerationTokens },
			"llamacpp:n_decode_total ": func(r Reading) float64 { return r.Iterations },
		},
	} {
		files, err := filepath.Glob("../../testdata/wire/" + string(kind) + "-*/metrics.txt")
		if err != nil || len(files) == 0 {
			t.Fatal(err, "no recordings")
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, page, _ := strings.Cut(string(text), "# HELP")
			r, err := parse(strings.NewReader("# HELP"+page), &dialect.Of(kind).Load.Metrics, time.Now())
			if err != nil {
				t.Fatal(file, err)
			}
			for family, read := range families {
				_, value, ok := strings.Cut(page, "\n"+family)
				value, _, _ = strings.Cut(value, "\n")
				want, err := strconv.ParseFloat(value[strings.LastIndexByte(value, ' ')+1:], 64)
				if got := read(r); !ok || err != nil || got != want {
					t.Errorf("%s: %s is %v, read as %v (%v)", file, family, want, got, err)
				}
			}
			if kind == dialect.VLLM && (r.BlockSize != 128 || r.Blocks < 100 || r.Iterations == 0) {
				t.Errorf("%s: %+v", file, r)
			}
		}
	}
}
