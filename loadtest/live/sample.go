package live

import (
	"context"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const (
	sampleEvery = 500 * time.Millisecond // the profiles' time
	maxSamples  = 600                    // of one backend
)

// gauge watches the simulators through a run.
type gauge struct {
	sys    *system
	clock  clock
	before map[*backend]vllmsim.State // at the warm-up's end
	rounds [][]loadtest.Sample        // of all backends at one time
	every  time.Duration
}

// watch samples every backend until ctx ends, and notes what they had done when
// the warm-up ended.
func (g *gauge) watch(ctx context.Context) {
	g.every = sampleEvery
	warm := g.sys.opts.Scenario.Warmup
	for at := time.Duration(0); ; at += g.every {
		if g.before == nil && at >= warm {
			if !g.clock.until(ctx, warm) {
				return
			}
			g.before = g.states()
		}
		if !g.clock.until(ctx, at) {
			return
		}
		g.round()
		// A machine that cannot keep up gets fewer samples, not a backlog of them.
		at = max(at, g.clock.now().Truncate(g.every))
	}
}

// round takes one sample of each backend. When there are too many, every other
// round goes, and from then on they are taken half as often.
func (g *gauge) round() {
	now := g.clock.now()
	var all []loadtest.Sample
	for _, p := range g.sys.pools {
		for i, b := range p.backends {
			st := b.sim.State()
			s := loadtest.Sample{At: now, Tier: p.tier, Backend: i, Running: st.Running, Waiting: st.Waiting,
				Alive: st.Alive, Finished: st.Finished}
			if st.KVBlocksTotal > 0 {
				s.KVUsage = float64(st.KVBlocksUsed) / float64(st.KVBlocksTotal)
			}
			all = append(all, s)
		}
	}
	g.rounds = append(g.rounds, all)
	if len(g.rounds) < maxSamples {
		return
	}
	half := g.rounds[:0]
	for i := 0; i < len(g.rounds); i += 2 {
		half = append(half, g.rounds[i])
	}
	clear(g.rounds[len(half):])
	g.rounds, g.every = half, 2*g.every
}

// samples are all that are left, in order of time.
func (g *gauge) samples() []loadtest.Sample {
	var all []loadtest.Sample
	for _, r := range g.rounds {
		all = append(all, r...)
	}
	return all
}

func (g *gauge) states() map[*backend]vllmsim.State {
	now := map[*backend]vllmsim.State{}
	for _, p := range g.sys.pools {
		for _, b := range p.backends {
			now[b] = b.sim.State()
		}
	}
	return now
}

// usage is what the pools did from the warm-up's end until after. The watch is
// over.
func (g *gauge) usage(after map[*backend]vllmsim.State) []loadtest.Usage {
	before := g.before
	if before == nil { // everything was over before the warm-up was
		before = after
	}
	var all []loadtest.Usage
	for _, p := range g.sys.pools {
		u := loadtest.Usage{Tier: p.tier, Backends: len(p.backends), GPUs: gpus(p.spec.Profile), USDPerHour: p.spec.USDPerHour}
		for _, b := range p.backends {
			was, is := before[b], after[b]
			u.Busy += time.Duration((is.BusySeconds - was.BusySeconds) * 1e9)
			u.PrefixQueries += is.PrefixQueries - was.PrefixQueries
			u.PrefixHits += is.PrefixHits - was.PrefixHits
			u.Preemptions += is.Preemptions - was.Preemptions
			u.Deaths += is.Deaths - was.Deaths
			u.OOMDeaths += is.OOMDeaths - was.OOMDeaths
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
	for _, p := range g.sys.pools {
		for _, b := range p.backends {
			maximum = max(maximum, b.sim.State().LagSeconds)
		}
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
