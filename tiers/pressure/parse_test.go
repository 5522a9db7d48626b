package pressure

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/dialect"
)

const (
	textType = "text/plain; version=0.0.4; charset=utf-8"
	openType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// names are those of an engine's metrics.
func names(engine dialect.Kind) *dialect.Metrics { return &dialect.Of(engine).Load.Metrics }

func TestMetricsOfAnotherEngineAreNoReading(t *testing.T) {
	for _, file := range []string{"v1.txt", "sglang.txt", "llamacpp.txt"} {
		read := 0
		for _, engine := range []dialect.Kind{dialect.VLLM, dialect.SGLang, dialect.LlamaCpp} {
			if _, err := Parse(bytes.NewReader(sample(t, file)), textType, names(engine)); err == nil {
				read++
			}
		}
		if read != 1 {
			t.Errorf("%s is a reading of %d engines", file, read)
		}
	}
}

func TestEachEngineAndFormatGivesItsReading(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		file, contentType string
		engine            dialect.Kind
		want              Reading
	}{
		{"v1.txt", textType, dialect.VLLM, Reading{
			KVUsage: 0.6134969325153374, Running: 37, Waiting: 4, Engines: 1, BlockSize: 16, Blocks: 28130,
			PromptTokens: 18431002, GenerationTokens: 933120, PrefixQueries: 18422331, PrefixHits: 7110032,
			Preemptions: 12, Iterations: 58221, Generation: "v1",
		}},
		{"v1_early.txt", "", dialect.VLLM, Reading{
			KVUsage: 0.03125, Running: 2, Engines: 1, PrefixQueries: 512, PrefixHits: 128, Generation: "v1", BlockSize: 16,
		}},
		{"v0.txt", textType, dialect.VLLM, Reading{
			KVUsage: 0.6135, Running: 37, Waiting: 4, Engines: 1, BlockSize: 16, Blocks: 27800,
			PromptTokens: 1234567, GenerationTokens: 88123, Preemptions: 12, Generation: "v0",
		}},
		{"dp.txt", textType, dialect.VLLM, Reading{
			KVUsage: 0.75, Running: 30, Waiting: 3, Engines: 2, BlockSize: 32, Blocks: 2000,
			GenerationTokens: 300, Generation: "v1",
			Ranks: []Rank{{KVUsage: 0.25, Running: 10}, {KVUsage: 0.75, Running: 20, Waiting: 3}},
		}},
		{"openmetrics.txt", openType, dialect.VLLM, Reading{
			KVUsage: 0.5, Running: 1, Waiting: 2, Engines: 1, PromptTokens: 77, Iterations: 9, Generation: "v1",
		}},
		{"sglang.txt", textType, dialect.SGLang, Reading{
			KVUsage: 0.5, Running: 8, Waiting: 2, Engines: 2, BlockSize: 16, Blocks: 16385,
			PromptTokens: 128201, GenerationTokens: 7557, PrefixQueries: 128201, PrefixHits: 96000,
			Ranks: []Rank{{KVUsage: 0.25, Running: 3}, {KVUsage: 0.5, Running: 5, Waiting: 2}},
		}},
		{"llamacpp.txt", textType, dialect.LlamaCpp, Reading{
			NoUsage: true, Running: 4, Waiting: 46, Engines: 1, PromptTokens: 512, GenerationTokens: 17029, Iterations: 4402,
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			got, err := parse(bytes.NewReader(sample(t, c.file)), exposition{c.contentType, names(c.engine), now})
			if err != nil {
				t.Fatal(err)
			}
			c.want.At = now
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("reading (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewerNameOfTheUsageCountsWhereBothAreExposed(t *testing.T) {
	in := "vllm:gpu_cache_usage_perc{engine=\"0\"} 0.9\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.1\n"
	r, err := Parse(strings.NewReader(in), textType, names(dialect.VLLM))
	if err != nil || r.KVUsage != 0.1 || r.Generation != "v1" {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestHybridModelsCapacityIsTheTokensTheServerTells(t *testing.T) {
	in := "vllm:kv_cache_usage_perc 0.1\n" +
		"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\",kv_cache_size_tokens=\"8000\"} 1\n"
	r, err := Parse(strings.NewReader(in), textType, names(dialect.VLLM))
	if err != nil || r.Blocks != 500 || r.Capacity() != 499*16 {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestWhatIsNotAReadingIsRefused(t *testing.T) {
	const usage = "vllm:kv_cache_usage_perc{engine=\"0\"} "
	for name, in := range map[string]string{
		"empty":                       "",
		"a web page":                  "<html><body>404</body></html>\n",
		"no usage":                    "vllm:num_requests_running 1\n",
		"usage NaN":                   usage + "NaN\n",
		"usage infinite":              usage + "+Inf\n",
		"usage negative":              usage + "-0.1\n",
		"usage in percent":            usage + "85\n",
		"usage a little over 1":       usage + "1.0000001\n",
		"usage of one engine bad":     usage + "0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} NaN\n",
		"usage typed counter":         "# TYPE vllm:kv_cache_usage_perc counter\n" + usage + "0.5\n",
		"usage typed histogram":       "# TYPE vllm:kv_cache_usage_perc histogram\nvllm:kv_cache_usage_perc_count 5\n",
		"error in the middle":         usage + "0.5\nvllm:num_requests_running{engine=\"0\" 3\nvllm:num_requests_waiting 1\n",
		"error at the end":            usage + "0.5\nvllm:num_requests_running 3.\x00\n",
		"cut in the last line":        usage + "0.5",
		"running NaN":                 usage + "0.5\nvllm:num_requests_running NaN\n",
		"running negative":            usage + "0.5\nvllm:num_requests_running -1\n",
		"running absurd":              usage + "0.5\nvllm:num_requests_running 1e300\n",
		"waiting a counter":           usage + "0.5\n# TYPE vllm:num_requests_waiting counter\nvllm:num_requests_waiting 1\n",
		"counter NaN":                 usage + "0.5\nvllm:prompt_tokens_total NaN\n",
		"counter negative":            usage + "0.5\nvllm:prompt_tokens_total -5\n",
		"counter a summary":           usage + "0.5\n# TYPE vllm:prompt_tokens_total summary\nvllm:prompt_tokens_total_sum 5\n",
		"explicit old timestamp":      usage + "0.5 1000\n",
		"larger than the cap":         usage + "0.5\n" + strings.Repeat("# filler\n", maxBody/9+1),
		"a line longer than the cap":  "x" + strings.Repeat("y", maxBody+10),
		"type line without an ending": "# TYPE vllm:kv_cache_usage_perc",
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := Parse(strings.NewReader(in), textType, names(dialect.VLLM)); err == nil {
				t.Errorf("accepted as %+v", r)
			} else if !cmp.Equal(r, Reading{}) {
				t.Errorf("an error came with %+v", r)
			}
		})
	}
}

func TestWhatIsNotOpenMetricsIsRefused(t *testing.T) {
	const usage = "vllm:kv_cache_usage_perc "
	for name, in := range map[string]string{
		"no EOF":              usage + "0.5\n",
		"text after EOF":      usage + "0.5\n# EOF\n" + usage + "0.1\n",
		"usage typed counter": "# TYPE vllm:kv_cache_usage_perc counter\n" + usage + "0.5\n# EOF\n",
		"no value":            usage + "\n# EOF\n",
		"bad timestamp":       usage + "0.5 NaN\n# EOF\n",
		"old timestamp":       usage + "0.5 1.5\n# EOF\n",
		"empty line":          usage + "0.5\n\n# EOF\n",
		"open quote":          "vllm:kv_cache_usage_perc{a=\"} 0.5\n# EOF\n",
		"larger than the cap": usage + "0.5\n" + strings.Repeat("# filler\n", maxBody/9+1) + "# EOF\n",
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := Parse(strings.NewReader(in), openType, names(dialect.VLLM)); err == nil {
				t.Errorf("accepted as %+v", r)
			}
		})
	}
}

func TestRecentExplicitTimestampIsAccepted(t *testing.T) {
	now := time.Now()
	for contentType, in := range map[string]string{
		textType: fmt.Sprintf("vllm:kv_cache_usage_perc 0.5 %d\n", now.UnixMilli()),
		openType: fmt.Sprintf("vllm:kv_cache_usage_perc 0.5 %d.25\n# EOF\n", now.Unix()),
	} {
		if r, err := Parse(strings.NewReader(in), contentType, names(dialect.VLLM)); err != nil || r.KVUsage != 0.5 {
			t.Errorf("%s: got %+v, %v", contentType, r, err)
		}
	}
}

// FuzzParse holds Parse to its promise: it never panics, and whatever it
// accepts is finite and in range in every field.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"v1.txt", "v1_early.txt", "v0.txt", "dp.txt", "openmetrics.txt", "sglang.txt", "llamacpp.txt"} {
		for engine := range dialect.Kinds {
			f.Add(sample(f, name), false, uint8(engine))
			f.Add(sample(f, name), true, uint8(engine))
		}
	}
	f.Add([]byte("vllm:kv_cache_usage_perc -0\n"), false, uint8(0))
	f.Add([]byte("{\"vllm:kv_cache_usage_perc\"} 0.5 1e3\n# EOF"), true, uint8(0))
	f.Fuzz(func(t *testing.T, in []byte, open bool, engine uint8) {
		contentType := textType
		if open {
			contentType = openType
		}
		r, err := Parse(bytes.NewReader(in), contentType, names(dialect.Kinds[int(engine)%len(dialect.Kinds)]))
		if err != nil {
			if !cmp.Equal(r, Reading{}) {
				t.Fatalf("an error came with %+v", r)
			}
			return
		}
		if !(r.KVUsage >= 0 && r.KVUsage <= 1) || math.Signbit(r.KVUsage) {
			t.Fatalf("KV usage %v", r.KVUsage)
		}
		for _, n := range []int{r.Running, r.Waiting, r.BlockSize, r.Blocks, r.Capacity()} {
			if n < 0 {
				t.Fatalf("negative in %+v", r)
			}
		}
		for _, v := range []float64{r.PromptTokens, r.GenerationTokens, r.PrefixQueries, r.PrefixHits, r.Preemptions, r.Iterations} {
			if !(v >= 0) || math.IsInf(v, 0) {
				t.Fatalf("counter %v in %+v", v, r)
			}
		}
		if r.Engines < 1 || r.At.IsZero() || !slices.Contains([]string{"", "v0", "v1"}, r.Generation) {
			t.Fatalf("odd %+v", r)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	in := sample(b, "v1.txt")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(bytes.NewReader(in), textType, names(dialect.VLLM)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestEnginesAreToldApartWhereEachIsNumberedAndTellsAll(t *testing.T) {
	all := usage0("0", "0.25") + usage0("1", "0.5") + running0("0", "1") + running0("1", "2") + waiting0("0", "3") + waiting0("1", "4")
	for name, c := range map[string]struct {
		in   string
		want []Rank
	}{
		"two engines":    {all, []Rank{{0.25, 1, 3}, {0.5, 2, 4}}},
		"one engine":     {usage0("0", "0.25") + running0("0", "1") + waiting0("0", "3"), nil},
		"one tells less": {strings.Replace(all, waiting0("1", "4"), "", 1), nil},
		"not numbered":   {strings.ReplaceAll(all, `"1"`, `"one"`), nil},
		"a gap":          {strings.ReplaceAll(all, `"1"`, `"2"`), nil},
	} {
		r, err := Parse(strings.NewReader(c.in), textType, names(dialect.VLLM))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, r.Ranks); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func usage0(engine, v string) string {
	return `vllm:kv_cache_usage_perc{engine="` + engine + `"} ` + v + "\n"
}

func running0(engine, v string) string {
	return `vllm:num_requests_running{engine="` + engine + `"} ` + v + "\n"
}

func waiting0(engine, v string) string {
	return `vllm:num_requests_waiting{engine="` + engine + `"} ` + v + "\n"
}
