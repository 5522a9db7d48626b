package applications

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// fingerprint is that of a version of an application's prompt: of each of two versions another digit of the sketch is changed.
func fingerprint(app, version int) string {
	sketch := fmt.Appendf(nil, "%08x", uint32(app+1)*0x9e3779b1)
	sketch[version%8] = "0123456789abcdef"[version%16]
	return fmt.Sprintf("%s%08x", sketch, version)
}

// versionOf is which version of its prompt an application has: each has another one every three hours, one after the other.
func versionOf(at time.Duration, app int) int {
	return int(at/time.Minute+time.Duration(36*app)) / 180
}

// newcomers are the designed law's applications, and one more each hour, which stays for three.
var newcomers = Law{"newcomers", append(append([]float64{}, Designed.Agreement...), .95, .5, .9, .2, .95, .5, .9, .2), gap70}

// impostors are the designed law's applications, and easy traffic.
var impostors = Law{"impostors", append(append([]float64{}, Designed.Agreement...), .99), gap70}

// changes are what may happen to applications, at one request a second. Where what was certified becomes something else, the hour in
// which it does is not held to the bound: an application turns bad, or all go on as others, which are counted together until each has
// audits enough.
var changes = []struct {
	name    string
	of      Run
	another bool
}{
	{name: "prompts change", of: Run{Law: Designed, NameOf: func(at time.Duration, app int) string { return fingerprint(app, versionOf(at, app)) }}},
	{name: "prompts change beyond recognition", another: true, of: Run{Law: Designed, NameOf: func(at time.Duration, app int) string {
		return strconv.Itoa(app) + "." + strconv.Itoa(versionOf(at, app))
	}}},
	{name: "a new one each hour", of: Run{Law: newcomers, ShareOf: func(at time.Duration, app int) float64 {
		if since := int(at.Hours()) - (app - len(Designed.Agreement)); app >= len(Designed.Agreement) && (since < 0 || since >= 3) {
			return 0
		}
		return 1
	}}},
	{name: "easy traffic under a bad one's name, in every second hour", of: Run{Law: impostors,
		ShareOf: func(at time.Duration, app int) float64 {
			if app == len(Designed.Agreement) && int(at.Hours())%2 == 0 {
				return 0
			}
			return 1
		},
		NameOf: func(_ time.Duration, app int) string { return strconv.Itoa(min(app, 3)) + ".app" },
	}},
	{name: "the best one turns bad", another: true, of: Run{Law: Designed, Agrees: func(at time.Duration, app int) float64 {
		if app == 0 && at >= 4*time.Hour+30*time.Minute {
			return .35
		}
		return Designed.Agreement[app]
	}}},
}

// What happens to applications does not break the bound, in any hour of any seed. It prints a table of
// docs/measurements.md#applications.
func TestProofChanges(t *testing.T) {
	hours, seeds, told := 3, 1, changes[:1]
	if isLong() {
		hours, seeds, told = 8, 5, changes
	}
	for _, c := range told {
		t.Run(c.name, func(t *testing.T) {
			share, worst, bad, best := 0.0, 0.0, 0.0, 0.0
			for seed := range uint64(seeds) {
				r := c.of
				r.Seed, r.Requests, r.PerSecond, r.Replicas, r.Settings = seed+1, hours*3600, 1, 1, of(r.Law, 0, 0).Settings
				out := r.Do()
				w := out.Over(3600, r.Requests)
				share, bad, worst = share+w.Share()/float64(seeds), bad+w.Disagreement()/float64(seeds), max(worst, out.worstHour())
				best += r.best() / float64(seeds)
				t.Logf("seed %d: served %.3f after the first hour, with a disagreement of %.3f; worst hour %.3f; by application %v of %v", seed+1, w.Share(), w.Disagreement(), out.worstHour(), w.ServedOf, w.Of)
			}
			t.Logf("| %s | %.3f | %.3f | %.3f | %.3f |", c.name, share, best, bad, worst)
			if worst > eps && !c.another || bad > eps {
				t.Errorf("a disagreement of %.3f, in the worst hour %.3f", bad, worst)
			}
		})
	}
}

// best is what an oracle serves of the run after its first hour.
func (r *Run) best() (share float64) {
	const step = 10 * time.Minute
	end := time.Duration(r.Requests) * time.Second
	for at := time.Hour; at < end; at += step {
		law, mix := Law{"", make([]float64, len(r.Agreement)), r.Gap}, make([]float64, len(r.Agreement))
		for a := range mix {
			if mix[a], law.Agreement[a] = 1, r.Agreement[a]; r.ShareOf != nil {
				mix[a] = r.ShareOf(at, a)
			}
			if r.Agrees != nil {
				law.Agreement[a] = r.Agrees(at, a)
			}
		}
		share += law.Oracle(mix, eps) * float64(step) / float64(end-time.Hour)
	}
	return share
}
