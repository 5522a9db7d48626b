package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/quality"
	"github.com/foregate/foregate/loadtest/virtual/eventloop"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// bench is a fleet of one pool, target, and a request to it.
type bench struct {
	*Fleet
	t        testing.TB
	pool     *Pool
	requests map[*openai.Request]*Request
}

func newBench(t testing.TB, def loadtest.Pool) *bench {
	t.Helper()
	if def.Profile == "" {
		def.Profile = "a10g-8b"
	}
	def.Model, def.Count = "m", max(def.Count, 1)
	judge := quality.NewJudge(1, &loadtest.Case{Target: def})
	tok := vllmsim.DefaultTokenizer()
	requests := map[*openai.Request]*Request{}
	f := New(Options{
		Loop: &eventloop.Loop{}, Seed: 1, Score: func(prompt, ids []int32) []quality.Choice { return judge.Choices(prompt, ids) },
		Find: func(r *openai.Request) *Request {
			if requests[r] == nil {
				requests[r] = &Request{Prompt: tok.Chat([]vllmsim.Message{{Role: "user", Content: string(r.Raw("messages"))}})}
			}
			return requests[r]
		},
	})
	p, err := f.Add("target", &def, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{f, t, p, requests}
}

// request asks for an answer; more are further fields of its body.
func (b *bench) request(more string) *openai.Request {
	b.t.Helper()
	body := `{"model":"m","stream":true,"temperature":0,"messages":[{"role":"user","content":"Tell me of the sea."}]` + more + `}`
	r, err := openai.Scan(openai.Chat, []byte(body), openai.DefaultLimits())
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// answer is what a reader saw.
type answer struct {
	text   string
	ids    []int32
	prompt []int32
	finish string
	lps    []float64
	tops   []int
	used   openai.Usage
	at     []time.Duration // of the chunks
	err    error           // of Open
	end    error           // of Next
}

// run opens a call and reads it to its end, in a coroutine.
func (b *bench) run(ctx context.Context, a engine.Attempt, want engine.Want) *answer {
	out := &answer{}
	if a.URL == "" {
		a.URL = b.pool.Backends[0].URL()
	}
	b.Loop.Go(func() {
		var s engine.Stream
		if s, out.err = b.Open(ctx, &a); out.err != nil {
			return
		}
		defer s.Close()
		for {
			c, err := s.Next(want)
			if err != nil {
				out.end = err
				return
			}
			out.add(c)
			out.at = append(out.at, b.Loop.Elapsed())
		}
	})
	return out
}

func (a *answer) add(c *openai.Chunk) {
	a.text += string(c.Text)
	a.finish += string(c.Finish)
	a.ids = append(a.ids, c.IDs...)
	a.prompt = append(a.prompt, c.PromptIDs...)
	a.lps = append(a.lps, c.Logprobs...)
	for i := range c.Logprobs {
		a.tops = append(a.tops, len(c.Top(i)))
	}
	if c.HasUsage {
		a.used = c.Usage
	}
}

// play plays until nothing is left to happen.
func (b *bench) play() {
	for b.Loop.Step() {
	}
	b.Loop.End()
}

func kind(err error) engine.FailureKind {
	if f, ok := errors.AsType[*engine.Failure](err); ok {
		return f.Kind
	}
	return engine.FailureKind(fmt.Sprint(err))
}

func TestADraftTellsTextIdsAndLogprobsOfEachToken(t *testing.T) {
	b := newBench(t, loadtest.Pool{})
	r := b.request("")
	a := b.run(context.Background(), engine.Attempt{Call: &engine.Draft{Request: r}}, engine.WantTops)
	plain := b.run(context.Background(), engine.Attempt{Call: &engine.Relay{Request: r}}, engine.WantTokens)
	b.play()
	if a.err != nil {
		t.Fatal(a.err)
	}
	tok := vllmsim.DefaultTokenizer()
	if a.end != io.EOF || a.text == "" || a.text != tok.Decode(a.ids, true) || a.text != plain.text {
		t.Errorf("%v: %q of %v, plain %q", a.end, a.text, a.ids, plain.text)
	}
	n := len(a.ids)
	if len(a.lps) != n || !slices.Equal(a.prompt, b.Find(r).Prompt) || a.finish != "stop" || a.used != (openai.Usage{Prompt: len(a.prompt), Completion: n}) {
		t.Errorf("%d ids, %d logprobs, %d of the prompt, finish %q, usage %v", n, len(a.lps), len(a.prompt), a.finish, a.used)
	}
	for i, n := range a.tops {
		if n != maxTops {
			t.Errorf("token %d has %d alternatives", i, n)
		}
	}
	if len(plain.ids)+len(plain.lps) > 0 || plain.used != a.used {
		t.Errorf("a relay tells ids %v, logprobs %v, usage %v", plain.ids, plain.lps, plain.used)
	}
}

func TestAContinuationIsTheRestOfTheAnswer(t *testing.T) {
	b := newBench(t, loadtest.Pool{})
	r := b.request("")
	whole := b.run(Answering(context.Background()), engine.Attempt{Call: &engine.Draft{Request: r}}, engine.WantTokens)
	b.play()
	if got := b.Find(r).Answer; !slices.Equal(got, whole.ids) {
		t.Errorf("an answer of %d ids, %d came", len(got), len(whole.ids))
	}
	at := len(whole.ids) / 2
	for name, call := range map[string]engine.Call{
		"ids":  &engine.ContinueIDs{Request: r, PromptIDs: whole.prompt, IDs: whole.ids[:at], MaxTokens: 500},
		"text": &engine.ContinueText{Request: r, Text: []byte(vllmsim.DefaultTokenizer().Decode(whole.ids[:at], true))},
	} {
		b := newBench(t, loadtest.Pool{})
		rest := b.run(Answering(context.Background()), engine.Attempt{Call: call}, engine.WantTokens)
		b.play()
		if rest.err != nil || !slices.Equal(rest.ids, whole.ids[at:]) || !slices.Equal(b.Find(r).Answer, whole.ids) {
			t.Errorf("%s: %v: %v, want %v; answer %v", name, rest.err, rest.ids, whole.ids[at:], b.Find(r).Answer)
		}
		if rest.used.Prompt != len(whole.prompt)+at {
			t.Errorf("%s: usage %v", name, rest.used)
		}
	}
}

func TestAnAnswerInOnePieceComesAtItsEnd(t *testing.T) {
	b := newBench(t, loadtest.Pool{})
	r := b.request("")
	streamed := b.run(context.Background(), engine.Attempt{Call: &engine.Relay{Request: r}}, engine.WantTokens)
	var whole openai.Chunk
	var again openai.DraftAnswer
	var text []byte
	var ids []int32
	b.play()
	b = newBench(t, loadtest.Pool{})
	in := b.request("")
	in.Stream = false
	b.run(context.Background(), engine.Attempt{Call: &engine.Relay{Request: in, Into: &whole}}, 0)
	b.play()
	if whole.Usage != streamed.used || string(whole.Finish) != "stop" || whole.Choices != 1 || b.Loop.Elapsed() < streamed.at[len(streamed.at)-1] {
		t.Errorf("%+v at %v, streamed until %v", whole, b.Loop.Elapsed(), streamed.at)
	}
	b = newBench(t, loadtest.Pool{})
	b.Loop.Go(func() {
		call := &engine.Answer{Request: r, Into: &again}
		if s, err := b.Open(context.Background(), &engine.Attempt{Call: call, URL: b.pool.Backends[0].URL()}); err != nil {
			t.Error(err)
		} else if _, err := s.Next(0); err != io.EOF || !s.Buffered() {
			t.Errorf("a chunk of an answer in one piece: %v", err)
		}
	})
	b.run(context.Background(), engine.Attempt{Call: &engine.TokenizeText{Text: []byte("by the sea"), Into: &ids}}, 0)
	b.play()
	if again.Usage != whole.Usage || len(again.IDs) != again.Usage.Completion || again.Finish != "stop" || !again.Plain {
		t.Errorf("%+v, %+v", again, whole)
	}
	b = newBench(t, loadtest.Pool{})
	b.run(context.Background(), engine.Attempt{Call: &engine.Detokenize{IDs: ids, Into: &text}}, 0)
	if b.play(); string(text) != "by the sea" {
		t.Errorf("%q", text)
	}
}

func TestAScoreIsTheTargetsOpinionOfEachId(t *testing.T) {
	b := newBench(t, loadtest.Pool{})
	r := b.request("")
	a := b.run(context.Background(), engine.Attempt{Call: &engine.Draft{Request: r}}, engine.WantTokens)
	b.play()
	var s openai.Scores
	ids := slices.Clone(a.ids)
	ids[2]++
	b2 := newBench(t, loadtest.Pool{})
	q := openai.ScoreQuestion{Prompt: a.prompt, Draft: ids}
	b2.run(context.Background(), engine.Attempt{Call: &engine.Score{Question: q, Into: &s}}, 0)
	b2.play()
	if len(s.Tokens) != len(ids) {
		t.Fatalf("%d scores of %d ids", len(s.Tokens), len(ids))
	}
	if s.Tokens[1].TopID != ids[1] || float32(s.Tokens[1].Logprob) != float32(a.lps[1]) || s.Tokens[2].TopID == ids[2] || s.Tokens[2].Logprob >= s.Tokens[2].Top {
		t.Errorf("%+v, drafted with %v", s.Tokens[1:3], a.lps[1:3])
	}
	if did, audits := b2.pool.Spent(); did.Scored == 0 || audits.Scored != did.Scored {
		t.Errorf("%+v, for audits %+v", did, audits)
	}
}

func TestWhatGoesWrongHasTheGatewaysKinds(t *testing.T) {
	after := func(d time.Duration, do func(*bench)) func(*bench) {
		return func(b *bench) { b.Loop.At(d, func() { do(b) }) }
	}
	fault := func(f loadtest.Fault) func(*bench) {
		f.Pool = "target"
		return func(b *bench) { b.Plan([]loadtest.Fault{f}) }
	}
	const late = 300 * time.Millisecond
	for name, tc := range map[string]struct {
		strike func(*bench)
		more   string
		open   engine.FailureKind // of Open
		next   engine.FailureKind // of Next
	}{
		"dead":         {strike: fault(loadtest.Fault{Die: true, For: time.Hour}), open: engine.Refused},
		"dies":         {strike: fault(loadtest.Fault{Die: true, At: late, For: time.Hour}), next: engine.ServerError},
		"falls silent": {strike: after(late, func(b *bench) { b.pool.Backends[0].life++ }), next: engine.Stalled},
		"too long":     {more: `,"max_tokens":200000`, open: engine.Rejected},
		"a short one":  {more: `,"max_tokens":3`, next: "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, loadtest.Pool{})
			if tc.strike != nil {
				tc.strike(b)
			}
			r := b.request(tc.more)
			at := engine.Attempt{Call: &engine.Relay{Request: r}, FirstByteTimeout: 2 * time.Second, IdleTimeout: time.Second}
			var a *answer
			b.Loop.After(0, func() { a = b.run(context.Background(), at, 0) })
			b.play()
			if tc.open != "" && kind(a.err) != tc.open || tc.next != "" && (a.err != nil || kind(a.end) != tc.next) {
				t.Errorf("opened with %v, ended with %v; want %q or %q", a.err, a.end, tc.open, tc.next)
			}
			if n := len(b.pool.Backends[0].jobs); n > 0 && tc.next != engine.Stalled {
				t.Errorf("%d jobs are left", n)
			}
		})
	}
}

func TestWhatCannotBeRunSaysSo(t *testing.T) {
	b := newBench(t, loadtest.Pool{})
	a := b.run(context.Background(), engine.Attempt{Call: &engine.Judge{}}, 0)
	nobody := b.run(context.Background(), engine.Attempt{URL: "http://elsewhere"}, 0)
	b.play()
	if kind(a.err) != engine.Rejected || !strings.Contains(a.err.Error(), "Judge") {
		t.Errorf("%v", a.err)
	}
	if kind(nobody.err) != engine.Refused {
		t.Errorf("%v", nobody.err)
	}
}

func TestTheEndOfAContextEndsTheCall(t *testing.T) {
	for cause, want := range map[error]engine.FailureKind{
		context.DeadlineExceeded: engine.Expired, pool.ErrLost: engine.Silent, errors.New("gone"): engine.ClientGone,
	} {
		for _, after := range []time.Duration{Hop / 2, 20 * time.Millisecond, 500 * time.Millisecond} {
			b := newBench(t, loadtest.Pool{})
			ctx, cancel := b.Loop.WithCancel(context.Background())
			a := b.run(ctx, engine.Attempt{Call: &engine.Relay{Request: b.request("")}}, 0)
			b.Loop.At(after, func() { cancel(cause) })
			b.play()
			err := a.err
			if err == nil {
				err = a.end
			}
			if c := b.pool.Backends[0].Counts(); kind(err) != want || c.Running+c.Waiting > 0 {
				t.Errorf("%v after %v: %v, %+v", cause, after, err, c)
			}
		}
	}
}

func TestCallsThatMakeNoAnswerAreOfAudits(t *testing.T) {
	b := newBench(t, loadtest.Pool{})
	r := b.request("")
	mine := b.run(Answering(context.Background()), engine.Attempt{Call: &engine.Draft{Request: r}}, 0)
	b.play()
	if _, audits := b.pool.Spent(); audits != (Spent{}) {
		t.Errorf("of a client's draft: %+v", audits)
	}
	b = newBench(t, loadtest.Pool{})
	b.run(context.Background(), engine.Attempt{Call: &engine.Draft{Request: r}}, 0)
	b.play()
	if _, audits := b.pool.Spent(); audits != (Spent{Decoded: len(mine.ids), Prefilled: len(mine.prompt)}) {
		t.Errorf("of a draft in the background: %+v", audits)
	}
}
