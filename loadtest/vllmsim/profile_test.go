package vllmsim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The orders of magnitude that users of these machines report, and that KV sizes of the models give.
func TestProfilesStayWithinWhatIsReported(t *testing.T) {
	cases := []struct {
		profile, what string
		w             work
		low, high     time.Duration
	}{
		{"a10g-8b", "32 sequences of 1000 tokens", work{decoding: 32, kvRead: 32000}, 26 * time.Millisecond, 42 * time.Millisecond},
		{"a100-8b", "one sequence", work{decoding: 1, kvRead: 500}, 8 * time.Millisecond, 15 * time.Millisecond},
		{"h100-70b-tp4", "one sequence", work{decoding: 1, kvRead: 500}, 20 * time.Millisecond, 40 * time.Millisecond},
		{"h100-70b-tp4", "a full chunk", work{prefill: 8192, kvRead: 8192}, 400 * time.Millisecond, 1200 * time.Millisecond},
		{"h100-70b-fp8-tp2", "one sequence", work{decoding: 1, kvRead: 600}, 18300 * time.Microsecond, 18500 * time.Microsecond},
		{"h100-70b-fp8-tp2", "32 sequences of 600 tokens", work{decoding: 32, kvRead: 19200}, 19700 * time.Microsecond, 20100 * time.Microsecond},
		{"h100-70b-fp8-tp2", "128 sequences of 600 tokens", work{decoding: 128, kvRead: 76800}, 24600 * time.Microsecond, 25 * time.Millisecond},
		{"h100-8b", "one sequence", work{decoding: 1, kvRead: 500}, 6 * time.Millisecond, 15 * time.Millisecond},
		{"h100-8b", "a full chunk", work{prefill: 8192, kvRead: 8192}, 200 * time.Millisecond, 600 * time.Millisecond},
		{"a10g-13b", "one sequence", work{decoding: 1, kvRead: 500}, 15 * time.Millisecond, 30 * time.Millisecond},
	}
	for _, c := range cases {
		p, err := ProfileByName(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		if d := p.stepTime(c.w); d < c.low || d > c.high {
			t.Errorf("%s, %s: %v, want %v to %v", c.profile, c.what, d, c.low, c.high)
		}
	}
}

// The rates of docs/science.md, Cost model: 11.2k tokens of prompts a second, and with 64 sequences 2,966 of answers.
func TestAProfilesRatesAreThoseOfAUsualLoad(t *testing.T) {
	p, err := ProfileByName("h100-70b-fp8-tp2")
	if err != nil {
		t.Fatal(err)
	}
	prefill, decode := p.Rates(UsualSequences)
	if prefill < 11100 || prefill > 11300 || decode < 2900 || decode > 3050 {
		t.Errorf("%v and %v tokens a second", prefill, decode)
	}
}

// Rates of engines that are full, as the scheduler makes them, beside those that the file says were published. Where longer answers
// do not fit, it preempts, as vLLM does.
func TestAFullEnginesRateIsWithin30PercentOfThePublishedOne(t *testing.T) {
	h, err := readHardware()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range h.Published {
		p, err := ProfileByName(table.Profile)
		if err != nil {
			t.Fatal(err)
		}
		for _, shape := range table.Shapes {
			for name, published := range shape {
				var prompt, output int
				if _, err := fmt.Sscanf(name, "%d/%d", &prompt, &output); err != nil {
					t.Fatalf("%s: shape %s: %v", table.Profile, name, err)
				}
				rate := fullRate(p, prompt, output)
				t.Logf("%s %s: %.0f tokens/s, published %.0f, × %.2f", table.Profile, name, rate, published, rate/published)
				if rate < 0.7*published || rate > 1.3*published {
					t.Errorf("%s %s: %.0f tokens/s, published %.0f", table.Profile, name, rate, published)
				}
			}
		}
	}
}

// fullRate is how many tokens of answers a second an engine makes that always has more to do than it has room for. Answers of
// the first sequences are shorter, so that not all end together.
func fullRate(p Profile, prompt, output int) float64 {
	s, now, added := NewScheduler(p, SchedulerOptions{}), time.Duration(0), 0
	from, made := time.Duration(0), 0
	room := min(p.MaxSeqs, p.Blocks*BlockSize/(prompt+output))
	for steps := range 3 * output {
		for len(s.waiting) < 8 {
			left := output
			if added < room {
				left = 1 + added*output/room
			}
			added++
			ids := make([]int32, prompt)
			ids[0] = int32(added)                                              //nolint:gosec // nobody shares a prefix
			s.Add(&Seq{Prompt: ids, Source: &counter{left: int32(left)}}, now) //nolint:gosec // a few thousand
		}
		if steps == output {
			from, made = now, s.counts.GeneratedTokens
		}
		b := s.Step(now)
		now = b.End
		s.Commit(b)
	}
	return float64(s.counts.GeneratedTokens-made) / (now - from).Seconds()
}

func TestEveryProfileHasAGPUWithPricesAndKnownSources(t *testing.T) {
	h, err := readHardware()
	if err != nil {
		t.Fatal(err)
	}
	numbers := []string{"blocks", "base", "per_prefill_token", "per_seq", "per_kv_token", "lm_head"}
	for i := range h.Profiles {
		p := &h.Profiles[i]
		if _, known := h.GPUs[p.GPU]; !known || p.GPUs < 1 || p.Model == "" || p.Precision == "" {
			t.Errorf("%s: GPU %q × %d, model %q, precision %q", p.Name, p.GPU, p.GPUs, p.Model, p.Precision)
		}
		for _, v := range []float64{float64(p.Blocks), float64(p.MaxBatchedTokens), float64(p.MaxSeqs), p.Base, p.PerPrefillToken, p.PerSeq, p.PerKVToken, p.LMHead} {
			if v <= 0 {
				t.Errorf("%s: %+v", p.Name, p)
			}
		}
		for _, n := range slices.Concat(p.Published, p.Measured) {
			if !slices.Contains(numbers, n) {
				t.Errorf("%s: a source of %q, want one of %v", p.Name, n, numbers)
			}
		}
		for _, list := range h.Prices {
			if list.USDPerGPUHour[p.GPU] <= 0 || list.Date == "" {
				t.Errorf("%s: no price of a %s in list %s", p.Name, p.GPU, list.Name)
			}
		}
	}
}

func TestAPriceListIsReadOrRefused(t *testing.T) {
	p, err := ParsePrices("own.yaml", []byte("usd_per_gpu_hour: {H100: 2.5, L4: 0.5}"))
	if err != nil || p.Name != "own.yaml" || p.USDPerGPUHour["H100"] != 2.5 {
		t.Errorf("%+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"": "want usd_per_gpu_hour", "H100: 2.5": "want usd_per_gpu_hour", "usd_per_gpu_hour: {}": "no prices",
		"usd_per_gpu_hour: {H1000: 2}": `unknown GPU "H1000"; known: A100`, "usd_per_gpu_hour: {H100: -2}": "above 0", "usd_per_gpu_hour: {H100: .nan}": "above 0",
	} {
		if _, err := ParsePrices("own.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestProfilesOfAFileAreRefusedWithAReason(t *testing.T) {
	const sound = "profiles: [{name: NAME, gpu: OWN, gpus: 1, model: m, max_num_batched_tokens: 2048, max_num_seqs: 4, blocks: 100, base: BASE, per_prefill_token: 1e-4}]"
	for want, text := range map[string]string{
		"it has none": "profiles: []", "field gpu_count": "profiles: [{gpu_count: 1}]", "want name, gpu and model": "profiles: [{gpus: 1}]",
		"there is a profile a10g-8b already": strings.NewReplacer("NAME", "a10g-8b", "BASE", "1").Replace(sound), "gpus, blocks": strings.NewReplacer("gpus: 1", "gpus: 0", "BASE", "1").Replace(sound),
		"not below 0": strings.Replace(sound, "BASE", "-0.1", 1),
	} {
		if err := AddProfiles("own.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
