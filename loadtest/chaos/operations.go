package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/answer"
	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// accounting is what became of the requests of an operation. Whoever sent one has either a whole
// answer, or lost it, or was cut off in it.
type accounting struct {
	requests  int
	whole     int // answered, once, in the very words that the engines say to that prompt
	other     int // answered in other words, or with another count of tokens than told
	lost      int // no answer at all: refused, unreached, out of patience, an error's status
	cut       int // an answer that ended before its end, told or untold
	elsewhere int // connections that were refused and tried at another gateway
	over      int // answers that another backend carried on with in the middle, as gateways count them

	before, during time.Duration // P99 of the time to the first byte of streams
	silence        time.Duration // the longest in a stream
	sample         string        // of an answer in other words
}

// Question is what an answer of a simulator follows from, at temperature 0.
type Question struct {
	Prompt    string
	MaxTokens int
}

// EngineAnswer is an answer's text, with the tokens that its usage tells.
type EngineAnswer struct {
	Text   string
	Tokens int
}

// take counts outcomes; truths are the answers that the engines give.
func (t *accounting) take(all []Outcome, truths map[Question]EngineAnswer) {
	t.requests += len(all)
	for i := range all {
		o := &all[i]
		switch o.Kind {
		case Answered:
			t.silence = max(t.silence, o.Silence)
			truth, known := truths[Question{o.Prompt, o.MaxTokens}]
			if !known || o.Text != truth.Text || o.Tokens != truth.Tokens {
				t.other++
				t.sample = fmt.Sprintf("%q of %d tokens for %q of %d", tail(o.Text), o.Tokens, tail(truth.Text), truth.Tokens)
				continue
			}
			t.whole++
		case ErrorEvent, CutSilent, DoneLies, Unfinished, Garbled, Twice:
			t.cut++
		case TimedOut:
			if o.Text != "" {
				t.cut++
			} else {
				t.lost++
			}
		default:
			t.lost++
		}
	}
}

// tail is the end of a text, where answers differ that were cut.
func tail(text string) string { return text[max(0, len(text)-60):] }

// questions are the different ones among outcomes that were answered.
func questions(all []Outcome) (out []Question) {
	seen := map[Question]bool{}
	for i := range all {
		q := Question{all[i].Prompt, all[i].MaxTokens}
		if all[i].Kind == Answered && !seen[q] {
			seen[q] = true
			out = append(out, q)
		}
	}
	return out
}

// askers is how many questions the simulator is asked at once for the truth.
const askers = 8

// truths are the answers of the target's engines.
func truths(ctx context.Context, all []Question) (map[Question]EngineAnswer, error) {
	return Truths(ctx, TargetPool, all)
}

// Truths asks a simulator of its own, without a gateway, what the engines of a pool say.
func Truths(ctx context.Context, pool string, all []Question) (map[Question]EngineAnswer, error) {
	o := (&Testbed{}).simOptions(pool)
	o.TimeScale = 1000
	s, err := vllmsim.New(o)
	if err != nil {
		return nil, err
	}
	if err := s.Start("127.0.0.1:0"); err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }() // nobody asks it any more
	out, errs := make([]EngineAnswer, len(all)), make([]error, len(all))
	var asking sync.WaitGroup
	for first := range min(askers, len(all)) {
		asking.Go(func() {
			for i := first; i < len(all); i += askers {
				out[i], errs[i] = truth(ctx, s.URL(), all[i])
			}
		})
	}
	asking.Wait()
	answers := map[Question]EngineAnswer{}
	for i, q := range all {
		if errs[i] != nil {
			return nil, fmt.Errorf("what the engines say: %w", errs[i])
		}
		answers[q] = out[i]
	}
	return answers, nil
}

// truth asks one question.
func truth(ctx context.Context, url string, q Question) (EngineAnswer, error) {
	r := operated(q.Prompt, q.MaxTokens)
	_, text, err := post(ctx, url+chatPath, string(r.body(0, 0)))
	if err != nil {
		return EngineAnswer{}, err
	}
	a := &answer.Answer{MaxText: maxAnswer}
	if kind, detail := readWhole(a, bytes.NewReader(text)); kind != Answered {
		return EngineAnswer{}, fmt.Errorf("%s: %s", kind, detail)
	}
	return EngineAnswer{a.Text.String(), tokens(a)}, nil
}

// operated is a request of the operations' load, not streamed.
func operated(prompt string, tokens int) Request { return Request{Prompt: prompt, Tokens: tokens} }

const (
	prompts   = 400
	maxTokens = 900 // of an answer that anybody asks for
)

