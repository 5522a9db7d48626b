package tiers

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// proofSize is how much of a long proof is run: long under make exactness, short in CI, and a
// sample in an ordinary test.
func proofSize(sample, short, long int) int {
	switch os.Getenv("FOREGATE_PROOFS") {
	case "long":
		return long
	case "short":
		return short
	}
	return sample
}

const proofSeed = 7

// skipIfSlowed leaves a proof out of the short form under the race detector, which makes it eight times as slow. It shares
// nothing but counters; make baselines runs it without the detector, make test-long with it.
func skipIfSlowed(t *testing.T) {
	t.Helper()
	if raced && testing.Short() {
		t.Skip("left out under the race detector; make baselines runs it without")
	}
}

// endings are how an answer may come to its end.
var endings = [...]string{"eos", "stop", "limit"}

// eos are the ids with which the simulator's answers end.
var eos = []int32{4, 1}

// written is an answer as an engine gives it: its tokens are counted, the end's with them.
type written struct {
	ids          []int32
	text, finish string
	stop         string
}

func (w written) equal(o written) bool {
	return slices.Equal(w.ids, o.ids) && w.text == o.text && w.finish == o.finish && w.stop == o.stop
}

// bounds are what may end an answer before the model does.
type bounds struct {
	limit int // 0 is none
	stop  string
}

// voice is a model with the rules by which an engine ends an answer; no more of an engine.
type voice struct{ *vllmsim.Model }

// goOn writes on behind so much of an answer. each hears of every token, and how long the
// text is with it.
func (v voice) goOn(prompt []int32, so written, b bounds, each func(id int32, lp float64, text int)) written {
	limit := 1 << 20
	if b.limit > 0 {
		limit = b.limit - len(so.ids)
	}
	so.ids = slices.Clone(so.ids)
	w := vllmsim.NewWriter(v.Model, slices.Concat(prompt, so.ids), vllmsim.Sampling{MaxTokens: limit})
	for over := false; !over; {
		var id int32
		id, over = w.Next()
		so.ids = append(so.ids, id)
		so.finish = w.Finish()
		before := len(so.text)
		if so.text += w.Text(); b.stop != "" {
			if i := strings.Index(so.text[max(before-len(b.stop)+1, 0):], b.stop); i >= 0 {
				so.text, so.finish, so.stop, over = so.text[:max(before-len(b.stop)+1, 0)+i], "stop", b.stop, true
			}
		}
		if each != nil {
			each(id, w.Logprob(), len(so.text))
		}
	}
	return so
}

// choice is the target's score of one position, with its own choice there.
type choice struct {
	accept.TargetScore
	ID int32
}

// choices are what the target says of ids behind ctx when it scores them.
func (v voice) choices(ctx, ids []int32) []choice {
	out := make([]choice, 0, len(ids))
	v.Score(ctx, ids, func(i int, d *vllmsim.Dist) bool {
		best := d.Argmax()
		out = append(out, choice{ID: best, TargetScore: accept.TargetScore{
			Logprob: accept.Nats(d.LogProb(ids[i])), Top: accept.Nats(d.LogProb(best)),
			First: best == ids[i] || slices.Contains(eos, best) && slices.Contains(eos, ids[i]),
		}})
		return true
	})
	return out
}

// duo is a draft and its target in mode verify, without anything between them.
type duo struct {
	draft, target voice
}

