package virtual

import (
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
)

func TestDraftsForAPeakLeaveTheQuietHoursAsTheyAre(t *testing.T) {
	s, err := loadtest.Named("peak")
	if err != nil {
		t.Fatal(err)
	}
	s.Warmup, s.Duration = 10*time.Second, 30*time.Second
	seeds := uint64(5)
	if testing.Short() || slow {
		seeds = 1
	}
	var late, lateAlone float64 // sums of TTFT P99, which differs between short runs
	for seed := range seeds {
		var rows [3]loadtest.Row // the target alone, scarce, always
		for i := range rows {
			r, err := Run(t.Context(), s, &s.Cases[i], seed+1)
			if err != nil {
				t.Fatal(err)
			}
			rows[i] = r.Row()
		}
		alone, scarce, always := &rows[0], &rows[1], &rows[2]
		late, lateAlone = late+scarce.TTFT99, lateAlone+alone.TTFT99
		if alone.Requests < 200 || scarce.TTFT50 > 1.05*alone.TTFT50 {
			t.Errorf("seed %d: TTFT P50 is %g ms of %d requests, and %g from the target alone", seed+1, scarce.TTFT50, scarce.Requests, alone.TTFT50)
		}
		if always.TTFT50 < 2*alone.TTFT50 {
			t.Errorf("seed %d: with drafts always TTFT P50 is %g ms: the load shows nothing", seed+1, always.TTFT50)
		}
	}
	if seeds > 1 && late > 1.05*lateAlone {
		t.Errorf("TTFT P99 is %.3f of what it is from the target alone", late/lateAlone)
	}
	t.Logf("TTFT P99 ÷ that of the target alone, mean of %d seeds: %.3f", seeds, late/lateAlone)
}