// promptsByLength are prompts with the lengths of their answers, the longest first. Long answers are
// those of prompts that have them: with ignore_eos or min_tokens an answer depends on more
// than its text, and nobody can carry on with it as if nothing had been.
var promptsByLength = sync.OnceValues(func() ([]Question, error) {
	var all []Question
	for n := range prompts {
		all = append(all, Question{fmt.Sprintf("Question %d of the harbour master: what is the colour of the sea today?", n), maxTokens})
	}
	answers, err := truths(context.Background(), all) // each question has a time limit
	if err != nil {
		return nil, err
	}
	for i, q := range all {
		all[i].MaxTokens = answers[q].Tokens
	}
	slices.SortFunc(all, func(a, b Question) int { return b.MaxTokens - a.MaxTokens })
	return all, nil
})

// prompt is number n of those whose answers have so many tokens.
func prompt(n, tokens int) string {
	all, _ := promptsByLength() // asked before by whoever has prepared the world
	return choose(all, n, tokens)
}

func choose(all []Question, n, tokens int) string {
	enough := sort.Search(len(all), func(i int) bool { return all[i].MaxTokens < tokens })
	if enough == 0 {
		return "" // nobody's; what is answered to it is not whole
	}
	return all[n%enough].Prompt
}

// counted ends the loads and counts what became of everything that they sent.
func (w *Testbed) counted(ctx context.Context) (*accounting, error) {
	w.failovers.look(ctx, w.Gateways)
	t := &accounting{over: w.failovers.sum()}
	var all, before, during []Outcome
	for _, l := range w.loads {
		l.Stop()
		all = append(all, l.Outcomes()...)
		before, during = append(before, l.Outcomes(Before)...), append(during, l.Outcomes(During)...)
		t.elsewhere += l.Elsewhere()
	}
	known, err := truths(ctx, questions(all))
	if err != nil {
		return nil, err
	}
	t.take(all, known)
	t.before, t.during = at(firsts(before, true), 99), at(firsts(during, true), 99)
	if t.other > 0 {
		w.Fail("%d answers are not what the engines say: %s", t.other, t.sample)
	}
	if t.whole == 0 {
		w.Fail("nothing was answered")
	}
	return t, nil
}

// operationsHeading prints the head of the table of operations.
func operationsHeading(w io.Writer) error {
	_, err := io.WriteString(w, "| id | operation | promised | requests | whole | lost | cut | tried elsewhere | carried on with | TTFT P99 before / during | longest silence in a stream | seen | verdict |\n"+
		"|---|---|---|---:|---:|---:|---:|---:|---:|---|---|---|---|\n")
	return err
}

// operationLine prints one row of it.
func operationLine(w io.Writer, r *Row, s *Result) error {
	t := s.did
	if t == nil { // it did not come so far
		t = &accounting{requests: s.Sent}
	}
	_, err := fmt.Fprintf(w, "| %s | %s | %s | %d | %d | %d | %d | %d | %d | %s / %s | %s | %s | %s |\n", r.ID, cell(r.Fault), cell(r.Promise),
		t.requests, t.whole, t.lost, t.cut, t.elsewhere, t.over, since(t.before), since(t.during), since(t.silence), cell(strings.Join(s.Notes, "; ")), cell(verdict(s)))
	return err
}

// failovers counts takeovers of gateways that come and go: a process' counters end with it. The
// zero value is ready.
type failovers struct {
	mu   sync.Mutex
	last map[int]int // by process id
}

// look reads the counters of all gateways that answer.
func (v *failovers) look(ctx context.Context, gateways []*Gateway) {
	for _, g := range gateways {
		if p := g.Process(); p == nil || !p.Alive() {
			continue
		}
		pid := g.PID()
		m, err := g.Metrics(ctx)
		if err != nil {
			continue // it has ended meanwhile
		}
		v.mu.Lock()
		if v.last == nil {
			v.last = map[int]int{}
		}
		v.last[pid] = max(v.last[pid], int(m.Sum("foregate_midstream_failovers_total")))
		v.mu.Unlock()
	}
}

// sum is how many there were.
func (v *failovers) sum() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, each := range v.last {
		n += each
	}
	return n
}

// outlasted counts streams that were answered at a gateway and went on for longer than d
// after a moment that they met.
func outlasted(all []Outcome, gateway int, moment time.Time, d time.Duration) int {
	return len(slices.DeleteFunc(slices.Clone(all), func(o Outcome) bool {
		return o.Kind != Answered || !o.Stream || o.Gateway != gateway || o.At.After(moment) || o.At.Add(o.Total).Before(moment.Add(d))
	}))
}

// state is what an engine's simulator says of itself.
func (e *Engine) state(ctx context.Context) (st vllmsim.State, err error) {
	page, err := process.Fetch(ctx, "http://"+e.addr+"/sim/state")
	if err == nil {
		err = json.Unmarshal([]byte(page), &st)
	}
	return st, err
}
