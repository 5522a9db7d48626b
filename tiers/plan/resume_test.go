package plan

import (
	"testing"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
)

// engineOf is the card of an engine of a kind as the probe would find it.
func engineOf(kind dialect.Kind) *probe.Capabilities {
	c := able()
	c.Engine = kind
	if d := dialect.Of(kind); len(d.Scoring) == 0 {
		c.Scoring, c.Tokenizer, c.Template = "", "t2", "c2"
		c.Missing = []probe.MissingCapability{
			{Name: probe.MissingContinue, Reason: "ids are not taken"}, {Name: probe.MissingPromptIDs, Reason: "not told"}, {Name: probe.MissingScoring, Reason: "no way"},
		}
	}
	return c
}

// TestTheTableOfHowEachKindOfTargetGoesOn: a stream is released while it is drafted only if the target can continue it.
func TestTheTableOfHowEachKindOfTargetGoesOn(t *testing.T) {
	for _, row := range []struct {
		kind dialect.Kind
		more string
		want string
	}{
		{dialect.VLLM, `,"stream":true`, "never, by ids"},
		{dialect.SGLang, `,"stream":true`, "never, by ids"},
		{dialect.LlamaCpp, `,"stream":true`, "never, by text"},
		{dialect.OpenAI, `,"stream":true`, "never, whole, afresh"},
		{dialect.OpenAI, ``, "never, whole, afresh"},
		{"", `,"stream":true`, "never, by ids"},
	} {
		cfg := Config{Mode: ModeConfidence, MaxPromptTokens: 1000, MidstreamFailover: true}
		f := Facts{Draft: engineOf(dialect.VLLM), Target: engineOf(row.kind)}
		body := `{"model":"m","messages":[{"role":"user","content":"Why?"}],"temperature":0` + row.more + `}`
		if got := planned(t, cfg, f, body); got != row.want {
			t.Errorf("%s%s: %s, want %s", row.kind, row.more, got, row.want)
		}
	}
}

func TestATargetThatIsNotProbedYetContinuesAsItsKindDoes(t *testing.T) {
	for kind, want := range map[dialect.Kind]Resume{"": ResumeIDs, dialect.VLLM: ResumeIDs, dialect.LlamaCpp: ResumeIDs, dialect.OpenAI: resumeNever} {
		r := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`)
		p := Make(Config{Mode: ModeConfidence, MaxPromptTokens: 1000, MidstreamFailover: true}, Facts{Request: r, HasDraft: true, SameTokenizer: true, TargetEngine: kind})
		if p.Resume != want || p.Whole != (want == resumeNever) {
			t.Errorf("%q: %+v", kind, p)
		}
	}
}

// TestATextIsContinuedOnlyByEnginesThatDo: a completion by all, because its prompt just gets longer.
func TestATextIsContinuedOnlyByEnginesThatDo(t *testing.T) {
	for _, row := range []struct {
		kind             dialect.Kind
		found            dialect.Continue
		chat, completion bool
	}{
		{"", "", true, true}, {dialect.VLLM, "", true, true}, {dialect.SGLang, "", true, true}, {dialect.LlamaCpp, "", true, true},
		{dialect.OpenAI, "", false, true}, {dialect.OpenAI, dialect.Continues, true, true}, {dialect.OpenAI, dialect.Repeats, true, true},
		{dialect.OpenAI, dialect.ContinueNot, false, true}, {dialect.VLLM, dialect.ContinueNot, false, true},
	} {
		for kind, want := range map[openai.Kind]bool{openai.Chat: row.chat, openai.Completion: row.completion} {
			body := `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
			if kind == openai.Completion {
				body = `{"model":"m","prompt":"hi"}`
			}
			r := scan(t, kind, body)
			found := engineOf(row.kind)
			found.Continue = row.found
			if got := CanContinue(r, found, ""); got != want {
				t.Errorf("%q, found %q, %v: %t", row.kind, row.found, kind, got)
			}
			begun := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Well"}]}`)
			if flags := dialect.Of(row.kind).ContinueBy == dialect.ContinueByFlags; CanContinue(begun, found, "") != (row.chat && flags) {
				t.Errorf("%q continues behind what the client has begun: %t", row.kind, !flags)
			}
			if row.found == "" && CanContinue(r, nil, row.kind) != want {
				t.Errorf("%v: an engine that was not probed is not taken for one of its kind, %q", kind, row.kind)
			}
		}
	}
}

// TestAnAnswerIsCarriedOnOnlyWhereNothingOfItIsLost: by text only a plain answer, by ids what a body of its own can ask for.
func TestAnAnswerIsCarriedOnOnlyWhereNothingOfItIsLost(t *testing.T) {
	for more, want := range map[string][2]bool{ // by text, by ids
		`"stop":["a"]`: {true, true}, `"logprobs":true`: {false, true}, `"n":2,"temperature":1`: {false, true}, `"frequency_penalty":1`: {false, true},
		`"response_format":{"type":"json_object"}`: {false, true},
		`"top_k":40`: {true, true}, `"min_p":0.05`: {true, true}, `"stop_token_ids":[7]`: {true, true}, `"repetition_penalty":1.0`: {true, true},
		`"reasoning_effort":"low"`: {true, true}, `"metadata":{"a":"b"}`: {true, true}, `"typical_p":null`: {true, true},
		`"typical_p":0.9`: {true, false}, `"no_stop_trim":true`: {true, false}, `"thinking_token_budget":64`: {false, false},
		`"repetition_detection":{"max_pattern_size":4}`: {false, false}, `"a_field_of_next_year":1`: {true, false},
	} {
		r := scan(t, openai.Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}],`+more+`}`)
		if got := [2]bool{CanContinue(r, nil, dialect.VLLM), continuesExactly(r)}; got != want {
			t.Errorf("%s: by text %t, by ids %t", more, got[0], got[1])
		}
	}
}
