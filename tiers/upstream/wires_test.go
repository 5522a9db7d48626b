package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// atA is an attempt at an engine of a kind.
func atA(kind dialect.Kind, url string, call engine.Call) *engine.Attempt {
	a := at(url, call)
	a.Engine = kind
	return a
}

// llamaToken is an entry of llama.cpp's logprobs.
func llamaToken(id int, text string) string {
	return fmt.Sprintf(`{"id":%d,"token":%q,"bytes":[%s],"logprob":-0.5,"top_logprobs":[{"id":%d,"token":%q,"bytes":[32],"logprob":-0.5},{"id":7,"token":"b","bytes":[98],"logprob":-1.5}]}`,
		id, text, strings.TrimSuffix(strings.Repeat("97,", len(text)), ","), id, text)
}

// llamaEnd are the last events of llama.cpp's streams.
var llamaEnd = []string{
	`{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"id":"c","model":"big","system_fingerprint":"b6100","object":"chat.completion.chunk"}`,
	`{"choices":[],"created":1,"id":"c","model":"big","system_fingerprint":"b6100","object":"chat.completion.chunk","usage":{"completion_tokens":5,"prompt_tokens":9,"total_tokens":14},"timings":{"prompt_n":9,"predicted_n":5,"predicted_per_second":80.5}}`,
	openai.Done,
}

// llamaStream are the events of an answer; part is the start of a choice up to its text.
func llamaStream(part string, texts ...string) []string {
	var all []string
	for i, text := range texts {
		all = append(all, fmt.Sprintf(`{"choices":[{"finish_reason":null,"index":0,`+part+`,"logprobs":{"content":[%s]}}],"created":1,"id":"c","model":"big","system_fingerprint":"b6100","object":"chat.completion.chunk"}`,
			text, llamaToken(100+i, text)))
	}
	return append(all, llamaEnd...)
}

// readAllOf is all that a stream's chunks tell.
func readAllOf(t *testing.T, s engine.Stream) (all openai.Chunk) {
	t.Helper()
	defer s.Close()
	for {
		c, err := s.Next(engine.WantTops)
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all.Text, all.IDs, all.Logprobs = append(all.Text, c.Text...), append(all.IDs, c.IDs...), append(all.Logprobs, c.Logprobs...)
		all.Foreign, all.HasUsage = all.Foreign || c.Foreign, all.HasUsage || c.HasUsage
		all.Choices = max(all.Choices, c.Choices)
	}
}

func TestIDsOfLlamaCppAreReadFromItsLogprobs(t *testing.T) {
	for name, tc := range map[string]struct {
		call func(t *testing.T) engine.Call
		part string
	}{
		"a draft of a chat": {func(t *testing.T) engine.Call { return &engine.Draft{Request: scan(t, openai.Chat, aStream)} }, `"delta":{"content":%q}`},
		"a draft of a completion": {func(t *testing.T) engine.Call {
			return &engine.Draft{Request: scan(t, openai.Completion, bodyPrompt)}
		}, `"text":%q`},
		"a continuation by ids": {func(t *testing.T) engine.Call {
			return &engine.ContinueIDs{Request: scan(t, openai.Chat, aStream), PromptIDs: []int32{1}, IDs: []int32{2}, MaxTokens: 5}
		}, `"text":%q`},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				say(w, llamaStream(tc.part, "a", "", "aa", " ab", "!")...)
			})
			s := open(t, newClient(t, Options{}), atA(dialect.LlamaCpp, url, tc.call(t)))
			got := readAllOf(t, s)
			if string(got.Text) != "aaa ab!" || !slices.Equal(got.IDs, []int32{100, 101, 102, 103, 104}) || len(got.Logprobs) != 5 || got.Foreign || !got.HasUsage {
				t.Errorf("%q %v %v foreign=%t usage=%t", got.Text, got.IDs, got.Logprobs, got.Foreign, got.HasUsage)
			}
		})
	}
}

