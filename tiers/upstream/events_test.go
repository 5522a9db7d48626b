package upstream

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// opened opens a stream of these events, which a backend sends at once.
func opened(t *testing.T, call engine.Call, events ...string) engine.Stream {
	t.Helper()
	s := open(t, scripted("text/event-stream", []byte("data: "+strings.Join(events, "\n\ndata: ")+"\n\n")), at("http://127.0.0.1:1", call))
	t.Cleanup(s.Close)
	return s
}

// TestAStreamIsWholeWhenAllItsChoicesHaveFinished: a backend is lost, or says that it is done, in a stream of several
// choices.
func TestAStreamIsWholeWhenAllItsChoicesHaveFinished(t *testing.T) {
	const (
		first = `{"choices":[{"index":0,"text":"one","finish_reason":"stop"}]}`
		more  = `{"choices":[{"index":1,"text":"tw"}]}`
		last  = `{"choices":[{"index":1,"text":"o","finish_reason":"length"}]}`
		both  = `{"choices":[{"index":0,"text":"one","finish_reason":"stop"},{"index":1,"text":"two","finish_reason":"stop"}]}`
		usage = `{"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3}}`
	)
	for name, tc := range map[string]struct {
		events []string
		want   engine.FailureKind // "" is a whole stream
	}{
		"lost in the second choice":             {[]string{first, more}, engine.Cut},
		"lost before the second choice":         {[]string{first}, engine.Cut},
		"done within the second choice":         {[]string{first, more, usage, openai.Done}, engine.Cut},
		"the engine ignores n":                  {[]string{first, usage, openai.Done}, ""},
		"one choice ends twice":                 {[]string{first, first, openai.Done}, ""},
		"aborted beside one that has ended":     {[]string{first, strings.Replace(both, `"stop"`, `"abort"`, 1), usage, openai.Done}, engine.Aborted},
		"all ended, and lost before the usage":  {[]string{first, more, last}, engine.Cut}, // whether it is whole is for others to say
		"all ended":                             {[]string{first, more, last, usage, openai.Done}, ""},
		"all ended in one chunk":                {[]string{both, usage, openai.Done}, ""},
		"what is behind the end is nobody's":    {[]string{both, openai.Done, `{"error":{"message":"x"}}`}, ""},
		"an error in mid-answer":                {[]string{first, `{"error":{"message":"x","code":500}}`}, engine.ServerError},
		"what is no JSON in mid-answer":         {[]string{first, `{`}, engine.BadResponse},
		"an endless event in mid-answer":        {[]string{first, strings.Repeat("a", maxEvent)}, engine.BadResponse},
		"only comments and other fields follow": {[]string{both + "\n\n: ping\n\nevent: x", openai.Done}, ""},
	} {
		for _, asked := range []string{`"prompt":["a","b"]`, `"prompt":[[1],[2]]`, `"prompt":"a","n":2`} {
			r := scan(t, openai.Completion, `{"model":"m",`+asked+`,"stream":true}`)
			_, err := drain(opened(t, &engine.Relay{Request: r}, tc.events...))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("%s, %s: %v", name, asked, err)
			case tc.want != "":
				if f := failureOf(t, err); f.Kind != tc.want || f.Responded != 200 {
					t.Errorf("%s, %s: %v, want %s", name, asked, f, tc.want)
				}
			}
		}
	}
}

func TestAChunkHasWhatItsCallAsksFor(t *testing.T) {
	r := scan(t, openai.Chat, aStream)
	for name, tc := range map[string]struct {
		call   engine.Call
		judged bool
	}{
		"a draft":                {&engine.Draft{Request: r}, true},
		"a continuation by ids":  {&engine.ContinueIDs{Request: r, PromptIDs: []int32{1}, IDs: []int32{2}, MaxTokens: 1}, true},
		"a continuation by text": {&engine.ContinueText{Request: r, Text: []byte("a")}, false},
		"a relay":                {&engine.Relay{Request: r}, false},
	} {
		s := opened(t, tc.call, aChunk, aChunk, aChunk, anEnd, openai.Done)
		for i, want := range []engine.Want{engine.WantTokens, engine.WantTops, engine.WantTokens} {
			c, err := s.Next(want)
			if err != nil || string(c.Text) != "hi" || string(c.Raw) != aChunk {
				t.Fatalf("%s: %+v, %v", name, c, err)
			}
			if tc.judged != (len(c.IDs) == 1 && len(c.Logprobs) == 1 && len(c.PromptIDs) == 2) || c.Foreign == tc.judged {
				t.Errorf("%s: %+v", name, c)
			}
			// Of the first, which is read while it is opened, nobody knows yet what will be wanted.
			if all := i == 0 || want == engine.WantTops; tc.judged && all != (len(c.Top(0)) == 2) {
				t.Errorf("%s: %d alternatives of chunk %d", name, len(c.Top(0)), i)
			}
		}
	}
}

