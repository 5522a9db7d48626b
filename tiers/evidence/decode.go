package evidence

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/risk"
)

// maxCount is the largest accepted count; Lua represents all integers up to it exactly.
const maxCount = 9e15

// errNotOurs means bytes that no script of ours writes.
var errNotOurs = errors.New("not what was written")

// fields is a reply to HMGET, or a script's, by name. A missing field is "".
type fields map[string]string

// named assigns names to the values of a reply.
func named(names []string, values []any) (fields, error) {
	if len(values) != len(names) {
		return nil, fmt.Errorf("%d values for %d fields: %w", len(values), len(names), errNotOurs)
	}
	f := make(fields, len(names))
	for i, v := range values {
		s, ok := v.(string)
		if v != nil && !ok || len(s) > maxValue {
			return nil, fmt.Errorf("field %s: %w", names[i], errNotOurs)
		}
		f[names[i]] = s
	}
	return f, nil
}

// reader decodes fields and keeps the first error.
type reader struct {
	fields fields
	err    error
}

func (r *reader) wrong(name string) {
	if r.err == nil {
		r.err = fmt.Errorf("field %s: %w", name, errNotOurs)
	}
}

// count parses a field of digits; "" is 0.
func (r *reader) count(name string) int64 {
	if r.fields[name] == "" {
		return 0
	}
	n, ok := digits(r.fields[name])
	if !ok {
		r.wrong(name)
	}
	return n
}

func digits(s string) (int64, bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n <= maxCount
}

// reals parses a field of at most so many finite numbers.
func (r *reader) reals(name string, maxCount int) []float64 {
	words := strings.Fields(r.fields[name])
	if len(words) > maxCount {
		r.wrong(name)
		return nil
	}
	var out []float64
	for _, w := range words {
		x, err := strconv.ParseFloat(w, 64)
		if err != nil || math.IsNaN(x) || math.Abs(x) > 1e300 {
			r.wrong(name)
			return nil
		}
		out = append(out, x)
	}
	return out
}

// real parses a field of one number; "" is 0.
func (r *reader) real(name string) float64 {
	x := r.reals(name, 1)
	if len(x) == 0 {
		return 0
	}
	return x[0]
}

// counts parses a field of exactly len(into) counts.
func (r *reader) counts(name string, into []int) {
	words := strings.Fields(r.fields[name])
	if len(words) != len(into) {
		r.wrong(name)
		return
	}
	for i, w := range words {
		n, ok := digits(w)
		if !ok {
			r.wrong(name)
		}
		into[i] = int(n)
	}
}

// viewOf decodes the part of a state that a view needs.
func viewOf(f fields) (risk.State, error) {
	r := &reader{fields: f}
	s := r.view()
	if r.err != nil {
		return risk.State{}, r.err
	}
	return s, nil
}

func (r *reader) view() risk.State {
	s := risk.State{
		Version: r.count("version"), Alarm: r.count("alarm"), Op: int(r.count("op")), Infeasible: r.fields["hopeless"] == "1",
		MaxWrongRate: r.real("eps"), ErrorProbability: r.real("delta"), Grid: r.reals("grid", maxGrid), Scores: r.reals("scores", risk.GridScores-1),
		Warmup: r.warmup(),
	}
	drift := r.reals("drift", len(s.Drift))
	copy(s.Drift[:], drift)
	if len(drift) != 0 && len(drift) != len(s.Drift) {
		r.wrong("drift")
	}
	if h := r.fields["hopeless"]; h != "" && h != "0" && h != "1" {
		r.wrong("hopeless")
	}
	for i := 1; i < len(s.Grid); i++ {
		if s.Grid[i] >= s.Grid[i-1] {
			r.wrong("grid")
		}
	}
	if (s.Version > 0) != (len(s.Grid) > 0) {
		r.wrong("version")
	}
	if s.Op > len(s.Grid) {
		r.wrong("op")
	}
	return s
}

// warmup parses a field of seven counts; "" is all zero.
func (r *reader) warmup() risk.Warmup {
	var n [7]int
	if r.fields["warmup"] != "" {
		r.counts("warmup", n[:])
	}
	w := risk.Warmup{Began: int64(n[0]), Drafts: n[1], Served: n[2], Audits: n[3], Bad: n[4], Open: n[5], Ended: risk.WarmupEnd(min(n[6], 255))}
	if w.Open > w.Bad || w.Bad > w.Audits || w.Ended > risk.WarmupWrong {
		r.wrong("warmup")
	}
	return w
}

// maxGrid is the maximum length of a grid.
const maxGrid = len(risk.Epoch{}.N)

// fullState is a state with all its evidence.
type fullState struct {
	risk.State
	missing bool // the key does not exist
}

// wholeOf decodes a state without the audits in progress.
func wholeOf(f fields) (fullState, error) {
	r := &reader{fields: f}
	w := fullState{State: r.view(), missing: true}
	for _, v := range f {
		w.missing = w.missing && v == ""
	}
	born := r.count("born")
	w.Cold, w.Outcomes = int(r.count("cold")), int(r.count("outcomes"))
	if w.Version > 0 && len(w.Scores) > 0 {
		r.wrong("scores")
	}
	certified := 0
	for i := 1; i <= 2; i++ {
		if e, ok := r.epoch(strconv.Itoa(i)); ok {
			if len(w.Epochs) != i-1 || e.ID > born || e.Cert > len(w.Grid) || i == 2 && w.Epochs[0].ID >= e.ID || w.Version == 0 {
				r.wrong("e" + strconv.Itoa(i))
				break
			}
			w.Epochs = append(w.Epochs, e)
			certified = max(certified, e.Cert)
		}
	}
	if w.Op > certified {
		r.wrong("op")
	}
	if r.err != nil {
		return fullState{missing: w.missing}, r.err
	}
	return w, nil
}

// epoch decodes one of the two epochs; false is none.
func (r *reader) epoch(i string) (e risk.Epoch, ok bool) {
	if r.fields["e"+i] == "" {
		return e, false
	}
	var head [4]int
	r.counts("e"+i, head[:])
	e.ID, e.Audits, e.Cert, e.Turn = int64(head[0]), head[1], head[2], head[3]
	r.counts("n"+i, e.N[:])
	r.counts("k"+i, e.K[:])
	r.counts("o"+i, e.O[:])
	for j := range e.N {
		if e.O[j] > e.K[j] || e.K[j] > e.N[j] {
			r.wrong("k" + i)
		}
	}
	if e.ID < 1 || e.Turn < 1 {
		r.wrong("e" + i)
	}
	return e, true
}
