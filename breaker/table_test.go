package breaker

import (
	"math/rand/v2"
	"testing"
	"time"
)

// noon is now in these tests.
var noon = time.Unix(1_800_000_000, 0)

func in(d time.Duration) time.Time { return noon.Add(d) }

const second = time.Second

// owns are the rows of the table, and what is at their edges.
var owns = []struct {
	name string
	own  ownState
}{
	{"closed", ownState{}},
	{"open", ownState{State: Open, Until: in(3 * second)}},
	{"due", ownState{State: Open, Until: noon}},
	{"due, half-open", ownState{State: HalfOpen, Until: in(-second)}},
	{"tried", ownState{State: HalfOpen, Until: in(-second), TrialDeadline: in(40 * second)}},
	{"tried, about to be half-open", ownState{State: Open, Until: noon, TrialDeadline: in(maxTrial)}},
	{"given up", ownState{State: HalfOpen, Until: in(-61 * second), TrialDeadline: noon}},
}

// fleets are its columns. Where the fleet rules, what it comes to is here.
var fleets = []struct {
	name   string
	fleet  view
	looked time.Time
	ruled  string
}{
	{name: "silent"},
	{name: "silent, too old", fleet: view{At: in(-staleAfter)}},
	{name: "silent, leased too long ago", fleet: view{State: HalfOpen, Until: in(5 * second), At: in(-staleAfter)}},
	{name: "silent, open too long ago", fleet: view{State: Open, Until: noon, At: in(-staleAfter)}},
	{name: "silent, prober gone", looked: in(-staleAfter)},
	{name: "probed", looked: in(-second)},
	{name: "probed, too old", fleet: view{At: in(-2 * second)}, looked: in(-second)},
	{name: "well known", fleet: view{At: in(-second)}},
	{name: "open", fleet: view{State: Open, Until: in(2 * second), At: in(-second)}, ruled: "refuse 2s, open, fleet says open"},
	{name: "open, too old", fleet: view{State: Open, Until: in(2 * second), At: in(-2 * second)},
		ruled: "refuse 2s, open, fleet says open"},
	{name: "due", fleet: view{State: Open, Until: noon, At: in(-second)},
		ruled: "refuse 0s probing, half-open, fleet says open, probe for all"},
	{name: "leased", fleet: view{State: HalfOpen, Until: in(5 * second), At: in(-second)},
		ruled: "refuse 5s probing, half-open, fleet says half-open"},
	{name: "lapsed", fleet: view{State: HalfOpen, Until: noon, At: in(-second)},
		ruled: "refuse 0s probing, half-open, fleet says half-open, probe for all"},
}

// byOwn is what comes of a row where the fleet does not rule: with nobody who probes, with a
// prober here, and where the fleet says closed.
var byOwn = map[string][3]string{
	"closed": {"pass, closed, says closed", "pass, closed, says closed", "pass, closed, says closed"},
	"open":   {"refuse 3s, open, says open", "refuse 3s, open, says open", "refuse 3s, open, says open, alone"},
	"due": {"trial, half-open, says open", "refuse 500ms probing, half-open, says open, probe its own",
		"refuse 500ms probing, half-open, says open, probe its own, alone"},
	"due, half-open": {"trial, half-open, says half-open", "refuse 500ms probing, half-open, says half-open, probe its own",
		"refuse 500ms probing, half-open, says half-open, probe its own, alone"},
	"tried": {"refuse 40s probing, half-open, says half-open", "refuse 40s probing, half-open, says half-open",
		"refuse 40s probing, half-open, says half-open, alone"},
	"tried, about to be half-open": {"refuse 1m0s probing, half-open, says open", "refuse 1m0s probing, half-open, says open",
		"refuse 1m0s probing, half-open, says open, alone"},
	"given up": {"trial, half-open, says half-open", "refuse 500ms probing, half-open, says half-open, probe its own",
		"refuse 500ms probing, half-open, says half-open, probe its own, alone"},
}

// String writes a verdict down.
func (v *verdict) String() string {
	s := [...]string{"pass", "trial", "refuse", "spare"}[v.Decision]
	if v.Decision == decideRefuse || v.Decision == decideSpare {
		s += " " + v.Remaining.String()
	}
	if v.Probing {
		s += " probing"
	}
	s += ", " + v.Display.String() + ", "
	if v.ByFleet {
		s += "fleet "
	}
	s += "says " + v.Shown.String() + [...]string{"", ", probe its own", ", probe for all"}[v.Probe]
	if v.Alone {
		s += ", alone"
	}
	return s
}