// TestEventsThatSayNothingArePassedOver: engines, their proxies and load balancers send them as signs of life. A null is as
// if it were not there, and what is passed on says so, because clients look into what is null.
func TestEventsThatSayNothingArePassedOver(t *testing.T) {
	for name, event := range map[string]string{
		"data without a value":   "data:",
		"data of blanks":         "data: \t ",
		"a bare data line":       "data",
		"a ping":                 "event: ping\ndata:",
		"two lines of nothing":   "data: \nid: 1\ndata",
		"a byte order mark":      "\ufeff: ping",
		"null":                   "data: null",
		"an empty list":          "data: []",
		"an empty object":        "data: {}",
		"no choices":             `data: {"choices":[],"usage":null}`,
		"null choices":           `data: {"choices":null}`,
		"a null choice":          `data: {"choices":[null]}`,
		"a null delta":           `data: {"choices":[{"index":0,"delta":null,"finish_reason":null}]}`,
		"only an id and a retry": "id: 7\nretry: 100",
	} {
		for _, call := range []engine.Call{relay(t, aStream), &engine.Draft{Request: scan(t, openai.Chat, aStream)}} {
			body := strings.Join([]string{event, "data: " + aChunk, event, "data: " + anEnd, event, "data: " + itsUse, event, "data: " + openai.Done, ""}, "\n\n")
			s, err := scripted("text/event-stream", []byte(body)).Open(t.Context(), at("http://127.0.0.1:1", call))
			if err != nil {
				t.Errorf("%s, %T: %v", name, call, err)
				continue
			}
			texts, err := drain(s)
			if want := []string{"hi", " you", ""}; err != nil || !slices.Equal(texts, want) {
				t.Errorf("%s, %T: %q, %v; want %q", name, call, texts, err, want)
			}
		}
	}
}

func TestNullsOfAChunkArePassedOnAsWhatTheyMean(t *testing.T) {
	const (
		ended = `{"choices":[{"index":0,"delta":null,"finish_reason":"stop"}]}`
		usage = `{"choices":null,"usage":{"prompt_tokens":2,"completion_tokens":3}}`
	)
	s := opened(t, relay(t, aStream), "\ufeff"+aChunk, ended, usage, openai.Done)
	for _, want := range []string{aChunk, strings.Replace(ended, "null", "{}  ", 1), strings.Replace(usage, "null", "[]  ", 1)} {
		if c, err := s.Next(engine.WantTokens); err != nil || string(c.Raw) != want {
			t.Errorf("%+v, %v; want %s", c, err, want)
		}
	}
	if _, err := s.Next(engine.WantTokens); err != io.EOF {
		t.Error(err)
	}
}

// TestOnlyTheTerminatorIsMissing: all choices have ended and the usage is told, so nothing of the answer can be lost.
func TestOnlyTheTerminatorIsMissing(t *testing.T) {
	ended := strings.TrimSuffix(anEnd, "}") + `,"usage":{"prompt_tokens":2,"completion_tokens":3}}`
	for name, events := range map[string][]string{
		"the usage is a chunk of its own":  {aChunk, anEnd, itsUse},
		"it is told with the end":          {aChunk, ended},
		"the terminator is half there":     {aChunk, anEnd, itsUse, "[DO"},
		"an endless event in its place":    {aChunk, anEnd, itsUse, strings.Repeat("a", maxEvent)},
		"the terminator has no blank line": {aChunk, anEnd, itsUse, openai.Done},
	} {
		body := strings.TrimSuffix("data: "+strings.Join(events, "\n\ndata: "), "\n")
		if len(events) < 4 {
			body += "\n\n"
		}
		s := open(t, scripted("text/event-stream", []byte(body)), at("http://127.0.0.1:1", relay(t, aStream)))
		if texts, err := drain(s); err != nil || strings.Join(texts, "") != "hi you" {
			t.Errorf("%s: %q, %v", name, texts, err)
		}
		s.Close()
	}
}

