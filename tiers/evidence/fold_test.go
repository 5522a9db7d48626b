package evidence

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// history is a random one of a log that several replicas write and fold, each at its own pace.
type history struct {
	t        *testing.T
	rng      *rand.Rand
	log      []risk.Message
	replicas []*risk.Fold
	open     []opened
	snapshot string // of whoever wrote the last one
	n        int
	good     map[string]bool // tickets whose audit was good and whose close was written
	seen     map[string]int
}

// opened is an audit that a replica has opened.
type opened struct {
	ticket, class string
	bad           bool
}

// write appends an entry; at times twice, as a client that repeats it does.
func (h *history) write(e risk.Entry) {
	for range 1 + h.rng.IntN(20)/19 {
		last := h.log[len(h.log)-1].ID
		id := risk.ID{MS: last.MS + uint64(h.rng.IntN(3)*h.rng.IntN(2000)), Seq: 0}
		if h.rng.IntN(5000) == 0 {
			id.MS += uint64(keptFor.Milliseconds() * 2 / 3)
		}
		if id.MS == last.MS {
			id.Seq = last.Seq + 1
		}
		m := risk.Message{ID: id, Entry: e}
		if h.rng.IntN(200) == 0 { // something else was written between
			m.Entry = foreignEntries[h.rng.IntN(len(foreignEntries))]
		}
		h.log = append(h.log, m)
	}
}

// step is something that one of the replicas does, by what it has folded so far.
func (h *history) step() {
	f := h.replicas[h.rng.IntN(len(h.replicas))]
	class := []string{"all.a", "all_t0.a"}[h.rng.IntN(2)]
	rule := plain
	if h.n/3000%2 == 1 { // the settings change, and replicas hear of it one after the other
		rule.MaxDisagreement = .3
	}
	k := f.Kinds[class]
	if k == nil {
		k = &risk.State{}
	}
	h.n++
	switch h.rng.IntN(20) {
	case 0:
		h.write(risk.Entry{Do: risk.DoDrafts, Class: class, Rule: rule, Made: h.rng.IntN(3), Served: h.rng.IntN(2)})
	case 1:
		ticket := fmt.Sprint("w", h.n)
		h.write(risk.Entry{Do: risk.DoWarmup, Class: class, Rule: rule, Ticket: ticket})
		h.open = append(h.open, opened{ticket, class, h.rng.IntN(40) == 0})
	case 2, 3, 4, 5, 6, 7, 8, 9:
		a := risk.Audit{Decision: k.View(rule).Decide(risk.Key{Route: "r", TrafficClass: class}, risk.Sampling{Rate: 1, FullRange: .2}, h.rng.Float64()), Ticket: fmt.Sprint("t", h.n), Score: math.Sqrt(h.rng.Float64())}
		h.write(risk.Entry{Do: risk.DoOpen, Class: class, Rule: rule, Audit: &a})
		h.open = append(h.open, opened{a.Ticket, class, h.rng.Float64() < .4-.4*a.Score})
	case 10:
		switch h.rng.IntN(400) {
		case 0:
			h.write(risk.Entry{Do: risk.DoReset, Class: class})
		case 1:
			h.write(risk.Entry{Do: risk.DoBegin, Again: h.rng.IntN(2) == 0, Record: f.Record})
		case 2:
			h.write(risk.Entry{Do: risk.DoPrior, Class: class, Rule: rule, Prior: &risk.Import{Grid: risk.Grid{.9, .5}, Epoch: risk.Epoch{Audits: 90, Tally: risk.Tally{N: [16]int{60, 90}, K: [16]int{0, 2}}}}})
		case 3:
			h.write(risk.Entry{Do: risk.DoSaved})
			text, err := json.Marshal(f)
			if err != nil {
				h.t.Fatal(err)
			}
			h.snapshot = string(text)
		default:
			h.write(risk.Entry{Do: risk.DoRefits, Was: risk.Digest(f.Record), Record: fmt.Sprint(h.n)})
		}
	default:
		if len(h.open) == 0 {
			return
		}
		at := h.rng.IntN(len(h.open))
		o := h.open[at]
		h.open = slices.Delete(h.open, at, at+1)
		if h.rng.IntN(10) == 0 {
			return // its replica died
		}
		h.good[o.ticket] = h.good[o.ticket] || !o.bad
		h.write(risk.Entry{Do: risk.DoClose, Class: o.class, Rule: rule, Ticket: o.ticket, Bad: o.bad})
	}
}