func TestEveryCellOfTheTable(t *testing.T) {
	cells := map[[2]int]bool{}
	for _, row := range owns {
		for _, col := range fleets {
			f := facts{Own: row.own, Fleet: col.fleet, Looked: col.looked, MayEject: true}
			cells[[2]int{int(f.Own.row(noon)), int(f.column(noon))}] = true
			want := col.ruled
			switch {
			case want != "":
			case col.name == "well known":
				want = byOwn[row.name][2]
			case col.looked.Equal(in(-second)):
				want = byOwn[row.name][1]
			default:
				want = byOwn[row.name][0]
			}
			v := combine(&f, noon)
			if got := v.String(); got != want {
				t.Errorf("own %s, fleet %s:\n got %s\nwant %s", row.name, col.name, got, want)
			}
		}
	}
	if n := len(table) * len(table[0]); len(cells) != n {
		t.Errorf("%d of %d cells were met", len(cells), n)
	}
}

// TestMaxEjectionSparesWhatAnswered: whoever rules, what was answered does not keep a backend out
// without the right to; what could not be reached does.
func TestMaxEjectionSparesWhatAnswered(t *testing.T) {
	for _, row := range owns {
		for _, col := range fleets {
			for i := range 4 {
				f := facts{Own: row.own, Fleet: col.fleet, Looked: col.looked, MayEject: true}
				f.Own.Cut, f.Fleet.Cut = i&1 != 0, i&2 != 0
				with := combine(&f, noon)
				f.MayEject = false
				without := combine(&f, noon)
				want := with.Decision
				if cut := map[bool]bool{false: f.Own.Cut, true: f.Fleet.Cut}[with.ByFleet]; want == decideRefuse && !cut {
					want = decideSpare
				}
				if without.Decision != want || without.EjectionCapped != (want == decideSpare) {
					t.Errorf("own %s, fleet %s, cut %b: %s, spared %v", row.name, col.name, i, &without, without.EjectionCapped)
				}
				without.Decision, without.EjectionCapped = with.Decision, with.EjectionCapped
				if with != without {
					t.Errorf("own %s, fleet %s: more than the decision has changed: %s and %s", row.name, col.name, &with, &without)
				}
			}
		}
	}
}

// TestWhatAChangeTellsOthers goes through all changes of what is shown, and of the own breaker.
func TestWhatAChangeTellsOthers(t *testing.T) {
	states := []State{Closed, HalfOpen, Open}
	for _, was := range states {
		for _, is := range states {
			for _, byFleet := range []bool{false, true} {
				f := facts{Own: ownState{State: is, Until: in(second)}, WasOwn: was, WasShown: was, MayEject: true}
				if byFleet {
					if is == Closed {
						continue // it never rules
					}
					f = facts{Fleet: view{State: is, Until: in(second), At: noon}, WasShown: was, MayEject: true}
				}
				v := combine(&f, noon)
				revoke, forget := was == Closed && is == Open && !byFleet, was != Closed && is == Closed
				if v.Revoke != revoke || v.Forget != forget || v.Moved != (was != is) || v.ByFleet != byFleet {
					t.Errorf("%s to %s, by the fleet %v: %+v; want revoke %v, forget %v", was, is, byFleet, v, revoke, forget)
				}
			}
		}
	}
}

// TestUntilIsWhenARefusalEnds holds the time that a pick goes by to the table.
func TestUntilIsWhenARefusalEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	at := func(spread time.Duration) time.Time {
		if rng.IntN(5) == 0 {
			return time.Time{}
		}
		return in(time.Duration(rng.Int64N(int64(2*spread))) - spread)
	}
	ends := 0
	for range 30_000 {
		f := facts{
			Own:   ownState{State: State(rng.IntN(3)), Until: at(4 * second), TrialDeadline: at(4 * second)},
			Fleet: view{State: State(rng.IntN(3)), Until: at(4 * second), At: at(3 * second)}, Looked: at(3 * second), MayEject: true,
		}
		switch f.Own.State { // as they are kept
		case Closed:
			f.Own = ownState{}
		case HalfOpen:
			f.Own.Until = time.Time{}
		}
		for _, past := range []*time.Time{&f.Fleet.At, &f.Looked} {
			if past.After(noon) {
				*past = noon
			}
		}
		v := combine(&f, noon)
		if refused := v.Decision == decideRefuse; refused != noon.Before(v.Until) {
			t.Fatalf("%+v: %s until %v", f, &v, v.Until)
		}
		if v.Decision != decideRefuse {
			continue
		}
		ends++
		before, after := combine(&f, v.Until.Add(-1)), combine(&f, v.Until)
		if before.Decision != decideRefuse || after.Decision == decideRefuse {
			t.Fatalf("%+v: until %v it is %s, then %s", f, v.Until, &before, &after)
		}
	}
	if ends < 3000 {
		t.Errorf("only %d refusals", ends)
	}
}
