package draft

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/schema"
)

const (
	sure     = -0.05
	doubtful = -0.7
	bad      = -5.0
)

// options are those of a streamed draft that is committed behind four tokens, with more members of the request.
func options(t *testing.T, members string) Options {
	t.Helper()
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"Say something."}]` + members + `}`
	r, err := openai.Scan(openai.Chat, []byte(body), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Request:  r,
		Decision: &plan.Decision{Plan: plan.Plan{Tier: plan.Draft, Judged: true, Resume: plan.ResumeIDs}, Accept: accept.Config{Threshold: -1}},
		Config:   &plan.Config{Mode: plan.ModeConfidence, HoldbackTokens: 4, MidstreamFailover: true},
		EOS:      []int32{2}, MaxBytes: 1 << 20,
	}
}

// scriptedChunk is a chunk as an engine sends it: each token has an id, a logprob and its bytes.
type scriptedChunk struct {
	text    []string // of its tokens
	ids     []int32  // nil counts on
	logprob float64
	bare    int    // so many tokens at the end have no logprob
	noBytes bool   // and none tells its bytes
	more    string // more members of the choice, each with a comma before it
	usage   int    // completion tokens; 0 tells none
}

// chunks parses what was said.
func chunks(t *testing.T, all ...scriptedChunk) (out []*openai.Chunk) {
	t.Helper()
	next := int32(100)
	for _, s := range all {
		ids := s.ids
		var logprobs []string
		for i, text := range s.text {
			if s.ids == nil {
				next++
				ids = append(ids, next)
			}
			if i >= len(s.text)-s.bare {
				continue
			}
			raw := "null"
			if !s.noBytes {
				raw = numbers(text)
			}
			logprobs = append(logprobs, fmt.Sprintf(`{"token":%s,"logprob":%v,"bytes":%s,"top_logprobs":[{"token":"x","logprob":%v}]}`, openai.Quote(text), s.logprob, raw, s.logprob))
		}
		b := fmt.Sprintf(`{"index":0,"delta":{"content":%s}`, openai.Quote(strings.Join(s.text, "")))
		if len(ids) > 0 {
			list, _ := json.Marshal(ids)
			b += `,"token_ids":` + string(list)
		}
		if len(logprobs) > 0 {
			b += `,"logprobs":{"content":[` + strings.Join(logprobs, ",") + `]}`
		}
		b = `{"prompt_token_ids":[7,8],"choices":[` + b + s.more + `}]`
		if s.usage > 0 {
			b += fmt.Sprintf(`,"usage":{"prompt_tokens":2,"completion_tokens":%d}`, s.usage)
		}
		p := openai.ChunkParser{Judged: true}
		c, err := p.Parse([]byte(b + "}"))
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		out = append(out, c)
	}
	return out
}

// numbers are the bytes of a text as a list in JSON.
func numbers(text string) string {
	list := make([]int, len(text))
	for i := range len(text) {
		list[i] = int(text[i])
	}
	b, _ := json.Marshal(list)
	return string(b)
}

// words are n chunks of one token each.
func words(n int, logprob float64) (out []scriptedChunk) {
	for i := range n {
		out = append(out, scriptedChunk{text: []string{fmt.Sprintf(" w%d", i)}, logprob: logprob})
	}
	return out
}

// ending is a chunk that ends the answer.
func ending(reason string) scriptedChunk {
	return scriptedChunk{text: []string{""}, ids: []int32{2}, logprob: sure, more: `,"finish_reason":"` + reason + `"`}
}

// take has a draft take chunks and decide behind each, until it is over.
func take(d *Draft, all []*openai.Chunk) {
	for _, c := range all {
		if d.Take(c) || d.finish == "" && !d.Commit(false) && d.State() == Rejected {
			return
		}
	}
}

func TestTheVerdictOnADraftThatIsOver(t *testing.T) {
	long := words(20, sure)
	for name, c := range map[string]struct {
		members string
		change  func(*Options)
		check   []scriptedChunk
		lost    bool
		reason  string
		finish  string
		cut     int // tokens with which the target carries on; of what was not accepted
	}{
		"it is good":                            {"", nil, slices.Concat(long, []scriptedChunk{ending("stop")}), false, accept.ReasonConfident, "stop", 0},
		"it falls before it is committed":       {"", func(o *Options) { o.Decision.Whole = true }, append(words(20, sure), words(20, bad)...), false, accept.ReasonScore, "", 11},
		"it falls after that":                   {"", nil, append(words(20, sure), words(20, bad)...), false, accept.ReasonScore, "", 26},
		"it broke off":                          {"", nil, long, true, accept.ReasonLost, "", 20},
		"it broke off before that was worth it": {"", func(o *Options) { o.Decision.Whole = true }, words(7, sure), true, accept.ReasonLost, "", 0},
		"it ends without a reason":              {"", nil, long, false, accept.ReasonCut, "", 20},
		"its own context ends it":               {"", nil, slices.Concat(long, []scriptedChunk{ending("length")}), false, accept.ReasonCut, "", 20},
		"the client's limit ends it":            {`,"max_tokens":21`, nil, slices.Concat(long, []scriptedChunk{ending("length")}), false, accept.ReasonConfident, "length", 0},
		"a stop string ends it":                 {`,"stop":["w9 w1"]`, nil, long, false, accept.ReasonConfident, "stop", 0},
		"the engine gave it up":                 {"", func(o *Options) { o.Decision.Whole = true }, slices.Concat(long, []scriptedChunk{ending("abort")}), false, accept.ReasonCut, "abort", 0},
		"it says more than text":                {"", nil, append(long[:12:12], scriptedChunk{text: []string{"x"}, more: `,"delta":{"reasoning_content":"hm"}`}), false, ReasonMalformed, "", 12},
		"it is too long":                        {"", func(o *Options) { o.MaxBytes = 30 }, long, false, accept.ReasonLong, "", 10},
		"it is nothing":                         {"", nil, []scriptedChunk{ending("stop")}, false, accept.ReasonEmpty, "stop", 0},
		"it is no JSON from the beginning":      {`,"response_format":{"type":"json_object"}`, func(o *Options) { o.Decision.Whole = true }, long, false, accept.ReasonInvalid, "", 0},
		"it is not of the schema":               {`,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"array"}}}`, func(o *Options) { o.Decision.Whole = true }, []scriptedChunk{{text: []string{"{", "}"}, logprob: sure}, ending("stop")}, false, schema.ReasonMismatch, "stop", 0},
		"it runs in circles":                    {"", func(o *Options) { o.Decision.Whole = true }, circles(), false, accept.ReasonRepetition, "", 0},
		"it has no logprobs":                    {"", nil, bare(20), false, accept.ReasonNoLogprobs, "", 0},
	} {
		o := options(t, c.members)
		if c.change != nil {
			c.change(&o)
		}
		d := New(o)
		take(d, chunks(t, c.check...))
		if c.lost {
			d.Lose()
		}
		v := d.End()
		if v.Reason != c.reason || d.Finish() != c.finish {
			t.Errorf("%s: %+v, finish %q, want %s, %q", name, v, d.Finish(), c.reason, c.finish)
		}
		if at := d.CutPoint(v); !v.Accept && at.Tokens != c.cut {
			t.Errorf("%s: the target carries on at %+v, want %d tokens", name, at, c.cut)
		}
	}
}

// circles is the same phrase over and over.
func circles() (out []scriptedChunk) {
	for i := range 40 {
		out = append(out, scriptedChunk{text: []string{"a"}, ids: []int32{int32(i % 5)}, logprob: sure})
	}
	return out
}

// bare is a draft without logprobs.
func bare(n int) []scriptedChunk {
	out := words(n, sure)
	for i := range out {
		out[i].bare = 1
	}
	return out
}

func TestTheTokenThatEndsTheAnswerMayLackItsLogprob(t *testing.T) {
	for name, c := range map[string]struct {
		members string
		last    scriptedChunk
		reason  string
	}{
		"the chunk says that it ends":       {"", scriptedChunk{text: []string{"end", ""}, bare: 1, logprob: sure, more: `,"finish_reason":"stop"`}, accept.ReasonConfident},
		"an id of the client's ends it":     {"", scriptedChunk{text: []string{"end", ""}, bare: 1, logprob: sure, more: `,"finish_reason":"stop","stop_reason":7`}, accept.ReasonConfident},
		"a stop string of the engine's":     {"", scriptedChunk{text: []string{"end", ""}, bare: 1, logprob: sure, more: `,"finish_reason":"stop","stop_reason":"end"`}, accept.ReasonNoLogprobs},
		"the engine is known to end by it":  {"", scriptedChunk{text: []string{"end", ""}, ids: []int32{9, 2}, bare: 1, logprob: sure}, accept.ReasonConfident},
		"nobody knows it":                   {"", scriptedChunk{text: []string{"end", ""}, ids: []int32{9, 3}, bare: 1, logprob: sure}, accept.ReasonNoLogprobs},
		"it was told to go on behind it":    {`,"ignore_eos":true`, scriptedChunk{text: []string{"end", ""}, ids: []int32{9, 2}, bare: 1, logprob: sure}, accept.ReasonNoLogprobs},
		"two are without, of which it ends": {"", scriptedChunk{text: []string{"end", "e", ""}, bare: 2, logprob: sure, more: `,"finish_reason":"stop"`}, accept.ReasonNoLogprobs},
	} {
		o := options(t, c.members)
		o.Decision.Whole = true
		d := New(o)
		take(d, chunks(t, append(words(3, sure), c.last)...))
		if v := d.EarlyVerdict(); v.Reason != c.reason {
			t.Errorf("%s: %+v, want %s", name, v, c.reason)
		}
		if want := 3 + len(c.last.text); d.Tokens() != want {
			t.Errorf("%s: %d tokens, want %d", name, d.Tokens(), want)
		}
	}
}

// What a client gets of a draft is the text of the tokens that were judged, and nothing else.
func TestADraftThatIsNotTheTextOfItsTokensIsMalformed(t *testing.T) {
	raw := func(data string) []*openai.Chunk {
		p := openai.ChunkParser{Judged: true}
		c, err := p.Parse([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		return []*openai.Chunk{c}
	}
	const other = `{"choices":[{"index":0,"delta":{"content":" never"},"token_ids":[9],"logprobs":{"content":[{"token":" always","logprob":-0.05,"top_logprobs":[]}]}}]}`
	finish := chunks(t, ending("stop"))
	for name, c := range map[string]struct {
		more   []*openai.Chunk
		reason string
	}{
		"other text than its token's": {raw(other), ReasonMalformed},
		"text without a token":        {raw(`{"choices":[{"index":0,"delta":{"content":" never"}}]}`), accept.ReasonNoLogprobs},
		"another choice":              {raw(strings.Replace(strings.Replace(other, "never", "always", 1), `"index":0`, `"index":1`, 1)), ReasonMalformed},
		"two choices":                 {raw(`{"choices":[{"index":0,"delta":{"content":""}},{"index":0,"delta":{"content":""}}]}`), ReasonMalformed},
		"more logprobs than ids":      {raw(`{"choices":[{"index":0,"delta":{"content":"ab"},"token_ids":[9],"logprobs":{"content":[{"token":"a","logprob":-0.05},{"token":"b","logprob":-0.05}]}}]}`), ReasonMalformed},
		"text behind the end":         {append(finish, raw(strings.Replace(other, "never", "always", 1))...), ReasonMalformed},
		"a second end":                {append(finish, raw(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)...), ReasonMalformed},
		"an end without its text":     {raw(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","token_ids":[7,8,2],"logprobs":{"content":[{"token":" but","logprob":-0.05},{"token":" not","logprob":-0.05},{"token":"","logprob":-0.05}]}}]}`), ReasonMalformed},
		"nothing":                     {finish, accept.ReasonConfident},
	} {
		for _, whole := range []bool{true, false} {
			o := options(t, "")
			o.Decision.Whole = whole
			d := New(o)
			for _, k := range append(chunks(t, words(8, sure)...), c.more...) {
				if d.Take(k) {
					break
				}
				if d.finish == "" {
					d.Commit(false)
				}
			}
			v := d.End()
			if v.Reason != c.reason || (d.State() == Accepted) != (c.reason == accept.ReasonConfident) || strings.Contains(string(d.Transcript().Text()), "never") {
				t.Errorf("%s, whole %v: %+v of %q", name, whole, v, d.Transcript().Text())
			}
		}
	}
}