// TestIDsInLogprobsAreNotReadOfOtherEngines: there, only token_ids are the engine's word.
func TestIDsInLogprobsAreNotReadOfOtherEngines(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		say(w, llamaStream(`"delta":{"content":%q}`, "a", "b")...)
	})
	for _, kind := range []dialect.Kind{"", dialect.VLLM, dialect.OpenAI} {
		s := open(t, newClient(t, Options{}), atA(kind, url, &engine.Draft{Request: scan(t, openai.Chat, aStream)}))
		if got := readAllOf(t, s); len(got.IDs) != 0 || len(got.Logprobs) != 2 {
			t.Errorf("%s: ids %v, logprobs %v", kind, got.IDs, got.Logprobs)
		}
	}
}

// TestADraftInOnePieceOfEachKindHasOnlyWhatAClientWouldGet: what an engine adds about its work makes no draft useless.
func TestADraftInOnePieceOfEachKindHasOnlyWhatAClientWouldGet(t *testing.T) {
	entry := `{"token":"hi","bytes":[104,105],"logprob":-0.5,"top_logprobs":[{"token":"hi","bytes":[104,105],"logprob":-0.5}]}`
	choice := func(more, entry string) string {
		return `"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"` + more + `,"logprobs":{"content":[` + entry + `]}}]`
	}
	const usage = `,"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}`
	for _, tc := range []struct {
		kind dialect.Kind
		body string
		ids  []int32
	}{
		{dialect.VLLM, choice(`,"stop_reason":null,"token_ids":[5]`, entry), []int32{5}},
		{dialect.SGLang, choice(`,"matched_stop":151645`, entry) + `,"metadata":{"weight_version":"default"}`, nil},
		{dialect.SGLang, choice(`,"matched_stop":null,"token_ids":[5]`, entry) + `,"metadata":{"weight_version":"default"}`, []int32{5}},
		{dialect.LlamaCpp, choice("", llamaToken(5, "hi")) + `,"system_fingerprint":"b6100","timings":{"prompt_n":9}`, []int32{5}},
		{dialect.OpenAI, choice("", entry) + `,"system_fingerprint":"fp_ollama"`, nil},
		{dialect.OpenAI, choice("", entry) + `,"service_tier":"default","system_fingerprint":null`, nil},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			body := `{"id":"c","object":"chat.completion","created":1,"model":"big",` + tc.body + usage + `}`
			if dialect.Of(tc.kind).IgnoresClose {
				say(w, strings.Replace(body, `"message"`, `"delta"`, 1), openai.Done)
				return
			}
			write(w, "application/json", body)
		})
		var got openai.DraftAnswer
		s, err := newClient(t, Options{}).Open(t.Context(), atA(tc.kind, url, &engine.Answer{Draft: true, Request: scan(t, openai.Chat, aPlain), Into: &got}))
		if err != nil {
			t.Fatalf("%s: %v", tc.kind, err)
		}
		s.Close()
		if string(got.Text) != "hi" || !got.Plain || got.Foreign || !slices.Equal(got.IDs, tc.ids) || len(got.Logprobs) != 1 {
			t.Errorf("%s: %q plain=%t foreign=%t ids=%v logprobs=%v", tc.kind, got.Text, got.Plain, got.Foreign, got.IDs, got.Logprobs)
		}
	}
}

// llamaServer answers as llama.cpp's routes of tokens do, and notes what it was asked.
func llamaServer(t *testing.T, asked *[]string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, r.URL.Path+" "+string(body))
		switch r.URL.Path {
		case "/apply-template":
			write(w, "application/json; charset=utf-8", `{"prompt":"<s>hi</s>"}`)
		case "/tokenize":
			write(w, "application/json; charset=utf-8", `{"tokens":[1,15043,2]}`)
		case "/detokenize":
			write(w, "application/json; charset=utf-8", `{"content":"hi"}`)
		case "/v1/chat/completions":
			say(w, append([]string{`{"choices":[{"index":0,"delta":{"role":"assistant","content":"thank you"},"finish_reason":null}]}`}, llamaEnd...)...)
		case "/v1/completions":
			say(w, `{"choices":[{"text":" you","index":0,"logprobs":null,"finish_reason":"stop"}],"created":1,"object":"text_completion","usage":{"completion_tokens":1,"prompt_tokens":6,"total_tokens":7}}`, openai.Done)
		}
	})
}