// whole drafts all of the answer, has it scored, and has the target carry on where it does
// not stand by it, as package inflight does; own tells of each token whether the target wrote it, unscored.
func (d duo) answer(prompt []int32, b bounds) (got written, own []bool) {
	c, kept := accept.NewScoreTracker(accept.Config{}), 0
	c.AwaitTarget()
	var ends []int // of the text, by token
	drafted := d.draft.goOn(prompt, written{}, b, func(_ int32, lp float64, text int) {
		c.Add(lp, nil)
		ends = append(ends, text)
	})
	t := draft.NewTranscript(draft.TranscriptOptions{})
	for i, end := range ends[:len(ends)-1] { // the last token ended it: nobody goes on from there
		if end > len(drafted.text) {
			break // a stop string began before
		}
		text := drafted.text[t.Len():end]
		_, _ = t.Append([]byte(text), drafted.ids[i:i+1]) // nothing is pending
		t.Mark(i+1, text != "")
	}
	draft := accept.Draft{Text: []byte(drafted.text), IDs: drafted.ids, Finish: drafted.finish}
	v := c.FinalVerdict(draft)
	if v.Reason == accept.ReasonDoubtful {
		said := make([]accept.TargetScore, 0, len(drafted.ids))
		for _, o := range d.target.choices(prompt, drafted.ids) {
			said = append(said, o.TargetScore)
		}
		check := accept.CheckGreedy(said)
		if kept = check.Kept; check.Pass {
			c.Pass()
		} else {
			c.Reject(check.Reason)
		}
		v = c.FinalVerdict(draft)
	}
	if v.Accept {
		return drafted, make([]bool, len(drafted.ids))
	}
	at := t.CutAt(kept)
	got = d.target.goOn(prompt, written{ids: drafted.ids[:at.IDs], text: drafted.text[:at.Text]}, b, nil)
	own = make([]bool, len(got.ids))
	for i := at.IDs; i < len(own); i++ {
		own[i] = true
	}
	return got, own
}

// ends draws what ends an answer, from what the target says when nothing does: stop strings
// and limits are anywhere in it. Every fourth stop string is the draft's.
func ends(i int, ending string, own written, drafted func() string) bounds {
	h := uint64(i)*0x9e3779b97f4a7c15>>11 + 1
	switch ending {
	case "limit":
		return bounds{limit: 1 + int(h%uint64(len(own.ids)))}
	case "stop":
		text := own.text
		if i%4 == 3 {
			text = drafted()
		}
		if chars := []rune(text); len(chars) > 0 {
			from := int(h % uint64(len(chars)))
			return bounds{stop: string(chars[from:min(from+1+int(h>>32%9), len(chars))])}
		}
	}
	return bounds{}
}

func promptOf(i int) []int32 {
	return vllmsim.DefaultTokenizer().Chat([]vllmsim.Message{{Role: "user", Content: fmt.Sprintf("Question %d: tell me about item %d.", i, i*7919%1000)}})
}

// eachPrompt runs prove for so many prompts on all cores.
func eachPrompt(n int, prove func(i int)) {
	var wg sync.WaitGroup
	var at atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(at.Add(1)) - 1; i < n; i = int(at.Add(1)) - 1 {
				prove(i)
			}
		})
	}
	wg.Wait()
}

var divergences = [...]float64{0.1, 0.3, 0.6, 1}

// TestExactnessOfGreedyAnswersToTheToken: whoever drafts, and however an answer ends, mode
// verify gives what the target alone would have given: text, tokens and finish.
func TestExactnessOfGreedyAnswersToTheToken(t *testing.T) {
	skipIfSlowed(t)
	target := voice{vllmsim.NewModel(proofSeed, 0)}
	var runs, drafts, mixed atomic.Int64
	eachPrompt(proofSize(12, 240, 10_000), func(i int) {
		prompt := promptOf(i)
		alone := target.goOn(prompt, written{}, bounds{}, nil)
		for _, divergence := range divergences {
			d := duo{draft: voice{vllmsim.NewModel(proofSeed, divergence)}, target: target}
			for _, ending := range endings {
				b := ends(i, ending, alone, func() string { return d.draft.goOn(prompt, written{}, bounds{}, nil).text })
				want := target.goOn(prompt, written{}, b, nil)
				got, own := d.answer(prompt, b)
				runs.Add(1)
				if !got.equal(want) {
					t.Errorf("prompt %d, divergence %g, %s %+v:\n got %+v\nwant %+v", i, divergence, ending, b, got, want)
				}
				if slices.Contains(own, true) {
					mixed.Add(1)
				} else {
					drafts.Add(1)
				}
			}
		}
	})
	t.Logf("%d answers, %d of the draft alone and %d of both", runs.Load(), drafts.Load(), mixed.Load())
	if min(drafts.Load(), mixed.Load()) < runs.Load()/4 {
		t.Error("one side wrote nearly all: the test shows nothing")
	}
}

