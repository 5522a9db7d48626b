package tiers

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/plan"
)

// samplingRig is a rig whose engines allow thinning.
func samplingRig(t *testing.T, divergence float64) *rig {
	t.Helper()
	r := probedRig(t, vllmsim.Options{Seed: proofSeed, Divergence: divergence, Fresh: true},
		vllmsim.Options{LogprobsMode: "processed_logprobs", Fresh: true})
	r.cfg.Mode, r.cfg.VerifySampled = plan.ModeVerify, true
	return r
}

// sampled is a request for model m.
func (f form) sampled(prompt, more string) string {
	body := strings.Replace(f.body(prompt, more), `"temperature":0`, "", 1)
	return strings.NewReplacer(",,", ",", ",}", "}").Replace(body)
}

// samplingOracle gives the law of the first words of an answer, by the model itself: exactly for answers of more than the
// probability least, the rest in one.
type samplingOracle struct {
	model       *vllmsim.Model
	temperature float64
	topP        float64
	tokens      int
	least       float64
}

func (o samplingOracle) law(prompt []int32) map[string]float64 {
	out := map[string]float64{}
	o.walk(prompt, nil, 1, out)
	return out
}

func (o samplingOracle) walk(prompt, ids []int32, p float64, out map[string]float64) {
	ended := len(ids) > 0 && slices.Contains(eos, ids[len(ids)-1])
	if ended || len(ids) == o.tokens {
		text := ids
		if ended {
			text = ids[:len(ids)-1]
		}
		out[strings.TrimRight(vllmsim.DefaultTokenizer().Decode(text, true), "\uFFFD")] += p
		return
	}
	d := o.model.Next(slices.Concat(prompt, ids))
	weights, sum := make([]float64, len(d.Top)), 0.0
	for i, c := range d.Top {
		weights[i] = math.Pow(c.P, 1/o.temperature)
		sum += weights[i]
	}
	sum += float64(d.Vocab-len(d.Top)) * math.Pow(d.Tail, 1/o.temperature)
	left, before := sum, 0.0
	if o.topP < 1 {
		left = 0
		for i, w := range weights {
			if before/sum >= o.topP {
				weights[i] = 0
			}
			before += w
			left += weights[i]
		}
	}
	for i, c := range d.Top {
		if q := p * weights[i] / left; q > o.least {
			o.walk(prompt, append(slices.Clone(ids), c.ID), q, out)
		}
	}
}

// deviation is by how many standard deviations counts are off a law: of the chi-square statistic over texts that are
// expected five times or more and all others in one, by Wilson and Hilferty's normal approximation.
func deviation(law map[string]float64, seen map[string]int, n int) float64 {
	sum, cells, rest, others := 0.0, 0, 1.0, n
	for text, p := range law {
		want := p * float64(n)
		if want < 5 {
			continue
		}
		d := float64(seen[text]) - want
		sum += d * d / want
		cells++
		rest -= p
		others -= seen[text]
	}
	if want := rest * float64(n); want >= 5 {
		d := float64(others) - want
		sum += d * d / want
		cells++
	}
	k := float64(max(cells-1, 1))
	return (math.Cbrt(sum/k) - (1 - 2/(9*k))) / math.Sqrt(2/(9*k))
}

// samplingLaws are the laws of target and draft for a request.
func (f form) samplingLaws(r *rig, divergence float64, body string, o samplingOracle) (target, draft map[string]float64) {
	told := f.alone(r, strings.Replace(body, `"max_tokens":3`, `"max_tokens":3,"return_token_ids":true`, 1))
	target = o.law(told.promptIDs)
	o.model = vllmsim.NewModel(proofSeed, divergence)
	return target, o.law(told.promptIDs)
}

// lawsApart is the total variation between two laws, and the most that one text has in the first.
func lawsApart(a, b map[string]float64) (tv, most float64) {
	for text, p := range a {
		tv += max(p-b[text], 0)
		most = max(most, p)
	}
	return tv, most
}

// samplingTally is what came of many answers to one request.
type samplingTally struct {
	mu                                            sync.Mutex
	seen                                          map[string]int
	tiers                                         map[plan.Tier]int
	answers, accepted, tested, calls, approximate int
}

// ask asks once and counts.
func (y *samplingTally) ask(t *testing.T, r *rig, f form, body string) {
	got, rc, err := r.ask(f.kind, plan.Auto, body)
	if err != nil || len(rc.Checks) != 1 || rc.Plan.Scorer != plan.ScorerIDs {
		t.Errorf("%s: %+v, %v", rc.Acceptance(), rc, err)
		return
	}
	want := ";mode=verify"
	if rc.Approximate {
		want += ";exactness=approximate"
	}
	if !strings.HasSuffix(rc.Acceptance(), want) {
		t.Errorf("%q does not end with %q", rc.Acceptance(), want)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.answers++
	y.seen[got.text]++
	y.tiers[rc.Tier]++
	y.accepted += rc.Checks[0].Kept
	y.tested += rc.Checks[0].Kept
	if !rc.Checks[0].Pass {
		y.tested++
	}
	y.calls += len(rc.Tries)
	if rc.Approximate {
		y.approximate++
	}
}

// TestRejectionSamplingKeepsTheTargetsDistribution: the joint law of the first three tokens, over HTTP, is the target's; the
// draft's own is seen to be another by the same test. A wrong alarm of one of the four comes in 3 of 100,000 runs.
func TestRejectionSamplingKeepsTheTargetsDistribution(t *testing.T) {
	skipIfSlowed(t)
	const divergence, workers = .6, 6
	for i, how := range []struct{ temperature, topP float64 }{{1, 1}, {.7, .95}, {1.3, 1}, {1.2, .9}} {
		f := forms[i]
		t.Run(fmt.Sprintf("temperature %g, top_p %g", how.temperature, how.topP), func(t *testing.T) {
			t.Parallel()
			r := samplingRig(t, divergence)
			more := fmt.Sprintf(`,"temperature":%g,"top_p":%g,"max_tokens":3`, how.temperature, how.topP)
			o := samplingOracle{vllmsim.NewModel(proofSeed, 0), how.temperature, how.topP, 3, 1e-6}
			var body string
			var law, other map[string]float64
			for _, p := range prompts(60) {
				body = f.sampled(p, more)
				law, other = f.samplingLaws(r, divergence, body, o)
				if tv, most := lawsApart(law, other); tv > .2 && tv < .7 && most < .6 {
					break
				}
			}
			n := proofSize(180, 1000, 5000)
			y := &samplingTally{seen: map[string]int{}, tiers: map[plan.Tier]int{}}
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					for range n / workers {
						y.ask(t, r, f, body)
					}
				})
			}
			all.Wait()
			z := deviation(law, y.seen, y.answers)
			tv, _ := lawsApart(law, other)
			t.Logf("%d answers, %v, %d of %d tested tokens kept, %.1f calls each, %d approximate: off by %.2f standard deviations; TV of the draft %.2f",
				y.answers, y.tiers, y.accepted, y.tested, float64(y.calls)/float64(y.answers), y.approximate, z, tv)
			if z > 4.5 {
				t.Errorf("off by %.2f standard deviations", z)
			}
			drafts := map[string]int{}
			for text, p := range other {
				drafts[text] = int(math.Round(p * float64(y.answers)))
			}
			if z := deviation(law, drafts, y.answers); z < 6 || y.tiers[plan.Draft] == 0 || y.tiers[plan.Mixed] == 0 {
				t.Errorf("the draft's own law is off by %.1f, tiers %v: the test shows nothing", z, y.tiers)
			}
		})
	}
}
