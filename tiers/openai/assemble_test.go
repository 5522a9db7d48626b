package openai

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// chatFrame is a chunk of a chat with one choice.
func chatFrame(delta, finish string) string {
	return `{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{` + delta + `},"logprobs":null,"finish_reason":` + finish + `}]}`
}

// assemble puts chunks together that came to a clean end.
func assemble(kind Kind, chunks ...string) (*Whole, error) {
	a := NewAssembler(kind, 1<<20)
	for _, c := range chunks {
		a.Chunk([]byte(c))
	}
	a.End(Ending{})
	return a.Whole()
}

func TestStreamedCallsAreJoinedByTheirIndex(t *testing.T) {
	got, err := assemble(Chat,
		chatFrame(`"role":"assistant","content":""`, `null`),
		chatFrame(`"reasoning":"I need "`, `null`),
		chatFrame(`"reasoning":"the weather.","content":null`, `null`),
		chatFrame(`"tool_calls":[{"id":"a","type":"function","index":0,"function":{"name":"weather","arguments":""}}]`, `null`),
		chatFrame(`"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]`, `null`),
		chatFrame(`"tool_calls":[{"index":1,"id":"b","function":{"name":"time","arguments":"{"}},{"index":0,"function":{"arguments":"\"Köln\"}"}}]`, `null`),
		chatFrame(`"tool_calls":[{"function":{"arguments":"}","name":null},"id":"b","type":null,"index":1}],"refusal":null`, `null`),
		chatFrame(``, `"tool_calls","stop_reason":128001`),
		`{"choices":[],"usage":{"prompt_tokens":9,"total_tokens":20,"completion_tokens":11,"prompt_tokens_details":{"cached_tokens":4}},"system_fingerprint":"vllm"}`,
	)
	if err != nil {
		t.Fatal(err)
	}
	sameWhole(t, "calls", &Whole{
		Usage: Usage{Prompt: 9, Completion: 11, Cached: 4},
		Choices: []Choice{{
			Null: true, Reasoning: []byte("I need the weather."), As: "reasoning", Finish: "tool_calls", Stop: []byte("128001"),
			Calls: []Call{{"a", "function", "weather", `{"city":"Köln"}`}, {"b", "function", "time", `{}`}},
		}},
	}, got)
}

