package evidence

import (
	"math"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/risk"
)

// FuzzFields reads bytes that may be anybody's as a state: what is believed is what audits can have
// shown, and no longer than ours.
func FuzzFields(f *testing.F) {
	n := strings.TrimSpace(strings.Repeat("5 ", maxGrid))
	zero := strings.TrimSpace(strings.Repeat("0 ", maxGrid))
	f.Add(strings.Join([]string{"1700000000000000", "2", "0.9 0.5", "", "0.1", "0.05", "1", "0 0.1 -0.2", "0", "4", "", "3 7 1", n, zero, zero, "4 5 0", n, n, zero}, "\n"))
	f.Add(strings.Repeat("\n", len(names)-1))
	f.Add(strings.Join([]string{"", "", "", "0.1 0.2 1e-300", "0.1", "0.05", "0", "0 0 0", "1"}, "\n"))
	f.Fuzz(func(t *testing.T, in string) {
		values := make([]any, len(names))
		for i, v := range strings.SplitN(in, "\n", len(names)) {
			values[i] = v
		}
		fs, err := named(names, values)
		if err != nil {
			return
		}
		r := risk.Rule{MaxWrongRate: .1, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 500}
		if s, err := viewOf(fs); err == nil {
			if v := s.View(r); v.Op > len(s.Grid) || v.Hi > len(s.Grid) || len(s.Grid) > maxGrid || v.Version < 0 || v.Version == 0 && v.Serves() {
				t.Fatalf("%+v", v)
			}
		}
		w, err := wholeOf(fs)
		if err != nil {
			return
		}
		certified := 0
		for _, e := range w.Epochs {
			certified = max(certified, e.Cert)
			for j := range e.N {
				if e.O[j] < 0 || e.O[j] > e.K[j] || e.K[j] > e.N[j] {
					t.Fatalf("%+v", e)
				}
			}
		}
		for _, x := range append(append(w.Scores, w.Grid...), w.Drift[:]...) {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("%g is believed", x)
			}
		}
		if w.Op > certified || len(w.Epochs) > 2 || len(w.Scores) >= risk.GridScores || w.missing && (w.Version != 0 || w.Op != 0) {
			t.Fatalf("%+v", w)
		}
		w.Summarise(r)
	})
}

// FuzzLog reads an entry of the log, a name of the index and a list of versions.
func FuzzLog(f *testing.F) {
	f.Add("1700000000000-3", "x-1", chat.String(), "0.9", "0.1 0.2", "12", "1 2 3")
	f.Add("1700000000000-3", "x-1", chat.String(), "0.9", "exact=bad lenient=good", "1", "1")
	f.Add("-", "", "//", "nan", strings.Repeat("1 ", 9), "-1", "99999999999 x 1")
	f.Fuzz(func(t *testing.T, id, ticket, key, score, features, count, list string) {
		values := map[string]any{"opened": ticket, "closed": ticket, "bad": count, "key": key, "score": score, "floor": score, "threshold": score, "features": features, "tokens": count, "version": count, "request": list}
		if e, ok := openedOf(id, values); ok {
			name, err := nameOf(e.Key)
			if err != nil || name != key || math.IsNaN(e.Score) || math.IsInf(e.Score, 0) || len(e.Features) > maxFeatures || e.Tokens < 0 || e.Version < 0 || len(e.Request) > 64 || e.Check() != nil {
				t.Fatalf("%+v", e)
			}
		}
		if p, _, ok := closedOf(values); ok && (p.key.String() != key || len(p.ticket) > 64) {
			t.Fatalf("%+v", p)
		}
	})
}
