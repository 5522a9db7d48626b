package pressure

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/dialect"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// parseNow parses what an engine of a kind exposes now.
func parseNow(r io.Reader, kind dialect.Kind) (Reading, error) {
	return parse(r, &dialect.Of(kind).Load.Metrics, time.Now())
}

func TestMetricsOfAnotherEngineAreNoReading(t *testing.T) {
	for _, file := range []string{"v1.txt", "sglang.txt", "llamacpp.txt"} {
		read := 0
		for _, engine := range []dialect.Kind{dialect.VLLM, dialect.SGLang, dialect.LlamaCpp} {
			if _, err := parseNow(bytes.NewReader(sample(t, file)), engine); err == nil {
				read++
			}
		}
		if read != 1 {
			t.Errorf("%s is a reading of %d engines", file, read)
		}
	}
}

func TestEachEngineGivesItsReading(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		file   string
		engine dialect.Kind
		want   Reading
	}{
		{"v1.txt", dialect.VLLM, Reading{
			KVUsage: 0.6134969325153374, Running: 37, Waiting: 4, Engines: 1, BlockSize: 16, Blocks: 28130,
			PromptTokens: 18431002, GenerationTokens: 933120, PrefixQueries: 18422331, PrefixHits: 7110032,
			Preemptions: 12, Iterations: 58221,
		}},
		{"dp.txt", dialect.VLLM, Reading{
			KVUsage: 0.75, Running: 30, Waiting: 3, Engines: 2, BlockSize: 32, Blocks: 2000,
			GenerationTokens: 300,
		}},
		{"sglang.txt", dialect.SGLang, Reading{
			KVUsage: 0.5, Running: 8, Waiting: 2, Engines: 2, BlockSize: 16, Blocks: 16385,
			PromptTokens: 128201, GenerationTokens: 7557, PrefixQueries: 128201, PrefixHits: 96000,
		}},
		{"llamacpp.txt", dialect.LlamaCpp, Reading{
			NoUsage: true, Running: 4, Waiting: 46, Engines: 1, PromptTokens: 512, GenerationTokens: 17029, Iterations: 4402,
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			got, err := parse(bytes.NewReader(sample(t, c.file)), &dialect.Of(c.engine).Load.Metrics, now)
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

func TestHybridModelsCapacityIsTheTokensTheServerTells(t *testing.T) {
	in := "vllm:kv_cache_usage_perc 0.1\n" +
		"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\",kv_cache_size_tokens=\"8000\"} 1\n"
	r, err := parseNow(strings.NewReader(in), dialect.VLLM)
	if err != nil || r.Blocks != 500 || r.Capacity() != 499*16 {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestWhatIsNotAReadingIsRefused(t *testing.T) {
	const usage = "vllm:kv_cache_usage_perc{engine=\"0\"} "
	for name, in := range map[string]string{
		"empty":                      "",
		"a web page":                 "<html><body>404</body></html>\n",
		"no usage":                   "vllm:num_requests_running 1\n",
		"usage NaN":                  usage + "NaN\n",
		"usage in percent":           usage + "85\n",
		"every engine bad":           usage + "NaN\nvllm:kv_cache_usage_perc{engine=\"1\"} 85\n",
		"more engines than a server": ranks(1025),
		"usage typed counter":        "# TYPE vllm:kv_cache_usage_perc counter\n" + usage + "0.5\n",
		"error in the middle":        usage + "0.5\nvllm:num_requests_running{engine=\"0\" 3\nvllm:num_requests_waiting 1\n",
		"cut in the last line":       usage + "0.5",
		"running NaN":                usage + "0.5\nvllm:num_requests_running NaN\n",
		"running negative":           usage + "0.5\nvllm:num_requests_running -1\n",
		"counter NaN":                usage + "0.5\nvllm:prompt_tokens_total NaN\n",
		"counter a summary":          usage + "0.5\n# TYPE vllm:prompt_tokens_total summary\nvllm:prompt_tokens_total_sum 5\n",
		"explicit old timestamp":     usage + "0.5 1000\n",
		"larger than the cap":        usage + "0.5\n" + strings.Repeat("# filler\n", maxBody/9+1),
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := parseNow(strings.NewReader(in), dialect.VLLM); err == nil {
				t.Errorf("accepted as %+v", r)
			} else if !cmp.Equal(r, Reading{}) {
				t.Errorf("an error came with %+v", r)
			}
		})
	}
}

// ranks are so many engines behind one address.
func ranks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "vllm:kv_cache_usage_perc{engine=\"%d\"} 0.5\n", i)
	}
	return b.String()
}

func TestAnEngineThatTellsNoNumberIsLeftOutAlone(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, bad := range []string{
		"vllm:kv_cache_usage_perc{engine=\"1\",a=\"b\"} NaN", "vllm:kv_cache_usage_perc{engine=\"1\",a=\"b\"} 85",
		"vllm:num_requests_running{engine=\"1\",a=\"b\"} -1", "vllm:num_requests_waiting{engine=\"1\",a=\"b\"} +Inf",
		"vllm:generation_tokens_total{engine=\"1\",a=\"b\"} NaN", "vllm:kv_cache_usage_perc{engine=\"1\",a=\"b\"} 0.5 1799999989000",
	} {
		name, _, _ := strings.Cut(bad, "{")
		in := strings.Replace(string(sample(t, "dp.txt")), "# TYPE "+name, "# TYPE "+name+" "+kindOf(name)+"\n"+bad+"\n# of "+name, 1)
		got, err := parse(strings.NewReader(in), &dialect.Of(dialect.VLLM).Load.Metrics, at)
		want := Reading{At: at, KVUsage: 0.25, Running: 10, Engines: 1, BlockSize: 16, Blocks: 1000, GenerationTokens: 100}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", bad, err, diff)
		}
	}
}

// kindOf is the type of a family.
func kindOf(name string) string {
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

// FuzzParse holds parse to its promise: it never panics, and whatever it
// accepts is finite and in range in every field.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"v1.txt", "dp.txt", "sglang.txt", "llamacpp.txt"} {
		for engine := range dialect.Kinds {
			f.Add(sample(f, name), uint8(engine))
		}
	}
	f.Add([]byte("vllm:kv_cache_usage_perc -0\n"), uint8(0))
	f.Fuzz(func(t *testing.T, in []byte, engine uint8) {
		r, err := parseNow(bytes.NewReader(in), dialect.Kinds[int(engine)%len(dialect.Kinds)])
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
		if r.Engines < 1 || r.At.IsZero() {
			t.Fatalf("odd %+v", r)
		}
	})
}

func TestFamiliesThatAreNotReadAreNotParsed(t *testing.T) {
	full := "vllm:kv_cache_usage_perc 0.5\nvllm:num_requests_running 2\nother_total{a=\"b\"} banana\n"
	r, err := parse(strings.NewReader(full), &dialect.Of(dialect.VLLM).Load.Metrics, time.Now())
	if err != nil || r.KVUsage != 0.5 || r.Running != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, cut := range []string{full[:len(full)-1], full + "other", full + "vllm:num_requests_waiting banana\n"} {
		if r, err := parse(strings.NewReader(cut), &dialect.Of(dialect.VLLM).Load.Metrics, time.Now()); err == nil {
			t.Errorf("%q is read as %+v", cut, r)
		}
	}
}