func TestAWholeAnswerOfVLLMIsRead(t *testing.T) {
	a := NewAssembler(Chat, 1<<20)
	a.Body([]byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[
		{"index":0,"message":{"role":"assistant","content":"Paris.","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning_content":"Hm."},
		 "logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null,"routed_experts":null},
		{"message":{"content":null,"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls","stop_reason":"x","index":1}],
		"service_tier":null,"system_fingerprint":"vllm-0.28.0","usage":{"prompt_tokens":5,"total_tokens":8,"completion_tokens":3,"prompt_tokens_details":null},
		"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null,"metrics":{"queue_time_ms":1}}`))
	got, err := a.Whole()
	if err != nil {
		t.Fatal(err)
	}
	sameWhole(t, "body", &Whole{Usage: Usage{Prompt: 5, Completion: 3}, Choices: []Choice{
		{Text: []byte("Paris."), Reasoning: []byte("Hm."), As: "reasoning_content", Finish: "stop"},
		{Null: true, Calls: []Call{{"a", "function", "f", "{}"}}, Finish: "tool_calls", Stop: []byte(`"x"`)},
	}}, got)
}

func TestReasoningUnderBothNamesIsToldAgainUnderBoth(t *testing.T) {
	want := &Whole{Choices: []Choice{{Text: []byte("Paris."), Reasoning: []byte("It is\nasked."), As: asBoth, Finish: "stop"}}}
	got, err := assemble(Chat,
		chatFrame(`"role":"assistant","content":"","reasoning":null,"reasoning_content":null`, `null`),
		chatFrame(`"reasoning":"It is\n","reasoning_content":"It is\u000a"`, `null`), // one text, however it is written
		chatFrame(`"reasoning_content":"asked.","reasoning":"asked."`, `null`),
		chatFrame(`"reasoning":"","reasoning_content":""`, `null`),
		chatFrame(`"content":"Paris."`, `"stop"`))
	if err != nil {
		t.Fatal(err)
	}
	sameWhole(t, "streamed", want, got)
	a := NewAssembler(Chat, 1<<20)
	a.Body([]byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"Paris.","reasoning":"It is\nasked.","reasoning_content":"It is\nasked."},"finish_reason":"stop"}]}`))
	if got, err = a.Whole(); err != nil {
		t.Fatal(err)
	}
	sameWhole(t, "as JSON", want, got)
	f := NewFramer(Chat, "id", "m", 1)
	for _, out := range [][]byte{f.Whole(nil, got, nil), f.WholeStream(nil, got, nil, false)} {
		if !bytes.Contains(out, []byte(`"reasoning":"It is\nasked.","reasoning_content":"It is\nasked."`)) {
			t.Errorf("told as %s", out)
		}
	}
}

func TestWhatIsNotUnderstoodMakesAnAnswerUnusable(t *testing.T) {
	for name, chunk := range map[string]string{
		"an unknown member of a delta":    chatFrame(`"audio":{"id":"x"}`, `"stop"`),
		"a refusal":                       chatFrame(`"refusal":"no"`, `"stop"`),
		"another role":                    chatFrame(`"role":"tool"`, `"stop"`),
		"reasoning of two texts":          chatFrame(`"reasoning":"x","reasoning_content":"y"`, `"stop"`),
		"reasoning of a number":           chatFrame(`"reasoning":1`, `"stop"`),
		"calls of an object":              chatFrame(`"tool_calls":{}`, `"stop"`),
		"a call that skips an index":      chatFrame(`"tool_calls":[{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}}]`, `"tool_calls"`),
		"a call without id":               chatFrame(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]`, `"tool_calls"`),
		"a call without name":             chatFrame(`"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]`, `"tool_calls"`),
		"a call of another type":          chatFrame(`"tool_calls":[{"index":0,"id":"a","type":"custom","function":{"name":"f","arguments":"{}"}}]`, `"tool_calls"`),
		"an unknown member of a call":     chatFrame(`"tool_calls":[{"index":0,"id":"a","custom":{"x":1},"function":{"name":"f","arguments":"{}"}}]`, `"tool_calls"`),
		"an unknown member of a function": chatFrame(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}","x":1}}]`, `"tool_calls"`),
		"arguments of an object":          chatFrame(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{}}}]`, `"tool_calls"`),
		"arguments that are not JSON":     chatFrame(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]`, `"tool_calls"`),
		"tool_calls without any":          chatFrame(`"content":"x"`, `"tool_calls"`),
		"an abort":                        chatFrame(`"content":"x"`, `"abort"`),
		"a stop_reason of an object":      chatFrame(`"content":"x"`, `"stop","stop_reason":{}`),
		"logprobs":                        `{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[]},"finish_reason":"stop"}]}`,
		"token ids":                       `{"choices":[{"index":0,"delta":{"content":"x"},"token_ids":[1],"finish_reason":"stop"}]}`,
		"no delta":                        `{"choices":[{"index":0,"finish_reason":"stop"}]}`,
		"a delta of null":                 `{"choices":[{"index":0,"delta":null,"finish_reason":"stop"}]}`,
		"text in a chat":                  `{"choices":[{"index":0,"text":"x","finish_reason":"stop"}]}`,
		"no index":                        `{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`,
		"a huge index":                    `{"choices":[{"index":4096,"delta":{"content":"x"},"finish_reason":"stop"}]}`,
		"choices of an object":            `{"choices":{}}`,
		"an error":                        `{"error":{"message":"x"}}`,
		"an unknown member":               strings.Replace(chatFrame(`"content":"x"`, `"stop"`), `"id"`, `"citations":["x"],"id"`, 1),
		"prompt ids":                      strings.Replace(chatFrame(`"content":"x"`, `"stop"`), `"id"`, `"prompt_token_ids":[1],"id"`, 1),
		"no object":                       `[]`,
		"no JSON":                         `{"choices":[`,
		"two documents":                   chatFrame(`"content":"x"`, `"stop"`) + `{}`,
		"half a character":                "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xe6\"},\"finish_reason\":\"stop\"}]}",
	} {
		if w, err := assemble(Chat, chunk); !errors.Is(err, ErrForeign) || w != nil {
			t.Errorf("%s: %v, %v", name, w, err)
		}
		a := NewAssembler(Chat, 1<<20)
		a.Body([]byte(strings.Replace(strings.Replace(chunk, `"message"`, `"other"`, 1), `"delta"`, `"message"`, 1)))
		if w, err := a.Whole(); !errors.Is(err, ErrForeign) || w != nil {
			t.Errorf("%s, in a body: %v, %v", name, w, err)
		}
	}
}