// read folds up to so many entries that a replica has not folded.
func (h *history) read(f *risk.Fold, most int) {
	at, _ := slices.BinarySearchFunc(h.log, f.Last, func(m risk.Message, id risk.ID) int { return m.ID.Compare(id) })
	for i := at; i < len(h.log) && most > 0; i++ {
		if h.log[i].ID == f.Last {
			continue
		}
		result, _ := f.Apply("r", &h.log[i])
		h.seen[result]++
		most--
	}
}

// restart makes a replica begin from the last snapshot; without one, from the beginning of the log.
func (h *history) restart(i int) {
	f := &risk.Fold{}
	if h.snapshot != "" {
		if err := json.Unmarshal([]byte(h.snapshot), f); err != nil {
			h.t.Fatal(err)
		}
	}
	h.replicas[i] = f
}

// agree fails unless all replicas come to the same state.
func (h *history) agree() {
	h.t.Helper()
	want := ""
	for i, f := range h.replicas {
		h.read(f, math.MaxInt)
		text, err := json.Marshal(f)
		if err != nil {
			h.t.Fatal(err)
		}
		if want == "" {
			want = string(text)
		} else if want != string(text) {
			h.t.Fatalf("after %d entries replica %d has\n%s\nand the first\n%s", len(h.log), i, text, want)
		}
		if len(f.Kinds) > 0 && !f.IsWhole() {
			h.t.Fatalf("a snapshot of it would be refused: %s", text)
		}
		for _, k := range f.Kinds {
			sound(h.t, *k)
		}
	}
}

// foreignEntries are what no replica writes, or only a broken one.
var foreignEntries = []risk.Entry{
	{}, {Do: "else", Class: "all.a", Rule: plain}, {Do: risk.DoOpen, Class: "all.a", Rule: plain}, {Do: risk.DoClose, Class: "all.a", Rule: plain, Ticket: "a b"},
	{Do: risk.DoOpen, Class: "all.a", Rule: plain, Audit: &risk.Audit{Decision: risk.Decision{Key: risk.Key{Route: "r", TrafficClass: "c"}}, Ticket: "x"}},
	{Do: risk.DoClose, Class: "a/b", Rule: plain, Ticket: "t1"}, {Do: risk.DoClose, Class: "all.a", Ticket: "t1"}, {Do: risk.DoPrior, Class: "all.a", Rule: plain},
	{Do: risk.DoDrafts, Class: "all.a", Rule: plain, Made: -1}, {Do: risk.DoPrior, Class: "all.a", Rule: plain, Prior: &risk.Import{Grid: risk.Grid{1}, Epoch: risk.Epoch{Audits: 1, Tally: risk.Tally{N: [16]int{1}, K: [16]int{2}}}}},
}

