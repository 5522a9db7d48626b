package chaos

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/answer"
	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

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

const (
	askers    = 8 // questions that the simulator is asked at once for the truth
	prompts   = 400
	maxTokens = 900 // of an answer that anybody asks for
)

// Truths asks a simulator of its own, without a gateway, what the engines of a pool say.
func Truths(ctx context.Context, pool string, all []Question) (map[Question]EngineAnswer, error) {
	w := &Testbed{Setup: Setup{Sim: func(_ string, o *vllmsim.Options) { o.TimeScale = 1000 }}}
	s, err := vllmsim.New(w.simOptions(pool))
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }() // nobody asks it any more
	if err := s.Start("127.0.0.1:0"); err != nil {
		return nil, err
	}
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
	r := Request{Prompt: q.Prompt, Tokens: q.MaxTokens}
	_, text, err := process.Post(ctx, url+chatPath, string(r.body("", 0)))
	if err != nil {
		return EngineAnswer{}, err
	}
	a := &answer.Answer{MaxText: maxAnswer}
	if kind, detail := readWhole(a, bytes.NewReader(text)); kind != Answered {
		return EngineAnswer{}, fmt.Errorf("%s: %s", kind, detail)
	}
	return EngineAnswer{a.Text.String(), tokens(a)}, nil
}

// promptsByLength are prompts with the lengths of their answers, the longest first. Long answers are
// those of prompts that have them: with ignore_eos or min_tokens an answer depends on more
// than its text, and nobody can carry on with it as if nothing had been.
var promptsByLength = sync.OnceValues(func() ([]Question, error) {
	var all []Question
	for n := range prompts {
		all = append(all, Question{fmt.Sprintf("Question %d of the harbour master: what is the colour of the sea today?", n), maxTokens})
	}
	answers, err := Truths(context.Background(), TargetPool, all) // each question has a time limit
	for i, q := range all {
		all[i].MaxTokens = answers[q].Tokens
	}
	slices.SortFunc(all, func(a, b Question) int { return b.MaxTokens - a.MaxTokens })
	return all, err
})

// prompt is number n of those whose answers have so many tokens; "" is nobody's, and what is answered to it is not whole.
func prompt(n, tokens int) string {
	all, _ := promptsByLength() // account tells
	enough := sort.Search(len(all), func(i int) bool { return all[i].MaxTokens < tokens })
	if enough == 0 {
		return ""
	}
	return all[n%enough].Prompt
}

// untrue are the answers that are not what the engines say, to the letter, or tell their tokens wrongly: how many, and one.
func untrue(all []Outcome, truths map[Question]EngineAnswer) (n int, sample string) {
	for i := range all {
		o := &all[i]
		truth, known := truths[Question{o.Prompt, o.MaxTokens}]
		if o.Kind == Answered && (!known || o.Text != truth.Text || o.Tokens != truth.Tokens) {
			n++
			sample = fmt.Sprintf("%q of %d tokens for %q of %d", tail(o.Text), o.Tokens, tail(truth.Text), truth.Tokens)
		}
	}
	return n, sample
}

// tail is the end of a text, where answers differ that were cut.
func tail(text string) string { return text[max(0, len(text)-60):] }

// account checks that each answer of an operation is what the engines say, and notes how long streams waited.
func (tb *Testbed) account(ctx context.Context) error {
	if _, err := promptsByLength(); err != nil {
		return err
	}
	tb.continued.look(ctx, tb.Gateways)
	all := tb.all()
	asked, silence, elsewhere := map[Question]bool{}, time.Duration(0), 0
	for i := range all {
		if o := &all[i]; o.Kind == Answered {
			asked[Question{o.Prompt, o.MaxTokens}] = true
			silence = max(silence, o.Silence)
		}
	}
	var questions []Question
	for q := range asked {
		questions = append(questions, q)
	}
	for _, l := range tb.loads {
		elsewhere += l.Elsewhere()
	}
	truths, err := Truths(ctx, TargetPool, questions)
	if err != nil {
		return err
	}
	n, sample := untrue(all, truths)
	tb.Check(n == 0, "%d answers are not what the engines say: %s", n, sample)
	tb.Check(len(asked) > 0, "nothing was answered")
	tb.Note("%d tried elsewhere, %d continued; first byte of streams, p99: %v before, %v during; the longest silence in one %v", elsewhere, tb.continued.sum(),
		round(at(firsts(tb.all(Before), true), 99)), round(at(firsts(tb.all(During), true), 99)), round(silence))
	return nil
}

// failovers counts answers that another backend went on with, at gateways that come and go: a process' counters end with
// it. The zero value is ready.
type failovers struct {
	mu   sync.Mutex
	last map[int]int // by process id
}

// look reads the counters of all gateways that answer.
func (f *failovers) look(ctx context.Context, gateways []*Gateway) {
	for _, g := range gateways {
		pid := g.PID()
		m, err := g.Metrics(ctx)
		if err != nil {
			continue // it has ended
		}
		f.mu.Lock()
		if f.last == nil {
			f.last = map[int]int{}
		}
		f.last[pid] = max(f.last[pid], int(m.Sum("foregate_midstream_failovers_total")))
		f.mu.Unlock()
	}
}

// sum is how many there were.
func (f *failovers) sum() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, each := range f.last {
		n += each
	}
	return n
}