func TestTokensAreCountedAsTheEngineTellsThem(t *testing.T) {
	mute := scriptedChunk{text: []string{"some words"}, ids: []int32{}, bare: 1}
	counted := func(n int) scriptedChunk { s := mute; s.usage = n; return s }
	for name, c := range map[string]struct {
		check   []scriptedChunk
		n       int
		guessed bool
	}{
		"by ids":             {[]scriptedChunk{{text: []string{"a", "b"}, bare: 2}}, 2, false},
		"by usage":           {[]scriptedChunk{counted(3), counted(7)}, 7, false},
		"by chunks":          {[]scriptedChunk{mute, mute}, 2, true},
		"it claims too much": {[]scriptedChunk{counted(500)}, 11, false},
	} {
		o := options(t, "")
		o.Decision.Whole, o.Decision.Checked = true, true // by the target: else a token without a logprob ends the draft
		d := New(o)
		take(d, chunks(t, c.check...))
		if d.Tokens() != c.n || d.EstimatedTokens() != c.guessed {
			t.Errorf("%s: %d tokens, guessed %v, want %d, %v", name, d.Tokens(), d.EstimatedTokens(), c.n, c.guessed)
		}
	}
}

func TestADraftMayBeCutWhereItsTextEndsWithItsTokens(t *testing.T) {
	two := scriptedChunk{text: []string{" a", " b"}, logprob: sure}
	dumb := two
	dumb.noBytes = true
	half := scriptedChunk{text: []string{" a", ""}, logprob: sure} // bytes of a character that is not shown yet
	for name, c := range map[string]struct {
		resume  bool // by ids
		check   scriptedChunk
		want    int // clean tokens
		inText3 int // tokens of the first three bytes
	}{
		"a token":                         {true, scriptedChunk{text: []string{" abc"}, logprob: sure}, 1, 1},
		"two tokens that tell their text": {true, two, 2, 2},
		"two that do not":                 {true, dumb, 0, -1},
		"they are, by text":               {false, dumb, 2, -1},
		"tokens without text":             {true, scriptedChunk{text: []string{""}, logprob: sure}, 0, 0},
		"a part of a character":           {true, half, 2, 1},
		"the end":                         {true, scriptedChunk{text: []string{" abc"}, logprob: sure, more: `,"finish_reason":"stop"`}, 0, 1},
	} {
		o := options(t, "")
		if !c.resume {
			o.Decision.Resume = plan.ResumeText
		}
		d := New(o)
		d.Take(chunks(t, c.check)[0])
		tr := d.Transcript()
		if at := tr.CutAt(9); at.Tokens != c.want {
			t.Errorf("%s: cut at %+v, want %d tokens", name, at, c.want)
		}
		tr.Rewind(CutPoint{Text: 3})
		n, exact := tr.Tokens()
		if !exact {
			n = -n
		}
		if n != c.inText3 {
			t.Errorf("%s: %d tokens in three bytes, want %d", name, n, c.inText3)
		}
	}
}