func TestReplicasThatFoldOneLogComeToOneState(t *testing.T) {
	steps := 1_000_000
	if testing.Short() {
		steps = 20_000
	}
	seen := map[string]int{}
	const histories = 8
	for seed := range uint64(histories) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := &history{t: t, rng: rng, good: map[string]bool{}, seen: seen}
		h.log = []risk.Message{{ID: risk.ID{MS: 1_700_000_000_000, Seq: 0}, Entry: risk.Entry{Do: risk.DoBegin}}}
		for range 2 + rng.IntN(4) {
			h.replicas = append(h.replicas, &risk.Fold{})
		}
		for i := range steps / histories {
			h.step()
			h.read(h.replicas[rng.IntN(len(h.replicas))], rng.IntN(8)) // the others are late
			if rng.IntN(300) == 0 {
				h.restart(rng.IntN(len(h.replicas)))
			}
			if i%1000 == 999 {
				h.agree()
			}
			if n := len(h.log); n > 20_000 && h.snapshot != "" {
				h.agree() // what is trimmed was read by all
				h.write(risk.Entry{Do: risk.DoSaved})
				h.agree()
				text, _ := json.Marshal(h.replicas[0])
				h.snapshot, h.log = string(text), slices.Clone(h.log[len(h.log)-1:])
			}
		}
		h.agree()
	}
	for _, want := range []string{string(risk.Opened), string(risk.Learned), string(risk.Stale), string(risk.OutOfRange), string(risk.Full), risk.Good, risk.Bad, risk.Lost, risk.Done, risk.Nothing} {
		if seen[want] == 0 {
			t.Errorf("no entry was %s: %v", want, seen)
		}
	}
}

func TestAForeignEntryChangesNothing(t *testing.T) {
	r := join(t, "")
	r.certify()
	r.open("under-way", 1)
	f := r.fold()
	f.Last = risk.ID{}
	was, _ := json.Marshal(f)
	for i := range foreignEntries {
		if _, err := f.Apply("r", &risk.Message{ID: risk.ID{}, Entry: foreignEntries[i]}); err == nil {
			t.Errorf("%+v was folded", foreignEntries[i])
		}
	}
	if is, _ := json.Marshal(f); string(is) != string(was) {
		t.Errorf("%s\nwas\n%s", is, was)
	}
}

func TestASnapshotThatCannotGoOnIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(f *risk.Fold, s *risk.State){
		"no beginning":         func(f *risk.Fold, _ *risk.State) { f.Began = risk.ID{} },
		"no kinds":             func(f *risk.Fold, _ *risk.State) { f.Kinds = nil },
		"a kind that is null":  func(f *risk.Fold, _ *risk.State) { f.Kinds["x"] = nil },
		"a long grid":          func(_ *risk.Fold, s *risk.State) { s.Grid = make(risk.Grid, 99) },
		"an index beyond it":   func(_ *risk.Fold, s *risk.State) { s.Epochs[0].Cert = 99 },
		"an index below it":    func(_ *risk.Fold, s *risk.State) { s.Epochs[0].Cert = -1 },
		"an audit beyond it":   func(_ *risk.Fold, s *risk.State) { s.Tickets["under-way"] = risk.OpenAudit{First: 1, Hi: 99} },
		"an audit of no index": func(_ *risk.Fold, s *risk.State) { s.Tickets["under-way"] = risk.OpenAudit{Hi: 1} },
		"more kinds than there": func(f *risk.Fold, s *risk.State) {
			for i := range risk.MaxKinds {
				f.Kinds[fmt.Sprint(i)] = s
			}
		},
	} {
		r := join(t, "")
		r.certify()
		r.open("under-way", 1)
		f := r.fold()
		if !f.IsWhole() {
			t.Fatal("a fold is refused")
		}
		if spoil(f, f.Kinds[chat.TrafficClass]); f.IsWhole() {
			t.Errorf("%s: it is believed", name)
		}
	}
}

