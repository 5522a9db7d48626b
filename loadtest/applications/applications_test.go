package applications

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/settings"
)

// eps is risk.max_disagreement by default.
const eps = 0.1

// of is a run of a law with three replicas at a request a second, by the default settings.
func of(law Law, seed uint64, requests int) Run {
	return Run{Law: law, Seed: seed, Requests: requests, PerSecond: 1, Replicas: 3, Settings: settings.Defaults()}
}

// night is another mix in each fourth hour: the best application is nearly away, and in each eighth hour the best two are.
func night(at time.Duration, app int) float64 {
	if hour := int(at.Hours()); hour%4 == 3 && app == 0 || hour%8 == 7 && app == 1 {
		return .1
	}
	return 1
}

func TestDraftsAreServedWhereApplicationsAgree(t *testing.T) {
	known, unknown := of(Designed, 3, 9000), of(Designed, 3, 9000)
	unknown.Unknown = true
	told, mixed := known.Do(), unknown.Do()
	with, without := told.Over(6000, 9000), mixed.Over(6000, 9000)
	t.Logf("served %.3f with a disagreement of %.3f, by application %v; where applications are not told apart %.3f", with.Share(), with.Disagreement(), with.ServedOf, without.Share())
	if with.Share() < .3 || with.Disagreement() > eps || without.Share() > .1 {
		t.Errorf("served %.3f, disagreement %.3f; not told apart %.3f", with.Share(), with.Disagreement(), without.Share())
	}
}

func TestAnApplicationThatTurnsBadIsContainedAndAnotherGoesOn(t *testing.T) {
	r := of(Designed, 2, 14_000)
	const turn = 9000
	r.Agrees = func(at time.Duration, app int) float64 {
		if app == 0 && at >= turn*time.Second {
			return .35
		}
		return r.Agreement[app]
	}
	out := r.Do()
	during, after := out.Over(turn, turn+2500), out.Over(turn+2500, 14_000)
	t.Logf("of its first %d requests %d were served, of the next %d %d; of the others' %d", during.Of[0], during.ServedOf[0], after.Of[0], after.ServedOf[0], after.ServedOf[1])
	if during.ServedOf[0] > during.Of[0]/2 || after.ServedOf[0] > 0 || after.ServedOf[1] < 50 || after.Disagreement() > eps {
		t.Errorf("after it turned: %+v, then %+v", during, after)
	}
}

// What comes before the first certificate, by requests a second. It prints the table of docs/measurements.md#time-to-value.
func TestProofTimeToValue(t *testing.T) {
	seeds := 1
	if isLong() {
		seeds = 5
	}
	for _, perSecond := range []float64{1, 10, 100} {
		var requests, audits []int
		for seed := range uint64(seeds) {
			r := of(Designed, seed+1, 4000)
			r.PerSecond = perSecond
			out := r.Do()
			if out.First == 0 {
				t.Fatalf("%.0f a second, seed %d: no certificate in %d requests", perSecond, seed+1, r.Requests)
			}
			requests, audits = append(requests, out.First), append(audits, out.Audits)
		}
		slices.Sort(requests)
		slices.Sort(audits)
		n, a, last := requests[seeds/2], audits[seeds/2], requests[seeds-1]
		usd := float64(a*auditTokens) * perMillion / 1e6
		t.Logf("| %.0f | %d (%d to %d) | %v | %d (%d to %d) | $%.2f |", perSecond, n, requests[0], last,
			time.Duration(float64(n)/perSecond)*time.Second, a, audits[0], audits[seeds-1], usd)
		if n > 3000 || a > 1500 {
			t.Errorf("%.0f a second: %d requests and %d audits until the first certificate", perSecond, n, a)
		}
	}
}

const (
	// auditTokens is what the target computes for an audit of the lab's drafts: a prompt of 200 tokens, and 200 of the draft.
	auditTokens = 400
	// perMillion is the price of a million of these, in dollars.
	perMillion = 1.0
)

// isLong says that the proofs are asked for in full, as `make risk` does.
func isLong() bool { return os.Getenv("FOREGATE_PROOFS") == "long" }

// oracle is what one who knows the law could serve at most of the requests from one number to another, at one a second.
func oracle(law Law, from, to int) (share float64) {
	const step = 100
	for i := from; i < to; i += step {
		mix := make([]float64, len(law.Agreement))
		for a := range mix {
			mix[a] = night(time.Duration(i)*time.Second, a)
		}
		share += law.Oracle(mix, eps) * step / float64(to-from)
	}
	return share
}

func TestAnOracleServesWhatTheArithmeticOfTheLawSays(t *testing.T) {
	if day, last := oracle(Designed, 0, 3600), oracle(Designed, 45_000, 60_000); day < .57 || day > .59 || last < .47 || last > .50 {
		t.Errorf("an oracle serves %.3f of a day's mix, and %.3f with the nights of the last quarter", day, last)
	}
}

// The laws, with mixes that move: what is served, and how often the target disagrees. It prints the table of
// docs/measurements.md#applications.
func TestProofApplications(t *testing.T) {
	if !isLong() {
		t.Skip("a proof: make risk")
	}
	for _, law := range []Law{Designed, Measured} {
		t.Run(law.Name, func(t *testing.T) {
			t.Run("told apart", func(t *testing.T) { proveLaw(t, law, false) })
			t.Run("not told apart", func(t *testing.T) { proveLaw(t, law, true) })
		})
	}
}

func proveLaw(t *testing.T, law Law, unknown bool) {
	const n, seeds = 60_000, 5
	first, last, worst := 0.0, 0.0, 0.0
	for seed := range uint64(seeds) {
		r := of(law, seed+1, n)
		r.ShareOf, r.Unknown = night, unknown
		out := r.Do()
		w, q, hour := out.Over(3000, 4000), out.Over(n*3/4, n), out.worstHour()
		t.Logf("| %d | %.3f | %.3f | %.3f | %.3f | %d |", seed+1, w.Share(), q.Share(), q.Disagreement(), hour, out.Over(0, n).Audits)
		first, last, worst = first+w.Share()/seeds, last+q.Share()/seeds, max(worst, hour)
		if q.Disagreement() > eps {
			t.Errorf("seed %d: a disagreement of %.3f in the last quarter", seed+1, q.Disagreement())
		}
	}
	t.Logf("served %.3f, then %.3f; an oracle serves %.3f, then %.3f", first, last, oracle(law, 3000, 4000), oracle(law, n*3/4, n))
	if law.Name == Designed.Name && !unknown && (first < .25 || last < .33 || worst > eps+.02) {
		t.Errorf("served %.3f, then %.3f; the worst hour %.3f", first, last, worst)
	}
}

// worstHour is the largest disagreement of an hour after the first, which is the warm-up's, at one request a second. Hours in
// which hardly any draft is served do not count.
func (r *Result) worstHour() (worst float64) {
	for h := 3600; h+3600 <= r.Every*len(r.Windows); h += 3600 {
		if w := r.Over(h, h+3600); w.Served > 100 {
			worst = max(worst, w.Disagreement())
		}
	}
	return worst
}
