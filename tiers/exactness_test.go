package tiers

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
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

// endsWith draws what ends an answer; own is what the target says when nothing does. Stop strings and limits are anywhere in it.
// Every fourth stop string is the draft's.
func endsWith(i int, ending string, own reply, drafted func() string) string {
	h := uint64(i)*0x9e3779b97f4a7c15>>11 + 1
	most := own.usage.Completion + 7
	switch ending {
	case "limit":
		most = 1 + int(h%uint64(own.usage.Completion))
	case "stop":
		text := own.text
		if i%4 == 3 {
			text = drafted()
		}
		if chars := []rune(text); len(chars) > 0 {
			from := int(h % uint64(len(chars)))
			stop := string(chars[from:min(from+1+int(h>>32%9), len(chars))])
			return fmt.Sprintf(`,"max_tokens":%d,"stop":[%q,"zebra\n"],"include_stop_str_in_output":%t`, most, stop, i%3 == 0)
		}
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