func TestKindsThatNobodyUsesGoAndNoMoreComeThanFit(t *testing.T) {
	f := &risk.Fold{Began: risk.ID{MS: 1, Seq: 0}, Kinds: map[string]*risk.State{}}
	now := time.Unix(2e9, 0)
	put := func(class string, at time.Time) string {
		result, err := f.Apply("r", &risk.Message{ID: risk.ID{MS: uint64(at.UnixMilli()), Seq: 0}, Entry: risk.Entry{Do: risk.DoDrafts, Class: class, Rule: plain, Made: 1}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	put("old", now.Add(-keptFor-time.Minute))
	put("kept", now.Add(-keptFor+time.Minute))
	put("new", now)
	if len(f.Kinds) != 2 || f.Kinds["old"] != nil {
		t.Errorf("%d kinds", len(f.Kinds))
	}
	for i := range risk.MaxKinds - 2 {
		put(fmt.Sprint("k", i), now)
	}
	if got := put("more", now); got != risk.Done || len(f.Kinds) != risk.MaxKinds { // kept has not been used for an hour
		t.Errorf("%s, %d kinds", got, len(f.Kinds))
	}
	if got := put("one-too-many", now); got != string(risk.Full) || len(f.Kinds) != risk.MaxKinds {
		t.Errorf("%s, %d kinds", got, len(f.Kinds))
	}
	if got := put("one-too-many", now.Add(2*time.Hour)); got != risk.Done {
		t.Errorf("once there is room: %s", got)
	}
}

func TestAfterALossNoWarmupBeginsForADay(t *testing.T) {
	began := uint64(1_700_000_000_000)
	day := uint64(noWarmup.Milliseconds())
	for _, c := range []struct {
		again bool
		after uint64
		runs  bool
	}{{true, 1000, false}, {true, day + 1000, true}, {false, 1000, true}} {
		f := &risk.Fold{}
		for _, m := range []risk.Message{
			{ID: risk.ID{MS: began, Seq: 0}, Entry: risk.Entry{Do: risk.DoBegin, Again: c.again}},
			{ID: risk.ID{MS: began + c.after, Seq: 0}, Entry: risk.Entry{Do: risk.DoDrafts, Class: "c", Rule: plain, Made: 1}},
		} {
			if _, err := f.Apply("r", &m); err != nil {
				t.Fatal(err)
			}
		}
		w := f.Kinds["c"].Warmup
		if now := time.UnixMilli(int64(began + c.after)); w.IsRunning(now, time.Hour) != c.runs {
			t.Errorf("%+v: %+v", c, w)
		}
	}
}

// Those of package risk.
const keptFor, noWarmup = 7 * 24 * time.Hour, 24 * time.Hour

// FuzzSnapshot: no snapshot that is taken makes a fold panic that goes on, or what is told of it.
func FuzzSnapshot(f *testing.F) {
	r := join(f, "")
	r.certify()
	r.open("under-way", 1)
	r.OpenWarmup(f.Context(), chat, "w")
	text, err := json.Marshal(r.fold())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Fuzz(func(t *testing.T, text string) {
		fold := &risk.Fold{}
		if json.Unmarshal([]byte(text), fold) != nil || !fold.IsWhole() {
			return
		}
		key := risk.Key{Route: "r", TrafficClass: chat.TrafficClass}
		tell := func() risk.View {
			s := fold.Kinds[key.TrafficClass]
			if s == nil {
				return risk.View{}
			}
			k := risk.KeyState{Key: key, State: s.Copy(), Rule: plain}
			k.Summary(time.Now(), time.Hour)
			risk.FrontierOf(&k, []risk.LogEntry{{Label: risk.Good}}, 1, busy)
			return s.View(plain)
		}
		a := risk.Audit{Decision: tell().Decide(key, risk.Sampling{Rate: 1, FullRange: 1}, 0), Ticket: "t", Score: 1}
		for i, e := range []risk.Entry{
			{Do: risk.DoOpen, Audit: &a}, {Do: risk.DoWarmup, Ticket: "v"}, {Do: risk.DoClose, Ticket: "under-way"},
			{Do: risk.DoClose, Ticket: "t", Bad: true}, {Do: risk.DoClose, Ticket: "w"}, {Do: risk.DoDrafts, Made: 1}, {Do: risk.DoReset},
		} {
			e.Class, e.Rule = key.TrafficClass, plain
			if _, err := fold.Apply(key.Route, &risk.Message{ID: risk.ID{MS: 1 << 41, Seq: uint64(i)}, Entry: e}); err != nil {
				t.Fatal(err)
			}
			tell()
		}
	})
}