func TestACommittedDraftIsReleasedAsFarAsItMayBeCut(t *testing.T) {
	d := New(options(t, ""))
	all := chunks(t, append(words(4, sure), scriptedChunk{text: []string{" x", " y"}, logprob: sure, noBytes: true})...)
	for i, c := range all[:4] {
		if d.Take(c) {
			t.Fatal("over")
		}
		if got := d.Commit(false); got != (i == 3) {
			t.Errorf("behind %d tokens: committed %t", i+1, got)
		}
	}
	if got := string(d.Release()); !d.Committed() || got != " w0 w1 w2 w3" {
		t.Errorf("released %q", got)
	}
	d.Take(all[4])
	if got := d.Release(); got != nil {
		t.Errorf("released %q, behind which no cut is possible", got)
	}
}

func TestADraftThatIsTheAnswerEndsAsItDid(t *testing.T) {
	for name, c := range map[string]struct {
		members string
		check   []scriptedChunk
		want    openai.Ending
	}{
		"with the engine's usage": {"", append(words(9, sure), scriptedChunk{text: []string{""}, ids: []int32{2}, logprob: sure, usage: 12, more: `,"finish_reason":"stop","stop_reason":7`}),
			openai.Ending{Finish: "stop", Stop: []byte("7"), Usage: openai.Usage{Prompt: 2, Completion: 12}}},
		"without": {"", append(words(9, sure), ending("stop")),
			openai.Ending{Finish: "stop", Usage: openai.Usage{Prompt: 2 * 10, Completion: 10}}}, // each chunk tells the prompt's ids here
		"with a stop string, and nothing behind it counts": {`,"stop":["STOP"]`, append(words(9, sure), scriptedChunk{text: []string{" ST", "OP", " and", " more"}, logprob: sure, usage: 13}),
			openai.Ending{Finish: "stop", Stop: []byte(`"STOP"`), Usage: openai.Usage{Prompt: 2, Completion: 11}}},
	} {
		d := New(options(t, c.members))
		take(d, chunks(t, c.check...))
		if v := d.End(); d.State() != Accepted {
			t.Errorf("%s: not kept: %+v", name, v)
		}
		if diff := cmp.Diff(c.want, d.Ending()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestADoubtfulDraftIsWhatTheTargetSaysOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		check *accept.Check
		want  accept.Verdict // its Reason and Lot
		cut   int
	}{
		"it stands by it":      {&accept.Check{Pass: true, Kept: 20, Reason: accept.ReasonTargetAgrees}, accept.Verdict{Accept: true, Reason: accept.ReasonTargetAgrees}, 0},
		"it stands by a part":  {&accept.Check{Kept: 7, Reason: accept.ReasonTargetDisagrees}, accept.Verdict{Reason: accept.ReasonTargetDisagrees}, 7},
		"it could not say any": {nil, accept.Verdict{Reason: accept.ReasonNoVerdict}, 0},
	} {
		o := options(t, "")
		o.Decision.Whole, o.Decision.Checked, o.Decision.Accept.Threshold = true, true, -1
		d := New(o)
		take(d, chunks(t, append(words(19, sure), ending("stop"))...))
		if v := d.End(); v.Reason != accept.ReasonDoubtful || !tellsIDs(d) || !d.EndsItself() {
			t.Fatalf("%s: %+v", name, v)
		}
		d.Check(c.check)
		v := d.End()
		if v.Accept != c.want.Accept || v.Reason != c.want.Reason || (d.State() == Accepted) != v.Accept {
			t.Errorf("%s: %+v", name, v)
		}
		if at := d.CutPoint(v); !v.Accept && at.Tokens != c.cut {
			t.Errorf("%s: the target carries on at %+v, want %d tokens", name, at, c.cut)
		}
	}
}

func TestADraftInOnePieceIsJudgedWithItsCalls(t *testing.T) {
	const tools = `,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","required":["city"]}}}]`
	call := func(arguments string) string {
		return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"weather","arguments":%s}}]}`, openai.Quote(arguments))
	}
	for name, c := range map[string]struct {
		message, finish string
		ids, scored     int
		reason          string
	}{
		"its call is sound":             {call(`{"city":"Rome"}`), "tool_calls", 10, 10, accept.ReasonConfident},
		"the last token has no logprob": {call(`{"city":"Rome"}`), "tool_calls", 10, 9, accept.ReasonConfident},
		"two have none":                 {call(`{"city":"Rome"}`), "tool_calls", 10, 8, accept.ReasonNoLogprobs},
		"its call is not of the schema": {call(`{"town":"Rome"}`), "tool_calls", 10, 10, schema.ReasonArguments},
		"it is text":                    {`{"role":"assistant","content":"It rains."}`, "stop", 10, 10, accept.ReasonConfident},
		"its own context ends it":       {`{"role":"assistant","content":"It rains"}`, "length", 10, 10, accept.ReasonCut},
		"it reasons":                    {`{"role":"assistant","content":"It rains.","reasoning_content":"hm"}`, "stop", 10, 10, ReasonMalformed},
	} {
		ids, _ := json.Marshal(make([]int32, c.ids))
		lp := strings.Repeat(`,{"token":"","logprob":-0.05,"top_logprobs":[]}`, c.scored)[1:]
		body := fmt.Sprintf(`{"choices":[{"index":0,"message":%s,"finish_reason":"%s","token_ids":%s,"logprobs":{"content":[%s]}}],"prompt_token_ids":[7,8],"usage":{"prompt_tokens":2,"completion_tokens":%d}}`,
			c.message, c.finish, ids, lp, c.ids)
		a, err := openai.ParseDraftAnswer([]byte(body), false)
		if err != nil {
			t.Fatal(err)
		}
		o := options(t, tools)
		o.Decision.Whole, o.Decision.Calls = true, true
		d := New(o)
		d.TakeWhole(&a)
		if v := d.End(); v.Reason != c.reason || v.Accept != (c.reason == accept.ReasonConfident) {
			t.Errorf("%s: %+v, want %s", name, v, c.reason)
		}
		if d.Tokens() != c.ids || !tellsIDs(d) {
			t.Errorf("%s: %d tokens, ids %v", name, d.Tokens(), d.Transcript().IDs())
		}
	}
}

func TestTheScoreIsToldAtPowersOfTwoAndHalfBetween(t *testing.T) {
	o := options(t, "")
	o.Decision.Whole = true
	d := New(o)
	take(d, chunks(t, words(50, sure)...))
	var at []int
	for _, m := range d.ScoreSeries() {
		at = append(at, m.Tokens)
	}
	if want := []int{8, 12, 16, 24, 32, 48, 50}; !slices.Equal(at, want) {
		t.Errorf("at %v, want %v", at, want)
	}
	if last := d.ScoreSeries(); len(last) != len(at) || last[len(last)-1].Score != d.score.Score() {
		t.Errorf("at the end: %v", last)
	}
}

// tellsIDs reports whether the ids of the prompt and of all the draft's tokens are known.
func tellsIDs(d *Draft) bool {
	n := len(d.Transcript().IDs())
	return len(d.Transcript().PromptIDs()) > 0 && n > 0 && n == d.Tokens()
}

// TestWhatEndsADraft: vLLM names the id of an end of the model's own that is not its first, and that of a client's.
func TestWhatEndsADraft(t *testing.T) {
	for name, c := range map[string]struct {
		members, reason string
		itself          bool
	}{
		"nothing is said":                       {"", `null`, true},
		"an id of the model's own":              {"", `2`, true},
		"one that is not known yet":             {"", `3`, true},
		"one of the client's":                   {`,"stop_token_ids":[9,3]`, `3`, false},
		"another than the client's":             {`,"stop_token_ids":[9]`, `3`, true},
		"one of the model's and the client's":   {`,"stop_token_ids":[2]`, `2`, true},
		"a stop string that the engine matched": {"", `"END"`, false},
	} {
		d := New(options(t, c.members))
		take(d, chunks(t, append(words(9, sure), scriptedChunk{text: []string{""}, ids: []int32{2}, logprob: sure, more: `,"finish_reason":"stop","stop_reason":` + c.reason})...))
		if got := d.EndsItself(); got != c.itself {
			t.Errorf("%s: %t", name, got)
		}
	}
}
