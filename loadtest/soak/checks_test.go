package soak

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryRequestMustBeAccountedFor(t *testing.T) {
	good := Counts{Sent: 10, Answered: 5, Shed: 1, Limited: 1, Left: 1, Failed: 2, Compared: 4}
	for name, c := range map[string]struct {
		change     func(*Counts)
		kept, sent int
		held       [2]bool
	}{
		"all is well":                {func(*Counts) {}, 10, 10, [2]bool{true, true}},
		"an outcome is missing":      {func(*Counts) {}, 10, 11, [2]bool{false, true}},
		"the load lost one":          {func(*Counts) {}, 9, 10, [2]bool{false, true}},
		"one is broken":              {func(c *Counts) { c.Answered--; c.Broken++ }, 10, 10, [2]bool{false, true}},
		"one is nothing":             {func(c *Counts) { c.Answered-- }, 10, 10, [2]bool{false, true}},
		"nothing was compared":       {func(c *Counts) { c.Compared = 0 }, 10, 10, [2]bool{true, false}},
		"many answers are too long":  {func(c *Counts) { c.Overrun = 1 }, 10, 10, [2]bool{true, false}},
		"a few answers are too long": {func(c *Counts) { c.Compared, c.Overrun = 2000, 1 }, 10, 10, [2]bool{true, true}},
	} {
		counts := good
		c.change(&counts)
		got := accounting(&counts, c.kept, c.sent)
		if got[0].Held != c.held[0] || got[1].Held != c.held[1] {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestFailuresAreFewAndOnlyAroundFaults(t *testing.T) {
	report := func(outside, during Counts, late bool) *Report {
		r := &Report{Periods: []Period{{Counts: outside}, {Fault: "killed", Counts: during, Recovered: 3, Late: late}}}
		r.Total.add(outside)
		r.Total.add(during)
		return r
	}
	for name, c := range map[string]struct {
		r    *Report
		held [3]bool
	}{
		"few":         {report(Counts{Sent: 900}, Counts{Sent: 100, Failed: 5}, false), [3]bool{true, true, true}},
		"many":        {report(Counts{Sent: 900}, Counts{Sent: 100, Failed: 6}, false), [3]bool{false, true, true}},
		"without one": {report(Counts{Sent: 900, Failed: 1}, Counts{Sent: 100}, false), [3]bool{true, false, true}},
		"late":        {report(Counts{Sent: 900}, Counts{Sent: 100}, true), [3]bool{true, true, false}},
		"nothing":     {report(Counts{}, Counts{}, false), [3]bool{true, true, true}},
	} {
		for i, check := range failures(c.r) {
			if check.Held != c.held[i] {
				t.Errorf("%s: %+v", name, check)
			}
		}
	}
}

func TestAReplicaMustHaveCountedWhatWasSent(t *testing.T) {
	for counted, held := range map[int]bool{94: false, 95: true, 100: true, 101: false} {
		if got := tally("gateway 0", counted, &Counts{Sent: 100, Left: 5}); got.Held != held {
			t.Errorf("%d counted: %+v", counted, got)
		}
	}
	if !answering(nil, 3).Held || answering([]error{errors.New("gone")}, 3).Held {
		t.Error("a process that does not answer is well")
	}
	if !quiet("gateway 0", 30, 2).Held || quiet("gateway 0", 31, 2).Held {
		t.Error("30 lines are due in two faults")
	}
}

// constant is a series whose goroutines grow by so many a minute.
func constant(process string, whole bool, n int, growth float64) *Series {
	s := &Series{Process: process, Life: 1, Whole: whole}
	for i := range n {
		s.Samples = append(s.Samples, Sample{float64(60 * (i + 1)), map[string]float64{"goroutines": 100 + growth*float64(i), "rss": 80}})
	}
	return s
}

func TestGrowthIsJudgedInEachLifeThatIsLongEnough(t *testing.T) {
	got := growths([]*Series{constant("gateway 0", true, 30, 0), constant("gateway 1", true, 30, 2), constant("gateway 2", false, 8, 9), constant("gateway 3", true, 3, 9)})
	held := map[string]bool{}
	for _, g := range got {
		if g.Resource == "goroutines" {
			held[g.Process] = g.Held
			if g.Samples != 25 {
				t.Errorf("%s: %d samples after the warm-up", g.Process, g.Samples)
			}
		}
	}
	if diff := cmp.Diff(map[string]bool{"gateway 0": true, "gateway 1": false}, held); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWithoutLoadAProcessHoldsWhatItHeldBefore(t *testing.T) {
	at := func(life string, goroutines, busy float64) []reading {
		return []reading{{"gateway 0", life, map[string]float64{"goroutines": goroutines, "files": 30, "connections": 0, inFlight: busy, "rss": 1}}, {redisName, "r", nil}}
	}
	for name, c := range map[string]struct {
		before, after []reading
		broken        string
	}{
		"the same":             {at("1", 50, 0), at("1", 50, 0), ""},
		"a few more":           {at("1", 50, 0), at("1", 62, 0), ""},
		"too many":             {at("1", 50, 0), at("1", 63, 0), "goroutines"},
		"a request that stays": {at("1", 50, 0), at("1", 50, 1), inFlight},
		"a new life":           {at("1", 50, 0), at("2", 99, 9), ""},
	} {
		broken := ""
		for _, r := range rests(c.before, c.after) {
			if !r.Held {
				broken += r.Resource
			}
		}
		if broken != c.broken {
			t.Errorf("%s: %q is broken, want %q", name, broken, c.broken)
		}
	}
}