func TestWhatDoesNotFollowMakesAnAnswerUnusable(t *testing.T) {
	end := chatFrame(`"content":"x"`, `"stop"`)
	call := func(id, name string) string {
		return chatFrame(`"tool_calls":[{"index":0,"id":"`+id+`","function":{"name":"`+name+`","arguments":"{}"}}]`, `null`)
	}
	for name, chunks := range map[string][]string{
		"two ends":                  {end, chatFrame(``, `"length"`)},
		"content that is a number":  {chatFrame(`"content":"x"`, `null`), chatFrame(`"content":5`, `null`), end},
		"choices that are a number": {chatFrame(`"content":"x"`, `null`), `{"choices":5}`, end},
		"calls that are a number":   {call("a", "f"), chatFrame(`"tool_calls":5`, `null`), end},
		"arguments of an object":    {call("a", "f"), chatFrame(`"tool_calls":[{"index":0,"function":{"arguments":{}}}]`, `null`), call("a", "f"), chatFrame(``, `"tool_calls"`)},
		"a call that changes id":    {call("a", "f"), call("b", "f"), chatFrame(``, `"tool_calls"`)},
		"a call that changes name":  {call("a", "f"), call("a", "g"), chatFrame(``, `"tool_calls"`)},
	} {
		if w, err := assemble(Chat, chunks...); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
	for name, do := range map[string]func(*Assembler){
		"an abort":         func(a *Assembler) { a.Text([]byte("x")); a.End(Ending{Finish: "abort"}) },
		"a stop_reason":    func(a *Assembler) { a.End(Ending{Finish: "stop", Stop: []byte(`{}`)}) },
		"half a character": func(a *Assembler) { a.Text([]byte("水")[:2]); a.End(Ending{Finish: "stop"}) },
		"a choice twice": func(a *Assembler) {
			a.Body([]byte(`{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"},{"index":0,"message":{"content":"y"},"finish_reason":"stop"}]}`))
		},
	} {
		a := NewAssembler(Chat, 1<<20)
		do(a)
		if w, err := a.Whole(); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
}

func TestAnAnswerThatEndedEarlyIsUnderstoodAndNotComplete(t *testing.T) {
	for finish, complete := range map[string]bool{
		"stop": true, "length": true, "content_filter": false, "repetition": false,
	} {
		w, err := assemble(Chat, chatFrame(`"content":"x"`, `"`+finish+`"`))
		if err != nil || w.Choices[0].Complete() != complete {
			t.Errorf("%s: %+v, %v", finish, w, err)
		}
	}
}

func TestAnAnswerThatDidNotEndIsIncomplete(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for range 8 {
		w := aWhole(rng)
		f := NewFramer(w.Kind, "id", "m", 1)
		body := f.Whole(nil, w, nil)
		for i := range body {
			a := NewAssembler(w.Kind, 1<<20)
			a.Body(body[:i])
			if _, err := a.Whole(); err == nil {
				t.Fatalf("%s: cut at %d, and taken for whole", body, i)
			}
		}
		stream := f.WholeStream(nil, w, nil, false)
		if _, err := assembled(t, w.Kind, stream, nil); !errors.Is(err, ErrIncomplete) {
			t.Fatalf("no end: %v", err)
		}
		frames := bytes.SplitAfter(bytes.TrimSuffix(stream, []byte("data: "+Done+"\n\n")), []byte("\n\n"))
		for i := range frames[:len(frames)-2] { // the last is empty, and the one before ends the last choice
			cut := bytes.Join(frames[:i+1], nil)
			got, err := assembled(t, w.Kind, cut, &Ending{Finish: "stop"})
			if err == nil && len(got.Choices) == len(w.Choices) {
				t.Fatalf("%s: taken for whole", cut)
			}
		}
	}
}

func TestAnAnswerHasAsManyChoicesAsWereWanted(t *testing.T) {
	for body, want := range map[string]int{`"n":3`: 3, `"n":null`: 1, `"best_of":4`: 1, `"n":2,"best_of":4`: 2} {
		r, err := Scan(Completion, []byte(`{"model":"m","prompt":"x",`+body+`}`), DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Choices(); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
	for requested, want := range map[int]error{0: nil, 1: ErrForeign, 2: nil, 3: ErrIncomplete} {
		a := NewAssembler(Completion, 1000)
		a.Want(requested)
		a.Body([]byte(`{"choices":[{"index":1,"text":"b","finish_reason":"stop"},{"index":0,"text":"a","finish_reason":"length"}]}`))
		if _, err := a.Whole(); !errors.Is(err, want) {
			t.Errorf("%d wanted of 2: %v", requested, err)
		}
	}
}

// TestAnAnswerIsBoundInAll: the parts of chunks are bounded by the merger, too: TestAMergedAnswerIsBounded.
func TestAnAnswerIsBoundInAll(t *testing.T) {
	text := strings.Repeat("x", 50)
	for name, add := range map[string]func(a *Assembler, i int){
		"text":    func(a *Assembler, _ int) { a.Text([]byte(text)) },
		"content": func(a *Assembler, _ int) { a.Chunk([]byte(chatFrame(`"content":"`+text+`"`, `null`))) },
		"names": func(a *Assembler, i int) {
			a.Chunk([]byte(chatFrame(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":"a","function":{"name":%q}}]`, i, text), `null`)))
		},
	} {
		a := NewAssembler(Chat, 1000)
		for i := range 100 {
			add(a, i)
		}
		a.End(Ending{Finish: "stop"})
		if w, err := a.Whole(); !errors.Is(err, ErrTooLong) || w != nil || a.merger != nil || a.text != nil {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
	a := NewAssembler(Chat, len(text))
	a.Text([]byte(text))
	a.End(Ending{Finish: "stop"})
	if _, err := a.Whole(); err != nil {
		t.Errorf("as long as it may be: %v", err)
	}
}

// FuzzAssemble: no bytes make the assembler panic, and an answer that it takes is the same in every form.
func FuzzAssemble(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 10 {
		w := aWhole(rng)
		frame := NewFramer(w.Kind, "i", "m", 1)
		f.Add(frame.WholeStream(nil, w, []byte(`{}`), true), byte(w.Kind))
		f.Add(frame.Whole(nil, w, nil), byte(w.Kind)|2)
	}
	f.Add([]byte("data: "+chatFrame(`"content":"x","reasoning":"y"`, `"stop"`)+"\n\n"), byte(0))
	f.Add([]byte("data: "+chatFrame(`"reasoning":"y\n","reasoning_content":"y\u000a"`, `"stop"`)+"\n\n"), byte(0))
	f.Add([]byte("data: "+chatFrame(`"reasoning":"","reasoning_content":"y"`, `"stop"`)+"\n\n"), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, how byte) {
		kind := Kind(how & 1)
		a := NewAssembler(kind, 1<<16)
		if how&2 != 0 {
			a.Body(bytes.Clone(data))
		} else {
			events := NewEventReader(bytes.NewReader(data), 1<<16)
			for event, err := events.Next(); err == nil; event, err = events.Next() {
				a.Chunk(event)
			}
		}
		a.End(Ending{})
		w, err := a.Whole()
		if err != nil {
			return
		}
		back, err := ParseWhole(w.Append(nil))
		if err != nil {
			t.Fatalf("%+v: %v", w, err)
		}
		if !bytes.Equal(back.Append(nil), w.Append(nil)) {
			t.Fatalf("encoded, %+v is %+v", w, back)
		}
		frame := NewFramer(kind, "i", "m", 1)
		again, err := assembled(t, kind, frame.WholeStream(nil, w, nil, true), &Ending{})
		if err != nil || !bytes.Equal(again.Append(nil), w.Append(nil)) {
			t.Fatalf("streamed, %+v is %+v (%v)", w, again, err)
		}
	})
}

func TestAnAnswerOfSGLangIsRead(t *testing.T) {
	for matched, stop := range map[string]string{`2`: "", `null`: "", `"END"`: `"END"`} {
		a := NewAssembler(Chat, 1<<20)
		a.Body([]byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"Paris."},"finish_reason":"stop","matched_stop":` + matched + `}]}`))
		whole, err := a.Whole()
		streamed, streamErr := assemble(Chat, chatFrame(`"content":"Paris."`, `null`), chatFrame(``, `"stop","matched_stop":`+matched))
		if err != nil || streamErr != nil {
			t.Errorf("%s: %v, %v", matched, err, streamErr)
			continue
		}
		for _, got := range []*Whole{whole, streamed} {
			if c := got.Choices[0]; string(c.Text) != "Paris." || string(c.Stop) != stop {
				t.Errorf("%s: %+v", matched, c)
			}
		}
		var p ChunkParser
		c, err := p.Parse([]byte(chatFrame(``, `"stop","matched_stop":`+matched)))
		if err != nil || string(c.Stop) != stop || c.Foreign {
			t.Errorf("%s: %+v, %v", matched, c, err)
		}
	}
}