func TestWhatIsAtHandIsBuffered(t *testing.T) {
	more := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+aChunk+"\n\ndata: "+aChunk+"\n\n: ping\n\n") // in one piece
		_ = http.NewResponseController(w).Flush()
		<-more
		say(w, anEnd, openai.Done)
	})
	s := open(t, newClient(t, Options{}), at(url, relay(t, aStream)))
	for i, want := range []bool{true, true, false} { // a comment is no chunk that would be at hand
		if got := s.Buffered(); got != want {
			t.Errorf("before chunk %d: %v", i, got)
		}
		if i < 2 {
			if _, err := s.Next(engine.WantTokens); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(more)
	if texts, err := drain(s); err != nil || len(texts) != 1 {
		t.Errorf("%q, %v", texts, err)
	}
}

func TestTheUsageOfAStreamIsWithinWhatHasCome(t *testing.T) {
	const absurd = `{"choices":[],"usage":{"prompt_tokens":1000000000000,"completion_tokens":1000000000000}}`
	s := opened(t, relay(t, aStream), aChunk, absurd, anEnd, absurd, openai.Done)
	var last openai.Usage
	for {
		c, err := s.Next(engine.WantTokens)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.HasUsage {
			last = c.Usage
		}
	}
	if came := len(aChunk) + len(anEnd) + 2*len(absurd); last.Completion != came || last.Prompt > 5000 || last.Prompt == 0 {
		t.Errorf("%+v, of %d bytes", last, came)
	}
}

// FuzzEvents reads what engines stream. Whatever it is, the stream ends within as many chunks as there are events,
// well only behind the end of its choice and the terminator.
func FuzzEvents(f *testing.F) {
	for _, events := range [][]string{{aChunk, anEnd, itsUse, openai.Done}, {aChunk, openai.Done}, {`{"error":{"code":400}}`}, {anEnd}, {"{", "["}} {
		f.Add([]byte("data: "+strings.Join(events, "\n\ndata: ")+"\n\n"), true)
		f.Add([]byte("data: "+strings.Join(events, "\r\rdata:")+"\r\r"), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, judged bool) {
		r := scan(t, openai.Chat, aStream)
		var call engine.Call = &engine.Relay{Request: r}
		if judged {
			call = &engine.Draft{Request: r}
		}
		s, err := scripted("text/event-stream", body).Open(t.Context(), at("http://127.0.0.1:1", call))
		ended, chunks := false, 0
		for err == nil {
			var c *openai.Chunk
			if c, err = s.Next(engine.WantTops); err != nil {
				s.Close()
				break
			}
			ended = ended || len(c.Ended) > 0
			if chunks++; chunks > strings.Count(string(body), "data")+1 {
				t.Fatalf("%d chunks", chunks)
			}
			if u := c.Usage; u.Completion < 0 || u.Completion > 1000 || u.Completion > len(body) || u.Prompt < 0 || u.Prompt > 10000 {
				t.Errorf("%+v", u)
			}
			if judged {
				for i := range c.Logprobs {
					_ = c.Top(i)
				}
			}
		}
		if err == io.EOF && (!ended || !strings.Contains(string(body), openai.Done)) {
			t.Errorf("a whole answer of %q", body)
		}
		if err != io.EOF {
			failureOf(t, err)
		}
	})
}

// TestIndexesThatNobodyWouldKeepAListForAreRefused: clients make room for as many choices and calls.
func TestIndexesThatNobodyWouldKeepAListForAreRefused(t *testing.T) {
	const huge = "4611686018427387904"
	for _, event := range []string{
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":` + huge + `,"id":"a","function":{"name":"f"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":-1}]}}]}`,
		`{"choices":[{"index":` + huge + `,"delta":{"content":"a"}}]}`,
		`{"choices":[{"index":99999999999999999999,"delta":{"content":"a"}}]}`,
	} {
		_, err := drain(opened(t, relay(t, aStream), aChunk, event, anEnd, openai.Done))
		if f := failureOf(t, err); f.Kind != engine.BadResponse {
			t.Errorf("%s: %v", event, f)
		}
	}
}

// numbersIn returns the numbers of a JSON value.
func numbersIn(v any) (all []float64) {
	switch v := v.(type) {
	case float64:
		return []float64{v}
	case []any:
		for _, e := range v {
			all = append(all, numbersIn(e)...)
		}
	case map[string]any:
		for _, e := range v {
			all = append(all, numbersIn(e)...)
		}
	}
	return all
}

func TestNumbersOfAUsageThatCannotBeAreNotPassedOn(t *testing.T) {
	for _, n := range []string{"9223372036854775807", "-5", "1e300", "1e999", "-0.5", "9223372036854775808", "99999999999999999999", "1000000000000", "1e12"} {
		usage := `,"usage":{"prompt_tokens":` + n + `,"completion_tokens":` + n + `,"total_tokens":` + n + `,"cost":0.25,"prompt_tokens_details":{"cached_tokens":` + n + `,"more":[` + n + `]}}}`
		stream := relay(t, aStream)
		s := opened(t, stream, aChunk, anEnd, `{"choices":[]`+usage, openai.Done)
		passed := map[string][]byte{}
		for c, err := s.Next(engine.WantTokens); err != io.EOF; c, err = s.Next(engine.WantTokens) {
			if err != nil {
				t.Fatal(err)
			}
			passed["stream"] = slices.Clone(c.Raw)
		}
		one := relay(t, aPlain)
		if err := answered(t, scripted("application/json", []byte(strings.Split(aWhole, `,"usage"`)[0]+usage)), at("http://127.0.0.1:1", one)); err != nil {
			t.Fatal(err)
		}
		if passed["one piece"] = one.Into.Raw; one.Into.Usage.Completion < 1 || one.Into.Usage.Completion > 1000 {
			t.Errorf("%s: %+v", n, one.Into.Usage)
		}
		for name, raw := range passed {
			var got struct {
				Usage map[string]any
			}
			if err := json.Unmarshal(raw, &got); err != nil || got.Usage["cost"] != .25 {
				t.Errorf("%s, %s: %v: %s", n, name, err, raw)
			}
			for key, v := range got.Usage {
				for _, n := range numbersIn(v) {
					if most := 1e13; n < 0 || n > most || n > 20000 && key != "prompt_tokens_details" {
						t.Errorf("%s has %s %v: %s", name, key, n, raw)
					}
				}
			}
		}
	}
}