// plantedTie is the largest gap of a near-tie that the simulator plants, in nats.
const plantedTie = 0.125

// TestExactnessUpToTiesThatTheTargetItselfBreaksEitherWay: where writing and scoring put one or
// the other of two level tokens first, an answer leaves the target's own only at such a place;
// and what the target scored is its first choice.
func TestExactnessUpToTiesThatTheTargetItselfBreaksEitherWay(t *testing.T) {
	skipIfSlowed(t)
	target := voice{vllmsim.NewModel(proofSeed, 0).WithTies(0.02)}
	var runs, differ atomic.Int64
	eachPrompt(proofSize(24, 300, 30_000), func(i int) {
		prompt := promptOf(i)
		alone := target.goOn(prompt, written{}, bounds{}, nil)
		draft := voice{vllmsim.NewModel(proofSeed, divergences[i%4]).WithTies(0.02)}
		for _, ending := range endings {
			b := ends(i, ending, alone, func() string { return draft.goOn(prompt, written{}, bounds{}, nil).text })
			want := target.goOn(prompt, written{}, b, nil)
			got, own := duo{draft, target}.answer(prompt, b)
			runs.Add(1)
			name := fmt.Sprintf("prompt %d, %s %+v", i, ending, b)
			if !got.equal(want) {
				differ.Add(1)
				checkDeviation(t, name, target, prompt, got, want)
			}
			for k, c := range target.choices(prompt, got.ids) {
				level := 0.0
				if own[k] {
					level = plantedTie // by the kernel that writes
				}
				if gap := float64(c.Top - c.Logprob); !c.First && gap > level+1e-9 {
					t.Errorf("%s: token %d is %v nats from the first choice, target's own: %t", name, k, gap, own[k])
				}
			}
		}
	})
	t.Logf("%d answers, %d leave the target's own at a tie", runs.Load(), differ.Load())
	if differ.Load() == 0 || differ.Load() == runs.Load() {
		t.Error("the test shows nothing")
	}
}

// checkDeviation fails unless the first token in which two answers differ is at a tie.
func checkDeviation(t *testing.T, name string, target voice, prompt []int32, got, want written) {
	n := 0
	for n < min(len(got.ids), len(want.ids)) && got.ids[n] == want.ids[n] {
		n++
	}
	if n == min(len(got.ids), len(want.ids)) {
		t.Errorf("%s: the same tokens end differently:\n got %+v\nwant %+v", name, got, want)
		return
	}
	ctx := slices.Concat(prompt, want.ids[:n])
	a, b := target.choices(ctx, got.ids[n:n+1])[0], target.choices(ctx, want.ids[n:n+1])[0]
	if gap := max(a.Top-a.Logprob, b.Top-b.Logprob); gap > plantedTie+1e-9 {
		t.Errorf("%s: differs at token %d, %v nats from a tie", name, n, gap)
	}
}

// form is the shape of a request: its API, and whether its answer is streamed.
type form struct {
	kind   openai.Kind
	stream bool
}

var forms = [...]form{{openai.Chat, true}, {openai.Chat, false}, {openai.Completion, true}, {openai.Completion, false}}

// body is a greedy request for model m.
func (f form) body(prompt, more string) string {
	if f.stream {
		more += `,"stream":true,"stream_options":{"include_usage":true}`
	}
	if f.kind == openai.Chat {
		return chat(prompt, more)
	}
	return fmt.Sprintf(`{"model":"m","prompt":%q,"temperature":0%s}`, prompt, more)
}

