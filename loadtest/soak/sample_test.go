package soak

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/foregate/foregate/loadtest/process"
)

func read1(process, life string, goroutines float64) reading {
	return reading{process, life, map[string]float64{"goroutines": goroutines}}
}

func TestASampleHasTheMedianOfItsReadings(t *testing.T) {
	got := medians([][]reading{
		{read1("gateway 0", "1", 5), read1("gateway 1", "2", 50)}, {read1("gateway 0", "1", 9), read1("gateway 1", "2", 70)}, {read1("gateway 0", "1", 6), read1("gateway 1", "2", 60)},
	})
	if got[0].values["goroutines"] != 6 || got[1].values["goroutines"] != 60 {
		t.Errorf("got %v", got)
	}
}

func TestARestartBeginsAnotherSeries(t *testing.T) {
	var all []*Series
	all = keep(all, 60, []reading{read1("gateway 0", "10", 1), read1("gateway 1", "20", 2)})
	all = keep(all, 120, []reading{read1("gateway 0", "10", 3), read1("gateway 1", "21", 4)})
	all = keep(all, 180, []reading{read1("gateway 0", "10", 5), read1("gateway 1", "21", 6)})
	sample := func(at, v float64) Sample { return Sample{at, map[string]float64{"goroutines": v}} }
	want := []*Series{
		{Process: "gateway 0", Life: 1, Samples: []Sample{sample(60, 1), sample(120, 3), sample(180, 5)}},
		{Process: "gateway 1", Life: 1, Samples: []Sample{sample(60, 2)}},
		{Process: "gateway 1", Life: 2, Samples: []Sample{sample(120, 4), sample(180, 6)}},
	}
	if diff := cmp.Diff(want, all, cmpopts.IgnoreUnexported(Series{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if wholes(all); !all[0].Whole || all[1].Whole || all[2].Whole {
		t.Error("only gateway 0 was never restarted")
	}
	if got := all[2].points("goroutines", 150); len(got) != 1 || got[0] != (Point{180, 6}) {
		t.Errorf("from 150 s on %v", got)
	}
}

func TestAFleetIsWellOnceEveryTraceOfAFaultIsGone(t *testing.T) {
	const page = `foregate_redis_mode{mode="shared"} 1
foregate_fleet_replicas 3
foregate_backend_up{backend="a",pool="draft"} 1
foregate_backend_up{backend="b",pool="draft"} 1
foregate_backend_up{backend="c",pool="target"} 1
foregate_backend_up{backend="d",pool="target"} 1
foregate_backend_up{backend="e",pool="target"} 1
foregate_breaker_state{backend="a"} 0
foregate_settings_lost 0
`
	if !well(page) {
		t.Error("it is not well")
	}
	for _, bad := range []string{
		`foregate_breaker_state{backend="b"} 2`, `foregate_backend_suspect{backend="b",reason="stands_still"} 1`, "foregate_settings_lost 2",
		`foregate_backend_up{backend="f",pool="draft"} 1`, "foregate_fleet_replicas 1",
	} {
		if well(process.Metrics(page + bad + "\n")) {
			t.Errorf("it is well with %s", bad)
		}
	}
}
