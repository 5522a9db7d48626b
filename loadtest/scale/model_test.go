package scale

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// flat is a cost whose figures are all the same.
func flat(v float64) Cost { return Cost{v, v, v, v, v, v} }

// known is a model that costs are made of.
var known = Model{
	Replica: flat(5), ReplicaPool: flat(2), ReplicaBackend: flat(.5), Backend: flat(3),
	Request: flat(.25), Limit: flat(.75), Cache: flat(1.5), CacheReplica: Cost{Out: .125, Busy: .0625},
}

// costs are what the fleets of a fit cost by a model.
func costs(m Model) (list [fits]Cost) {
	for i, f := range plans() {
		list[i] = m.Predict(f).Total()
	}
	return list
}

func TestAFitFindsTheModelThatCostsAreMadeOf(t *testing.T) {
	got := Fit(costs(known))
	for name, pair := range map[string][2]Cost{
		"replica": {got.Replica, known.Replica}, "pool": {got.ReplicaPool, known.ReplicaPool}, "replica and backend": {got.ReplicaBackend, known.ReplicaBackend},
		"backend": {got.Backend, known.Backend}, "request": {got.Request, known.Request}, "limit": {got.Limit, known.Limit},
		"cache": {got.Cache, known.Cache}, "cache and replica": {got.CacheReplica, known.CacheReplica},
	} {
		for _, d := range []float64{
			pair[0].Commands - pair[1].Commands, pair[0].Scripts - pair[1].Scripts, pair[0].In - pair[1].In,
			pair[0].Out - pair[1].Out, pair[0].Busy - pair[1].Busy, pair[0].Exec - pair[1].Exec,
		} {
			if math.Abs(d) > 1e-9 {
				t.Errorf("%s: %+v, want %+v", name, pair[0], pair[1])
				break
			}
		}
	}
}

func TestNoiseMakesNoCostNegative(t *testing.T) {
	list := costs(Model{Replica: flat(1)})
	list[fitPools] = flat(0)   // fewer with more pools
	list[fitLimits] = flat(-9) // fewer with limits
	m := Fit(list)
	for name, c := range map[string]Cost{"pool": m.ReplicaPool, "limit": m.Limit, "replica": m.Replica} {
		if c.Commands < 0 || c.Busy < 0 || c.Exec < 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestWhatIsNotUsedCostsNothing(t *testing.T) {
	f := Fleet{Replicas: 4, Pools: 2, Backends: 8, Requests: 100}
	plain := known.Predict(f)
	if plain.Limits != (Cost{}) || plain.Answers != (Cost{}) {
		t.Errorf("%+v", plain)
	}
	if want := 4*(5+2*2+.5*8) + 3*8 + .25*100; plain.Total().Commands != want {
		t.Errorf("%v commands, want %v", plain.Total().Commands, want)
	}
	f.Limited, f.Cached = true, true
	if p := known.Predict(f); p.Limits.Commands != 75 || p.Answers.Commands != 150 || p.Answers.Out != 100*(1.5+4*.125) || p.Control != plain.Control {
		t.Errorf("%+v", p)
	}
}

func TestTheTopologyIsTheSimplestThatCarriesAFleet(t *testing.T) {
	for _, c := range []struct {
		control, limits, answers float64
		want                     string
	}{
		{.25, .05, .25, OneRedis}, {.2, .1, .31, TwoRedis}, {.2, .1, .6, TwoRedis}, {.2, .1, .61, ClusterCache}, {.4, .21, .0, BeyondControl}, {.4, .21, 9, BeyondControl},
	} {
		p := Parts{Control: Cost{Busy: 2 * c.control}, Limits: Cost{Busy: 2 * c.limits}, Answers: Cost{Busy: 2 * c.answers}}
		if got := p.Topology(.5); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestACheckIsAsWrongAsItsWorstFigure(t *testing.T) {
	c := Check{Predicted: Cost{Commands: 110, In: 95, Out: 100, Busy: .5}, Measured: Cost{Commands: 100, In: 100, Out: 80, Busy: .2}}
	if got := c.worst(); math.Abs(got-.25) > 1e-9 {
		t.Errorf("%v, want a quarter", got)
	}
	if got := c.Share(); got != .4 {
		t.Errorf("a share of %v, want 0.4", got)
	}
	c.Measured.Busy = .7
	if got := c.Share(); got != 1.4 {
		t.Errorf("a share of %v, want 1.4: a fleet that needs more than predicted must not look cheaper", got)
	}
}

const info = "# Stats\r\ntotal_commands_processed:120\r\ntotal_net_input_bytes:1000\r\ntotal_net_output_bytes:2000\r\n" +
	"# CPU\r\nused_cpu_sys:0.25\r\nused_cpu_user:0.5\r\nused_cpu_sys_children:9\r\n" +
	"# Commandstats\r\ncmdstat_evalsha:calls=7,usec=900,usec_per_call=1,rejected_calls=0,failed_calls=0\r\ncmdstat_get:calls=9,usec=1,usec_per_call=1\r\n"

func TestCountsAreReadAsRedisTellsThem(t *testing.T) {
	got, err := parseInfo(info)
	if want := (Cost{120, 7, 1000, 2000, .75, .0009}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "total_commands_processed:1\r\n", strings.Replace(info, "1000", "many", 1), strings.Replace(info, "usec=900", "usec=-1", 1)} {
		if _, err := parseInfo(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func FuzzInfo(f *testing.F) {
	f.Add(info)
	f.Fuzz(func(t *testing.T, page string) {
		if c, err := parseInfo(page); err == nil && (c.Commands < 0 || c.Scripts < 0 || c.Exec < 0 || c.Busy < 0) {
			t.Errorf("%+v", c)
		}
	})
}

func TestScrapesGrowWithBackendsAlone(t *testing.T) {
	s := Scrape{Interval: .5, Bytes: 1000}
	if n, bytes := s.PerSecond(Fleet{Replicas: 50, Backends: 500}); n != 1000 || bytes != 1e6 {
		t.Errorf("%v, %v", n, bytes)
	}
}

func TestAFleetGrowsUntilOneRedisCannotCarryItsState(t *testing.T) {
	// A request costs 100 µs for its limit and 100 µs for its answer, a replica 1 ms.
	m := Model{Replica: Cost{Busy: 1e-3}, Limit: Cost{Busy: 1e-4}, Cache: Cost{Busy: 1e-4}}
	var got []string
	for _, e := range m.Ends(1) {
		got = append(got, e.Topology+": "+e.Fleet.String())
	}
	// A replica has 400 requests/s: 0.081 of a core with all, and 0.041 without the answers.
	want := []string{OneRedis + ": 7 replicas, 10 pools, 70 backends, 2800 requests/s", TwoRedis + ": 14 replicas, 10 pools, 140 backends, 5600 requests/s"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if ends := (Model{}).Ends(1); len(ends) != 1 || ends[0].Fleet != largest {
		t.Errorf("%+v, want the largest of a model without costs", ends)
	}
	if ends := (Model{Replica: Cost{Busy: 1}}).Ends(1); ends != nil {
		t.Errorf("%+v, want none", ends)
	}
}
