package engines

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/measure"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestTheLabMeetsTheThroughputOfAnEngineThatWasMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	e := Start(t, Options{Kind: LlamaCpp, Model: LlamaTarget, Flags: []string{"--slots", "4"}})
	f, err := measure.Engine(t.Context(), measure.Options{URL: e.URL, For: time.Minute, Progress: func(text string) { t.Log(text) }})
	if err != nil {
		t.Fatal(err)
	}
	f.Name, f.GPU, f.GPUs = "measured", "CPU", 1
	t.Log(f.YAML("now"))
	if err := vllmsim.AddProfiles("measured", []byte(f.YAML("now"))); err != nil {
		t.Fatal(err)
	}
	sim := vllmsim.Start(t, vllmsim.Options{Model: "target", Profile: "measured"})
	for _, s := range []struct{ prompt, answer int }{{64, 64}, {256, 32}} {
		seen, lab := throughput(t, e.URL, s.prompt, s.answer), throughput(t, sim.URL(), s.prompt, s.answer)
		t.Logf("prompts of %d, answers of %d tokens: %.1f tokens/s, in the lab %.1f (× %.2f)", s.prompt, s.answer, seen, lab, lab/seen)
		if lab < 0.8*seen || lab > 1.2*seen {
			t.Errorf("the lab is more than 20 %% off")
		}
	}
}

// throughput is how many tokens of answers a second six clients get of an engine with four seats.
func throughput(t *testing.T, url string, prompt, answer int) float64 {
	t.Helper()
	const clients, each = 6, 5
	var all sync.WaitGroup
	began := time.Now()
	for range clients {
		all.Go(func() {
			for range each {
				ids := make([]string, prompt)
				for i := range ids {
					ids[i] = fmt.Sprint(1000 + rand.IntN(3000))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				r := post(t, url+"/v1/completions", fmt.Sprintf(`{"model":"target","prompt":[%s],"max_tokens":%d,"ignore_eos":true}`, strings.Join(ids, ","), answer))
				cancel()
				if ctx.Err() == context.DeadlineExceeded || r.status != 200 {
					t.Errorf("status %d: %s", r.status, r.body)
				}
			}
		})
	}
	all.Wait()
	return clients * each * float64(answer) / time.Since(began).Seconds()
}
