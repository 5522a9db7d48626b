package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// shortage makes times without room and asks every 100 ms in each of them what a client is
// told. It returns the median of told ÷ true.
func (b *bench) shortage(times []time.Duration) float64 {
	b.Rand = rand.New(rand.NewPCG(7, 1)).Float64
	var ratios []float64
	for _, lasts := range times {
		ends := b.now.Add(lasts)
		for b.mem.usage = 0.9; b.now.Before(ends); b.now = b.now.Add(100 * time.Millisecond) {
			told := errOf(b.t, b.enter(low, "t", nil)).RetryAfter
			is := min(ends.Sub(b.now).Truncate(time.Second)+time.Second, maxRetryAfter*time.Second)
			ratios = append(ratios, told.Seconds()/is.Seconds())
		}
		b.mem.usage = 0.5
		for range 20 {
			b.want(b.enter(low, "t", nil), "in")
			b.now = b.now.Add(time.Second)
		}
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

func TestWhatARefusalTellsIsNearTheTruthWhateverThePoolSays(t *testing.T) {
	seconds := func(all ...float64) (out []time.Duration) {
		for range 5 {
			for _, s := range all {
				out = append(out, time.Duration(s*float64(time.Second)))
			}
		}
		return out
	}
	for name, times := range map[string][]time.Duration{
		"short":               seconds(4),
		"long":                seconds(25),
		"of different length": seconds(2, 11, 5, 7, 3, 16),
		"flickering":          seconds(0.2, 0.2, 6, 0.3, 0.2, 8),
		"one of a minute":     {time.Minute},
	} {
		for _, guess := range []time.Duration{0, time.Second, time.Minute} {
			t.Run(fmt.Sprintf("%s, the pool says %v", name, guess), func(t *testing.T) {
				b := newBench(t)
				b.mem.wait = guess
				ratio := b.shortage(times)
				t.Logf("told ÷ true: %.2f", ratio)
				if ratio < 0.5 || ratio > 2 {
					t.Errorf("told ÷ true is %.2f in the middle", ratio)
				}
			})
		}
	}
}

func TestATimeWithoutRoomWhoseEndNobodySawIsNotTakenToHaveLastedUntilSomebodyCame(t *testing.T) {
	var a shedPeriod
	now := start
	for range 40 {
		a.refuse(now)
		now = now.Add(100 * time.Millisecond)
	}
	a.admit(now.Add(time.Hour))
	if a.typical < 3*time.Second || a.typical > 7*time.Second {
		t.Errorf("%v without room are taken to be usual, after 4 s of refusals", a.typical)
	}
	a.refuse(now.Add(2 * time.Hour))
	a.refuse(now.Add(3 * time.Hour)) // between them nobody came: this is another time
	if got := a.remaining(0); got > 4*time.Second {
		t.Errorf("%v are left", got)
	}
}

func TestWhoCameBeforeARefusalAndIsLetInLaterDoesNotEndIt(t *testing.T) {
	var a shedPeriod
	a.refuse(start.Add(time.Second))
	a.admit(start)
	if a.began.IsZero() {
		t.Error("it has ended")
	}
	a.refuse(start.Add(5 * time.Second))
	a.admit(start.Add(4 * time.Second)) // it waited, and was let in after the second refusal
	if !a.began.Equal(start.Add(5*time.Second)) || a.typical != 3*time.Second {
		t.Errorf("began %v, usual %v", a.began.Sub(start), a.typical)
	}
}