// alone is what the target says to it without a draft.
func (f form) alone(r *rig, body string) reply {
	r.t.Helper()
	return direct(r.t, r.target.URL(), f.kind.Path(), strings.Replace(body, `"m"`, `"big"`, 1))
}

// endsWith words what ends an answer; own is what the target says when nothing does.
func endsWith(i int, ending string, own reply, drafted func() string) string {
	most := own.usage.Completion + 7
	w := written{ids: make([]int32, own.usage.Completion), text: own.text}
	switch b := ends(i, ending, w, drafted); {
	case b.limit > 0:
		return fmt.Sprintf(`,"max_tokens":%d`, b.limit)
	case b.stop != "":
		return fmt.Sprintf(`,"max_tokens":%d,"stop":[%q,"zebra\n"],"include_stop_str_in_output":%t`, most, b.stop, i%3 == 0)
	}
	return fmt.Sprintf(`,"max_tokens":%d`, most)
}

// kinds of greedy checks over HTTP: drafts that differ more and less, and one with another tokenizer.
var greedyRigs = []struct {
	name   string
	draft  vllmsim.Options
	scorer plan.Scorer
}{
	{"one tokenizer", vllmsim.Options{Seed: proofSeed, Divergence: 0.3}, plan.ScorerIDs},
	{"a bad draft", vllmsim.Options{Seed: proofSeed, Divergence: 0.6}, plan.ScorerIDs},
	{"a good draft", vllmsim.Options{Seed: proofSeed, Divergence: 0.1, Without: []string{"prompt_token_ids"}}, plan.ScorerText},
	{"another tokenizer", vllmsim.Options{Seed: proofSeed, Divergence: 0.3, Tokenizer: "other"}, plan.ScorerText},
}

// TestExactnessThroughTheCascade: over HTTP, too, the answer is the target's own: text, usage,
// finish_reason and stop_reason, in every form.
func TestExactnessThroughTheCascade(t *testing.T) {
	skipIfSlowed(t)
	for at, g := range greedyRigs {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel() // most of the time is the engines'
			r := probedRig(t, g.draft, vllmsim.Options{})
			r.cfg.Mode = plan.ModeVerify
			tiers, runs := map[plan.Tier]int{}, 0
			for i, p := range prompts(proofSize(18, 60, 320)) {
				for n := range proofSize(1, 2, 6) {
					n += i*5 + at
					f, ending := forms[n%len(forms)], endings[n/len(forms)%len(endings)]
					own := f.alone(r, f.body(p, `,"max_tokens":600`))
					body := f.body(p, endsWith(n, ending, own, func() string {
						return direct(t, r.draft.URL(), f.kind.Path(), strings.Replace(f.body(p, `,"max_tokens":100`), `"m"`, `"small"`, 1)).text
					}))
					got, rc, err := r.ask(f.kind, plan.Auto, body)
					if err != nil {
						t.Fatalf("%s: %v", body, err)
					}
					want := f.alone(r, body)
					if got.text != want.text || got.finish != want.finish || got.stop != want.stop || got.usage != want.usage || !rc.Decision.Judged || rc.Decision.Scorer != g.scorer {
						t.Errorf("%s: from %s, %s by %s\n got %q (%s, %s, %+v)\nwant %q (%s, %s, %+v)", body, rc.Tier, rc.Acceptance(), rc.Decision.Scorer,
							got.text, got.finish, got.stop, got.usage, want.text, want.finish, want.stop, want.usage)
					}
					if f.stream && !got.done || f.kind == openai.Chat && f.stream && got.roles != 1 {
						t.Errorf("%s: %d roles, done %t", body, got.roles, got.done)
					}
					tiers[rc.Tier]++
					runs++
				}
			}
			t.Logf("%d answers: %v", runs, tiers)
			if mixes := g.scorer == plan.ScorerIDs; tiers[plan.Draft] == 0 || tiers[plan.Mixed] > 0 != mixes {
				t.Errorf("answers by tier %v: the test shows nothing", tiers)
			}
		})
	}
}