func TestLlamaCppTokenizesAChatOnceItIsRendered(t *testing.T) {
	var asked []string
	url := llamaServer(t, &asked)
	var prompt, text []int32
	var words []byte
	c := newClient(t, Options{})
	for _, call := range []engine.Call{
		&engine.TokenizePrompt{Model: "big", Request: scan(t, openai.Chat, aPlain), Into: &prompt},
		&engine.TokenizeText{Model: "big", Text: []byte("hi"), Into: &text},
		&engine.Detokenize{Model: "big", IDs: []int32{15043}, Into: &words},
	} {
		a := atA(dialect.LlamaCpp, url, call)
		s := open(t, c, a)
		s.Close()
	}
	want := []string{
		`/apply-template {"messages":[{"role":"user","content":"hi"}]}`,
		`/tokenize {"content":"<s>hi</s>","add_special":true,"parse_special":true}`,
		`/tokenize {"content":"hi","add_special":false,"parse_special":false}`,
		`/detokenize {"model":"big","tokens":[15043]}`,
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !slices.Equal(prompt, []int32{1, 15043, 2}) || len(text) != 3 || string(words) != "hi" {
		t.Errorf("prompt %v, text %v, words %q", prompt, text, words)
	}
}

func TestAChatThatIsNotRenderedIsNotTokenized(t *testing.T) {
	var paths []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		http.Error(w, `{"error":{"code":500,"message":"template","type":"server_error"}}`, http.StatusInternalServerError)
	})
	var ids []int32
	_, err := newClient(t, Options{}).Open(t.Context(), atA(dialect.LlamaCpp, url, &engine.TokenizePrompt{Request: scan(t, openai.Chat, aPlain), Into: &ids}))
	if got := formatFailure(failureOf(t, err)); got != "upstream_error 500 500" || !slices.Equal(paths, []string{"/apply-template"}) {
		t.Errorf("%s, asked %q", got, paths)
	}
}

// TestAnEngineIsNotAskedForWhatItsKindCannotDo: it is sent nothing, and no other backend is tried.
func TestAnEngineIsNotAskedForWhatItsKindCannotDo(t *testing.T) {
	asked := 0
	url := serve(t, func(http.ResponseWriter, *http.Request) { asked++ })
	for _, tc := range []struct {
		kind dialect.Kind
		call engine.Call
		want error
	}{
		{dialect.OpenAI, &engine.ContinueText{Request: scan(t, openai.Chat, aStream), Text: []byte("so")}, errNoContinuation},
		{dialect.OpenAI, &engine.ContinueText{Request: scan(t, openai.Chat, aStream), Text: []byte("so"), Found: dialect.Continues, Probed: dialect.VLLM}, errNoContinuation},
		{dialect.OpenAI, &engine.TokenizeText{Into: new([]int32)}, errNoTokenizer},
		{dialect.OpenAI, &engine.TokenizePrompt{Request: scan(t, openai.Chat, aPlain), Into: new([]int32)}, errNoTokenizer},
		{dialect.OpenAI, &engine.Detokenize{IDs: []int32{1}, Into: new([]byte)}, errNoTokenizer},
	} {
		_, err := newClient(t, Options{}).Open(t.Context(), atA(tc.kind, url, tc.call))
		if f := failureOf(t, err); f.Kind != engine.Rejected || f.Retryable() || engine.Classify(f) != engine.ClassSuccess || !errors.Is(f, tc.want) {
			t.Errorf("%s: %T: %+v", tc.kind, tc.call, f)
		}
	}
	for _, more := range []string{`,"n":2}`, `,"best_of":3}`} {
		for _, body := range []string{aStream, aPlain} {
			call := relay(t, strings.TrimSuffix(body, "}")+more)
			_, err := newClient(t, Options{}).Open(t.Context(), atA(dialect.LlamaCpp, url, call))
			if f := failureOf(t, err); formatFailure(f) != "upstream_rejected 400 0" || f.Fault.Param != "n" || f.Fault.Code != "unsupported_parameter" || engine.Classify(f) != engine.ClassSuccess {
				t.Errorf("%s: %+v", more, f)
			}
		}
	}
	if asked != 0 {
		t.Errorf("asked %d times", asked)
	}
}

