package engines

import (
	"context"
	"fmt"
	"math"
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
	before := throughput(t, e.URL)
	f, err := measure.Engine(t.Context(), measure.Options{URL: e.URL, For: 30 * time.Second, Progress: func(text string) { t.Log(text) }})
	if err != nil {
		t.Fatal(err)
	}
	f.Name, f.GPU, f.GPUs = "measured", "CPU", 1
	t.Log(f.YAML("now"))
	if err := vllmsim.AddProfiles("measured", []byte(f.YAML("now"))); err != nil {
		t.Fatal(err)
	}
	sim := vllmsim.Start(t, vllmsim.Options{Model: "target", Profile: "measured"})
	after := throughput(t, e.URL)
	lab, seen := throughput(t, sim.URL()), (before+after)/2
	t.Logf("%.1f tokens/s before, %.1f after, in the lab %.1f (× %.2f)", before, after, lab, lab/seen)
	if math.Abs(before-after) > 0.2*seen {
		t.Skip("the machine is too busy to tell")
	}
	if lab < 0.8*seen || lab > 1.2*seen {
		t.Error("the lab is more than 20 % off")
	}
}

// throughput is how many tokens of answers a second six clients get of an engine with four seats.
func throughput(t *testing.T, url string) float64 {
	t.Helper()
	const clients, each, prompt, answer = 6, 3, 64, 48
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
	return clients * each * answer / time.Since(began).Seconds()
}
