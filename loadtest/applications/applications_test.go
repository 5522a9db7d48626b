package applications

import (
	"os"
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

// The laws, with mixes that move: what is served, and how often the target disagrees. It prints the table of
// docs/measurements.md#applications.
func TestProofApplications(t *testing.T) {
	if os.Getenv("FOREGATE_PROOFS") != "long" {
		t.Skip("a proof: make risk")
	}
	const n, seeds = 60_000, 5
	for _, law := range []Law{Designed, Measured} {
		for _, unknown := range []bool{false, true} {
			first, last, worst := 0.0, 0.0, 0.0
			for seed := range uint64(seeds) {
				r := of(law, seed+1, n)
				r.ShareOf, r.Unknown = night, unknown
				out := r.Do()
				q := out.Over(n*3/4, n)
				hour := 0.0
				for h := 3600; h+3600 <= n; h += 3600 { // the first is the warm-up's
					if w := out.Over(h, h+3600); w.Served > 100 {
						hour = max(hour, w.Disagreement())
					}
				}
				w := out.Over(3000, 4000)
				t.Logf("%s, told apart %v, seed %d: served %.3f in requests 3,000 to 4,000, %.3f in the last quarter, with a disagreement of %.3f; worst hour %.3f; %d audits",
					law.Name, !unknown, seed+1, w.Share(), q.Share(), q.Disagreement(), hour, out.Over(0, n).Audits)
				first, last, worst = first+w.Share()/seeds, last+q.Share()/seeds, max(worst, hour)
				if q.Disagreement() > eps {
					t.Errorf("seed %d: a disagreement of %.3f in the last quarter", seed+1, q.Disagreement())
				}
			}
			t.Logf("%s, told apart %v: %.3f, then %.3f", law.Name, !unknown, first, last)
			if law.Name == Designed.Name && !unknown && (first < .2 || last < .33 || worst > eps+.02) {
				t.Errorf("served %.3f, then %.3f; the worst hour %.3f", first, last, worst)
			}
		}
	}
}