// TestLlamaCppContinuesAChatBehindIDs: in a chat it says once more what it continues.
func TestLlamaCppContinuesAChatBehindIDs(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		limit   int
		want    string // the last request
	}{
		"limited": {aStream, 4, `/v1/completions {"model":"","stream":true,"stream_options":{"include_usage":true},"max_tokens":4,"prompt":[1,15043,2,1,15043,2]}`},
		"a request that says more": {
			strings.TrimSuffix(aStream, "}") + `,"max_completion_tokens":9,"stop":["x"],"logit_bias":{"7":1},"chat_template_kwargs":{"enable_thinking":true}}`, 0,
			`/v1/completions {"logit_bias":{"7":1},"max_tokens":9,"model":"","stream":true,"stream_options":{"include_usage":true},"prompt":[1,15043,2,1,15043,2]}`,
		},
	} {
		var asked []string
		url := llamaServer(t, &asked)
		s := open(t, newClient(t, Options{}), atA(dialect.LlamaCpp, url, &engine.ContinueText{Request: scan(t, openai.Chat, c.request), Text: []byte("thank"), MaxTokens: c.limit}))
		if got := readAllOf(t, s); string(got.Text) != " you" || !got.HasUsage {
			t.Errorf("%s: the rest is %q, usage %t", name, got.Text, got.HasUsage)
		}
		if len(asked) != 4 || !strings.HasPrefix(asked[0], "/apply-template ") || asked[2] != `/tokenize {"content":"thank","add_special":false,"parse_special":false}` || asked[3] != c.want {
			t.Errorf("%s: asked %q", name, asked)
		}
	}
}

// TestWhatAnEngineRepeatsIsLeftOut: if it was seen to repeat what it continues, and does so.
func TestWhatAnEngineRepeatsIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		said   []string
		want   string
		failed bool
	}{
		"at once":             {[]string{"thank you"}, " you", false},
		"in pieces":           {[]string{"tha", "nk", " you", " all"}, " you all", false},
		"nothing behind it":   {[]string{"thank"}, "", false},
		"another text":        {[]string{"tha", "t is"}, "", true},
		"only its beginning":  {[]string{"tha"}, "", true},
		"it is not repeated":  {[]string{" you"}, "", true},
		"nothing at all":      {nil, "", true},
		"of a longer answer":  {[]string{"thankful"}, "ful", false},
		"with blanks before ": {[]string{" thank you"}, "", true},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			var events []string
			for _, text := range c.said {
				events = append(events, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text))
			}
			say(w, append(events, llamaEnd...)...)
		})
		call := &engine.ContinueText{Request: scan(t, openai.Chat, aStream), Text: []byte("thank"), Found: dialect.Repeats, Probed: dialect.OpenAI}
		s, err := newClient(t, Options{}).Open(t.Context(), atA(dialect.OpenAI, url, call))
		got := ""
		for err == nil {
			var k *openai.Chunk
			if k, err = s.Next(engine.WantTokens); err == nil {
				got += string(k.Text)
			}
		}
		if c.failed != (err != io.EOF) || c.failed && failureOf(t, err).Kind != engine.BadResponse || got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
