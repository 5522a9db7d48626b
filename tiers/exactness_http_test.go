package tiers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

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
	name  string
	draft vllmsim.Options
}{
	{"one tokenizer", vllmsim.Options{Seed: proofSeed, Divergence: 0.3}},
	{"a bad draft", vllmsim.Options{Seed: proofSeed, Divergence: 0.6}},
	{"a good draft", vllmsim.Options{Seed: proofSeed, Divergence: 0.1}},
	{"another tokenizer", vllmsim.Options{Seed: proofSeed, Divergence: 0.3, Tokenizer: "other"}},
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
					if got.text != want.text || got.finish != want.finish || got.stop != want.stop || got.usage != want.usage || !rc.Decision.Judged {
						t.Errorf("%s: from %s, %s\n got %q (%s, %s, %+v)\nwant %q (%s, %s, %+v)", body, rc.Tier, rc.Acceptance(),
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
			if tiers[plan.Draft] == 0 || tiers[plan.Mixed] == 0 {
				t.Errorf("answers by tier %v: the test shows nothing", tiers)
			}
		})
	}
}

func TestALimitWithinACharacterShowsNoPartOfIt(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: proofSeed, Divergence: 0.3}, vllmsim.Options{})
	r.cfg.Mode = plan.ModeVerify
	tried := 0
	for i, p := range prompts(16) {
		own := r.own(chat(p, `,"max_tokens":100,"return_token_ids":true`))
		n := len(own.ids)
		for n > 0 && !strings.HasSuffix(vllmsim.DefaultTokenizer().Decode(own.ids[:n], true), "\uFFFD") {
			n--
		}
		if n == 0 {
			continue
		}
		tried++
		body := forms[i%2].body(p, fmt.Sprintf(`,"max_tokens":%d`, n))
		want := r.own(body)
		got, _, err := r.ask(openai.Chat, plan.Auto, body)
		if err != nil || got.text != want.text || got.usage != want.usage || got.finish != "length" {
			t.Errorf("%q (%s, %+v), want %q, %+v; %v", got.text, got.finish, got.usage, want.text, want.usage, err)
		}
	}
	if tried < 4 {
		t.Errorf("%d limits within a character: the test shows nothing", tried)
	}
}

// TestExactnessThroughTheCascadeUpToTies: with engines whose writing and scoring break ties
// differently, every token of an answer is level with the target's first choice.
func TestExactnessThroughTheCascadeUpToTies(t *testing.T) {
	skipIfSlowed(t)
	target := voice{vllmsim.NewModel(proofSeed, 0).WithTies(0.05)}
	r := probedRig(t, vllmsim.Options{Seed: proofSeed, Divergence: 0.3, Ties: 0.05}, vllmsim.Options{Ties: 0.05})
	r.cfg.Mode = plan.ModeVerify
	differ, n := 0, proofSize(9, 20, 320)
	for i, p := range prompts(n) {
		f := forms[i%2]
		body := f.body(p, `,"max_tokens":600`)
		got, rc, err := r.ask(f.kind, plan.Auto, body)
		if err != nil {
			t.Fatal(err)
		}
		want := direct(t, r.target.URL(), f.kind.Path(), strings.Replace(f.body(p, `,"max_tokens":600,"return_token_ids":true`), `"m"`, `"big"`, 1))
		if got.text == want.text {
			continue
		}
		if differ++; !target.mightSay(want.promptIDs, nil, got.text, got.finish == "stop") {
			t.Errorf("%q, from %s: no chain of level choices gives\n%q\nthe target's own is\n%q", p, rc.Tier, got.text, want.text)
		}
	}
	t.Logf("%d of %d leave the target's own answer, at ties", differ, n)
	if differ == 0 {
		t.Error("no answer differs: the test shows nothing")
	}
}

// mightSay reports whether text is what a model may say behind ids of which every token is
// level with its first choice, and ended where it ends.
func (v voice) mightSay(prompt, ids []int32, text string, ended bool) bool {
	return v.mightGoOn(prompt, ids, remainder{text: text}, ended)
}

// remainder is what is still to be said of a text, and the bytes of a character that has begun before it.
type remainder struct {
	open []byte
	text string
}

// after is what remains behind a token; ok is false where the text does not go on with it. Bytes that are no character
// are U+FFFD each, as engines say it.
func (r remainder) after(id int32) (rest remainder, ok bool) {
	r.open = append(slices.Clone(r.open), bytesOf(id)...)
	for len(r.open) > 0 && utf8.FullRune(r.open) {
		c, size := utf8.DecodeRune(r.open)
		if !strings.HasPrefix(r.text, string(c)) {
			return r, false
		}
		r.open, r.text = r.open[size:], r.text[utf8.RuneLen(c):]
	}
	return r, true
}

func (v voice) mightGoOn(prompt, ids []int32, rest remainder, ended bool) bool {
	for {
		var level []int32
		v.Score(slices.Concat(prompt, ids), []int32{0}, func(_ int, d *vllmsim.Dist) bool {
			for _, c := range d.Top {
				if d.LogProb(d.Argmax())-d.LogProb(c.ID) <= plantedTie+1e-9 {
					level = append(level, c.ID)
				}
			}
			return true
		})
		if rest.text == "" && (!ended || slices.ContainsFunc(level, func(id int32) bool { return slices.Contains(eos, id) })) {
			return true
		}
		level = slices.DeleteFunc(level, func(id int32) bool {
			_, ok := rest.after(id)
			return !ok || slices.Contains(eos, id)
		})
		if len(level) == 0 {
			return false
		}
		for _, id := range level[1:] {
			if next, _ := rest.after(id); v.mightGoOn(prompt, append(slices.Clone(ids), id), next, ended) {
				return true
			}
		}
		ids = append(ids, level[0])
		rest, _ = rest.after(level[0])
	}
}

// bytesOf is what a token stands for, of which a character may be only a part.
func bytesOf(id int32) string {
	tok := vllmsim.DefaultTokenizer()
	zero := tok.Encode("\x80")[0] - 0x80
	if b := id - zero; b >= 0 && b < 256 {
		return string([]byte{byte(b)})
	}
	return tok.Decode([]int32{id}, false)
}
