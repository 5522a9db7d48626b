package ledger

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// bound is the upper bound of a bucket, in the unit of its histogram.
func bound(bucket int) float64 {
	switch {
	case bucket <= 0:
		return 0
	case bucket > numBounds:
		return math.Inf(1)
	}
	return math.Pow(10, float64(bucket-1)/perDecade)
}

func TestAValueIsInTheFirstBucketWhoseBoundIsNotBelowIt(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		value := math.Pow(10, 12*random.Float64()-4)
		if i := bucketOf(1, value); value > bound(i)*(1+1e-6) || value <= bound(i-1)*(1-1e-6) {
			t.Fatalf("%g is in bucket %d, of %g to %g", value, i, bound(i-1), bound(i))
		}
	}
	for i := 1; i <= numBounds; i++ {
		if got := bucketOf(UnitSeconds, UnitSeconds*bound(i)); got != i {
			t.Errorf("the bound of bucket %d is in bucket %d", i, got)
		}
	}
	for value, want := range map[float64]int{-1: 0, 0: 0, 1e9: numBuckets - 1} {
		if got := bucketOf(1, value); got != want {
			t.Errorf("%g is in bucket %d, want %d", value, got, want)
		}
	}
}

func TestHoursAreTheSumOfWhatReplicasCountByHourAndRoute(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		w := newWorld(t, addr, 3)
		counts := Counts{Requests: 1, OK: 1, Prompt: 100, Completion: 10}
		for i, l := range w.ledgers {
			for range i + 1 {
				l.Add(&Use{Began: noon, Tenant: "acme", Route: "a", Counts: counts, First: 200 * time.Millisecond, Took: 3 * time.Second})
			}
			l.Add(&Use{Began: noon.Add(time.Hour), Tenant: "beta", Route: "b", Counts: counts, First: time.Second, Took: time.Second})
			l.Add(&Use{Began: noon, Tenant: "acme", Route: "a", Counts: Counts{Requests: 1, OK: 1, Prompt: 100, Completion: 10, Cached: 1}})
			l.Add(&Use{Began: noon, Tenant: "acme", Route: "a", Counts: Counts{Requests: 1, Failed: 1}})
		}
		w.write(true)
		got, err := w.ledgers[0].ReadHours(t.Context(), noon, noon)
		if err != nil || len(got.Hours) != 2 || got.Damaged != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		for i, want := range []struct {
			hour    int
			route   string
			answers int64
			first   int
		}{{12, "a", 6, bucketOf(UnitSeconds, .2)}, {13, "b", 3, bucketOf(UnitSeconds, 1)}} {
			h := got.Hours[i]
			if h.Begin.Hour() != want.hour || h.Route != want.route || h.Answers != want.answers || h.Prompt != 100*want.answers || h.Completion != 10*want.answers {
				t.Errorf("%+v, want %+v", h, want)
			}
			for _, histogram := range h.histograms() {
				sum := int64(0)
				for _, n := range *histogram {
					sum += n
				}
				if sum != want.answers {
					t.Errorf("%s: %v are not %d answers", want.route, *histogram, want.answers)
				}
			}
			if len(h.TTFT) != want.first+1 || h.TTFT[want.first] != want.answers {
				t.Errorf("%s: first bytes %v, want all in bucket %d", want.route, h.TTFT, want.first)
			}
		}
	})
}

func TestAQuantileOfAHistogramIsWithinItsBucket(t *testing.T) {
	h := Histogram{10, 0, 30, 60} // 10 are 0; 30 up to 1.78; 60 up to 3.16
	for share, want := range map[float64]float64{0: 0, 0.1: 0, 0.25: math.Pow(10, 0.125), 0.4: math.Pow(10, 0.25), 1: math.Pow(10, 0.5)} {
		if got := h.Quantile(UnitTokens, share); math.Abs(got-want) > 1e-9 {
			t.Errorf("%g: %g, want %g", share, got, want)
		}
	}
	if got := (Histogram{}).Quantile(UnitTokens, 0.5); got != 0 {
		t.Errorf("of none: %g", got)
	}
}
