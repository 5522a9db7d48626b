package draft

import (
	"testing"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
)

// both has the client's draft and its audit take the same chunks.
func both(t *testing.T, o Options, floor accept.Nats, all []*openai.Chunk) (*Draft, *Audit) {
	t.Helper()
	d, a := New(o), NewAudit(o, floor)
	over := false
	for _, c := range all {
		a.Observe(c, false)
		over = over || d.Take(c) || d.State() == Rejected
		if !over {
			d.Commit(false)
		}
	}
	return d, a
}

func TestAnAuditGoesOnWhereTheClientsDraftWasGivenUp(t *testing.T) {
	o := options(t, "")
	o.Decision.Accept.Threshold = 0.2
	all := chunks(t, append(append(words(10, sure), words(10, doubtful)...), ending("stop"))...)
	d, a := both(t, o, -3, all)
	if d.State() != Rejected || d.Finish() != "" {
		t.Fatalf("the client's draft: rejected %v, finish %q", d.State() == Rejected, d.Finish())
	}
	if v := a.Verdict(); !v.Accept || v.Tokens != 21 || a.NeedsMore() {
		t.Errorf("the audit: %+v, wants more %v", v, a.NeedsMore())
	}
}

func TestAnAuditEndsBelowItsFloor(t *testing.T) {
	_, a := both(t, options(t, ""), -0.5, chunks(t, append(words(10, bad), ending("stop"))...))
	if v := a.Verdict(); v != (accept.Verdict{}) || a.NeedsMore() || a.Finish() != "" {
		t.Errorf("%+v, wants more %v", v, a.NeedsMore())
	}
}

func TestAFaultOfShapeThatShowsTooLateIsOneOfTheAudits(t *testing.T) {
	for name, c := range map[string]struct {
		whole bool
		want  bool
	}{"the client has it": {false, true}, "it was held back": {true, false}} {
		o := options(t, "")
		o.Decision.Whole = c.whole
		_, a := both(t, o, -3, chunks(t, append(append(words(10, sure), circles()...), ending("stop"))...))
		if v := a.Verdict(); v.Accept || a.IsMalformed(v) != c.want {
			t.Errorf("%s: %+v, faulty %v", name, v, a.IsMalformed(v))
		}
	}
}

// A client is shown a draft from the eighth token on if the hold-back's time is over, and what came with the end of an
// answer it is shown only if that was accepted.
func TestAnAuditCountsWhatTheClientWasShown(t *testing.T) {
	for name, c := range map[string]struct {
		waited bool
		before int // tokens before the loop
		all    []scriptedChunk
		shown  bool
	}{
		"the time is over":             {true, 8, circles(), true},
		"of few tokens":                {true, 7, []scriptedChunk{{text: []string{""}, ids: []int32{7}, logprob: sure, more: `,"finish_reason":"content_filter"`}}, false},
		"the time is not over":         {false, 8, circles(), false},
		"it ended as it was to be due": {false, 31, []scriptedChunk{ending("content_filter")}, false},
		"it was due, and ended badly":  {false, 32, []scriptedChunk{ending("content_filter")}, true},
	} {
		o := options(t, "")
		o.Config.HoldbackTokens = 32
		d, a := New(o), NewAudit(o, -3)
		for _, k := range chunks(t, append(words(c.before, sure), c.all...)...) {
			a.Observe(k, c.waited)
			if over := d.Take(k); !over && d.Finish() == "" && d.State() != Rejected {
				d.Commit(c.waited)
			}
		}
		if v := a.Verdict(); d.Committed() != c.shown || a.IsMalformed(v) != c.shown {
			t.Errorf("%s: shown %v, counted as bad %v: %+v", name, d.Committed(), a.IsMalformed(v), v)
		}
	}
}

func TestAnAuditOfADraftInOnePieceIsDecidedAtOnce(t *testing.T) {
	for finish, want := range map[string]bool{"stop": true, "abort": false} {
		whole, err := openai.ParseDraftAnswer([]byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"It rains."},"finish_reason":"`+finish+
			`","token_ids":[1,2],"logprobs":{"content":[{"token":"It","logprob":-0.1,"top_logprobs":[]},{"token":" rains.","logprob":-0.1,"top_logprobs":[]}]}}],"usage":{"completion_tokens":2}}`), false)
		if err != nil {
			t.Fatal(err)
		}
		a := NewAudit(options(t, ""), -3)
		a.ObserveWhole(&whole)
		if v := a.Verdict(); v.Accept != want || a.NeedsMore() {
			t.Errorf("%s: %+v, wants more %v", finish, v, a.NeedsMore())
		}
	}
}
