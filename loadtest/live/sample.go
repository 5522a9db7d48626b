package live

import (
	"context"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const sampleEvery = 500 * time.Millisecond // the profiles' time

// gauge watches the simulators through a run.
type gauge struct {
	sys    *system
	clock  clock
	warmup time.Duration
	before map[*vllmsim.Server]vllmsim.State // at the warm-up's end
	peak   float64                           // KV usage of any backend since then
}

// watch looks at every backend until ctx ends, and notes what they had done when
// the warm-up ended.
func (g *gauge) watch(ctx context.Context) {
	if !g.clock.until(ctx, g.warmup) {
		return
	}
	g.before = g.states()
	for at := g.warmup; g.clock.until(ctx, at); at += sampleEvery {
		for _, st := range g.states() {
			g.peak = max(g.peak, float64(st.KVBlocksUsed)/float64(max(1, st.KVBlocksTotal)))
		}
		// A machine that cannot keep up looks less often; there is no backlog.
		at = max(at, g.clock.now().Truncate(sampleEvery))
	}
}

func (g *gauge) states() map[*vllmsim.Server]vllmsim.State {
	now := map[*vllmsim.Server]vllmsim.State{}
	for _, p := range g.sys.pools {
		for _, s := range p.sims {
			now[s] = s.State()
		}
	}
	return now
}

// usage is what the pools did from the warm-up's end until after. The watch is
// over.
func (g *gauge) usage(after map[*vllmsim.Server]vllmsim.State) []loadtest.Usage {
	before := g.before
	if before == nil { // everything was over before the warm-up was
		before = after
	}
	var all []loadtest.Usage
	for _, p := range g.sys.pools {
		u := loadtest.Usage{Tier: p.tier, Backends: len(p.sims), GPUs: gpus(p.spec.Profile), USDPerHour: p.spec.USDPerHour}
		for _, b := range p.sims {
			was, is := before[b], after[b]
			u.Busy += time.Duration((is.BusySeconds - was.BusySeconds) * 1e9)
			u.PrefixQueries += is.PrefixQueries - was.PrefixQueries
			u.PrefixHits += is.PrefixHits - was.PrefixHits
			u.Preemptions += is.Preemptions - was.Preemptions
			u.Generated += is.GeneratedTokens - was.GeneratedTokens
		}
		all = append(all, u)
	}
	return all
}

// lag is how far the slowest simulator has fallen behind its time scale, in the
// wall's time.
func (g *gauge) lag() time.Duration {
	maximum := 0.0
	for _, st := range g.states() {
		maximum = max(maximum, st.LagSeconds)
	}
	return time.Duration(maximum * 1e9)
}

// gpus is how many of them one backend of a profile has.
func gpus(profile string) int {
	p, err := vllmsim.ProfileByName(profile)
	if err != nil {
		return 0 // it would not have started
	}
	return p.GPUs
}
