package tiers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// scripted is a backend that says what a test wrote for it.
type scripted struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func newScripted(t *testing.T, play func(n int, w http.ResponseWriter, r *http.Request)) *scripted {
	t.Helper()
	s := &scripted{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.bodies = append(s.bodies, string(body))
		n := len(s.bodies)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		play(n, w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// asked is the nth request's body.
func (s *scripted) asked(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[n]
}

func say(w http.ResponseWriter, events ...string) {
	for _, e := range events {
		_, _ = io.WriteString(w, "data: "+e+"\n\n")
		w.(http.Flusher).Flush()
	}
}

const (
	roleChunk = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"prompt_token_ids":[1,2,3]}`
	usageTail = `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
)

// spoken is a chunk of text with its ids ("5,6" or "") and the logprob of each.
func spoken(text, ids string, logprob float64, finish string) string {
	lps, list, fin := "null", "null", "null"
	if ids != "" {
		list = "[" + ids + "]"
	}
	if logprob <= 0 {
		one := fmt.Sprintf(`{"logprob":%g,"bytes":[1]}`, logprob)
		lps = `{"content":[` + one + strings.Repeat(","+one, strings.Count(ids, ",")) + `]}`
	}
	if finish != "" {
		fin = `"` + finish + `"`
	}
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q},"logprobs":%s,"finish_reason":%s,"token_ids":%s}]}`, text, lps, fin, list)
}

const noLogprob = 1.0 // a logprob that spoken leaves out

func continued(text, finish string) string {
	fin := "null"
	if finish != "" {
		fin = `"` + finish + `"`
	}
	return fmt.Sprintf(`{"choices":[{"index":0,"text":%q,"finish_reason":%s}]}`, text, fin)
}

// scriptedRig is a cascade over two backends, whose judge keeps all but the
// hopeless.
func scriptedRig(t *testing.T, draft, target string) *rig {
	t.Helper()
	r := &rig{t: t, cfg: testConfig()}
	r.cfg.Accept.Threshold = -15
	r.cascade = newTestCascade(t, Route{
		Model: "m", Draft: testPool(t, "drafts", "small", draft), Target: testPool(t, "targets", "big", target),
		SameTokenizer: true, Config: func() plan.Config { return r.cfg },
	})
	return r
}

// ending plays the end of a target's continuation.
func ending(_ int, w http.ResponseWriter, _ *http.Request) {
	say(w, continued(" TARGET", "stop"), usageTail, openai.Done)
}

func TestAStopStringAtTheVeryStartIsAnEmptyDraft(t *testing.T) {
	r := newRig(t, 1, 0, true)
	r.cfg.Accept.Threshold = -15
	plain, _, err := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":20`))
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []bool{true, false} {
		got, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", fmt.Sprintf(`,"max_tokens":20,"stream":%v,"stop":[%q]`, stream, plain.text[:4])))
		if err != nil || got.text != "" || got.finish != "stop" || rc.Verdict.Reason != accept.ReasonEmpty {
			t.Errorf("stream %v: %q %s %s, %v", stream, got.text, got.finish, rc.Acceptance(), err)
		}
	}
}

func TestADraftThatNobodyVouchedForPassesNothingOn(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		play   func(w http.ResponseWriter)
	}{
		"without logprobs": {accept.ReasonNoLogprobs, func(w http.ResponseWriter) {
			for i := range 20 {
				say(w, spoken(fmt.Sprintf(" w%d", i), fmt.Sprint(100+i), noLogprob, ""))
			}
		}},
		"in a loop": {accept.ReasonRepetition, func(w http.ResponseWriter) {
			for i := range 120 {
				say(w, spoken(fmt.Sprintf(" w%d", i%4), fmt.Sprint(100+i%4), -0.01, ""))
			}
		}},
	} {
		draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			say(w, roleChunk)
			c.play(w)
			say(w, spoken("", "100", -0.01, "stop"), openai.Done)
		})
		target := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"model":"big","choices":[{"index":0,"message":{"content":"fresh"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
		})
		got, rc, err := scriptedRig(t, draft.URL, target.URL).ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":300`))
		if err != nil || got.text != "fresh" || rc.Verdict.Reason != c.reason || rc.AcceptedTokens != 0 {
			t.Errorf("%s: %q, %s, %d tokens carried over, %v", name, got.text, rc.Acceptance(), rc.AcceptedTokens, err)
		}
	}
}

func TestADraftThatIsTheAnswerThoughItsFaultWasSeenTooLateIsNotCalledRejected(t *testing.T) {
	draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		say(w, roleChunk)
		for i := range 60 { // released, and then it runs in circles
			say(w, spoken(fmt.Sprintf(" v%d", i), fmt.Sprint(200+i), -0.01, ""))
		}
		for i := range 120 {
			say(w, spoken(fmt.Sprintf(" w%d", i%4), fmt.Sprint(100+i%4), -0.01, ""))
		}
		say(w, spoken("", "100", -0.01, "stop"), openai.Done)
	})
	target := newScripted(t, ending)
	got, rc, err := scriptedRig(t, draft.URL, target.URL).ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":300,"stream":true`))
	if err != nil || rc.Tier != plan.Draft || rc.Verdict.Accept || rc.Verdict.Reason != accept.ReasonRepetition {
		t.Fatalf("tier %s, %+v, %v", rc.Tier, rc.Verdict, err)
	}
	if got.foregate.Verdict != "accepted" || got.foregate.Reason != "late_repetition" {
		t.Errorf("the answer says %+v", got.foregate)
	}
}

func TestADraftCutByItsOwnContextIsContinued(t *testing.T) {
	r := &rig{t: t, cfg: testConfig()}
	r.cfg.Accept.Threshold = -15
	r.draft = vllmsim.Start(t, vllmsim.Options{Model: "small", Profile: "a10g-8b", Seed: 1, TimeScale: testScale, MaxModelLen: 64})
	r.target = vllmsim.Start(t, vllmsim.Options{Model: "big", Profile: "h100-70b-tp4", Seed: 1, TimeScale: testScale, MaxModelLen: 512})
	r.cascade = newTestCascade(t, Route{
		Model: "m", Draft: testPool(t, "drafts", "small", r.draft.URL()), Target: testPool(t, "targets", "big", r.target.URL()),
		SameTokenizer: true, Config: func() plan.Config { return r.cfg },
	})
	for _, stream := range []bool{true, false} {
		got, _, err := r.ask(openai.Chat, plan.Auto, chat("Hello", fmt.Sprintf(`,"ignore_eos":true,"stream":%v`, stream)))
		if err != nil || got.foregate.Tier != "mixed" || got.foregate.Target < 300 || got.finish != "length" {
			t.Errorf("stream %v: %+v, finish %s, %v", stream, got.foregate, got.finish, err)
		}
	}
}

func TestTheClientsLimitHoldsAcrossASeamOfText(t *testing.T) {
	mixed := 0
	for i := range 20 {
		r := newRig(t, uint64(i), 1, false)
		r.breakOff(i)
		got, rc, err := r.ask(openai.Chat, plan.Auto, chat("Tell me about things", `,"ignore_eos":true,"max_tokens":200,"stream":true,"stream_options":{"include_usage":true}`))
		if err != nil {
			t.Fatal(err)
		}
		if got.foregate.Tier != "mixed" {
			continue
		}
		mixed++
		if got.usage.Completion != 200 || rc.AcceptedTokens+rc.WastedTokens != rc.Verdict.Tokens {
			t.Errorf("%d of 200 tokens, finish %s; %d accepted and %d wasted of %d", got.usage.Completion, got.finish, rc.AcceptedTokens, rc.WastedTokens, rc.Verdict.Tokens)
		}
	}
	if mixed == 0 {
		t.Error("no answer was switched: the test shows nothing")
	}
}

func TestACutInsideAChunkOfSeveralTokensCountsThem(t *testing.T) {
	token := func(text string) string {
		list := strings.ReplaceAll(strings.Trim(fmt.Sprintf("%d", []byte(text)), "[]"), " ", ",")
		return `{"logprob":-0.01,"bytes":[` + list + `]}`
	}
	draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		say(w, roleChunk)
		for i := 0; i < 18; i += 3 { // and cut
			a, b, c := fmt.Sprintf(" w%d", i), fmt.Sprintf(" w%d", i+1), fmt.Sprintf(" w%d", i+2)
			say(w, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q},"logprobs":{"content":[%s,%s,%s]},"finish_reason":null,"token_ids":[%d,%d,%d]}]}`,
				a+b+c, token(a), token(b), token(c), i, i+1, i+2))
		}
	})
	target := newScripted(t, ending)
	r := scriptedRig(t, draft.URL, target.URL)
	routeOf(r.cascade).SameTokenizer = false
	got, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"stream":true,"max_tokens":100`))
	if err != nil || got.text != draftWords(17)+" TARGET" || rc.AcceptedTokens != 17 {
		t.Errorf("%q, %d tokens accepted, %v", got.text, rc.AcceptedTokens, err)
	}
}

func TestABodyLeftOpenBehindItsEndHoldsNobodyUp(t *testing.T) {
	backend := newScripted(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		say(w, roleChunk, spoken("hi", "5", -0.01, "stop"), openai.Done)
		<-r.Context().Done()
	})
	r := scriptedRig(t, backend.URL, backend.URL)
	r.cfg.Timeouts.StreamIdle, r.cfg.Timeouts.Total = 10*time.Second, 30*time.Second
	for _, tier := range []plan.Tier{plan.Target, plan.Auto} {
		began := time.Now()
		got, _, err := r.ask(openai.Chat, tier, chat("Hello", `,"stream":true`))
		if took := time.Since(began); err != nil || got.text != "hi" || !got.done || took > 8*time.Second {
			t.Errorf("%s: %q after %v, %v", tier, got.text, took, err)
		}
	}
}

func TestMinTokensWithStopStringsIsLeftToTheEngine(t *testing.T) {
	r := newRig(t, 1, 0, true)
	r.cfg.Accept.Threshold = -15
	_, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":60,"min_tokens":30,"stop":["e"]`))
	if err != nil || rc.Plan.Reason != "min_tokens" || rc.Tier != plan.Target {
		t.Errorf("%s from %s, %v", rc.Acceptance(), rc.Tier, err)
	}
}

func TestIDsThatDoNotMatchTheTextAreNotContinued(t *testing.T) {
	merged := `{"choices":[{"index":0,"delta":{"content":" x"},"logprobs":{"content":[{"logprob":-0.01,"bytes":[32,120]},{"logprob":-0.01,"bytes":[239,191,189]}]},"finish_reason":null,"token_ids":[119,7001]}]}`
	for name, c := range map[string]struct {
		first, last string
		mayNot      string
		text        string
	}{
		"a chunk without ids":                 {spoken(" w0", "", -0.01, ""), spoken(" w19", "119", -0.01, ""), `"prompt":[`, draftWords(20) + " TARGET"},
		"a chunk that hides half a character": {spoken(" w0", "100", -0.01, ""), merged, "7001", draftWords(19) + " TARGET"},
	} {
		draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			say(w, roleChunk, c.first)
			for i := 1; i < 19; i++ {
				say(w, spoken(fmt.Sprintf(" w%d", i), fmt.Sprint(100+i), -0.01, ""))
			}
			say(w, c.last) // and cut
		})
		target := newScripted(t, ending)
		got, _, err := scriptedRig(t, draft.URL, target.URL).ask(openai.Chat, plan.Auto, chat("Hello", `,"stream":true,"max_tokens":100`))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if asked := target.asked(1); strings.Contains(asked, c.mayNot) {
			t.Errorf("%s: continued with %s", name, asked)
		}
		if name == "a chunk that hides half a character" && got.text != c.text {
			t.Errorf("%s: got %q, want %q", name, got.text, c.text)
		}
	}
}

func draftWords(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " w%d", i)
	}
	return b.String()
}

func TestTextWithoutSpacesStreamsOnRoutesWithoutACommonTokenizer(t *testing.T) {
	draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		say(w, roleChunk)
		for i := range 200 {
			say(w, spoken("語", fmt.Sprint(100+i), -0.01, ""))
		}
		say(w, spoken("", "9", -0.01, "stop"), openai.Done)
	})
	r := scriptedRig(t, draft.URL, draft.URL)
	routeOf(r.cascade).SameTokenizer = false
	req, err := openai.Scan(openai.Chat, []byte(chat("Hello", `,"stream":true`)), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	var out collector
	if _, err := r.cascade.Answer(t.Context(), Request{Body: req, ID: "x"}, &out); err != nil {
		t.Fatal(err)
	}
	last := bytes.Count(out.writes[len(out.writes)-1], []byte("語"))
	if got := read(t, true, bytes.Join(out.writes, nil)); got.text != strings.Repeat("語", 200) || last > 100 {
		t.Errorf("%d characters, %d of them only with the last write", strings.Count(got.text, "語"), last)
	}
}

func TestAnAnswerOutOfAllBoundsIsNotKept(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	big := strings.Repeat("a", 1<<20-200)
	draft := newScripted(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		say(w, roleChunk)
		for i := 0; i < 100 && r.Context().Err() == nil; i++ {
			say(w, spoken(big, fmt.Sprint(i), -0.01, ""))
		}
	})
	r := scriptedRig(t, draft.URL, draft.URL)
	_, rc, _ := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":10`))
	if rc.Verdict.Accept || rc.Verdict.Reason != accept.ReasonLong {
		t.Errorf("verdict %+v", rc.Verdict)
	}
}

func TestACommentBehindAChunkDoesNotHoldItBack(t *testing.T) {
	release := make(chan struct{})
	backend := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		say(w, roleChunk)
		_, _ = io.WriteString(w, "data: "+spoken("hi", "5", -0.01, "")+"\n\n: ping\n\n")
		w.(http.Flusher).Flush()
		<-release
		say(w, spoken("", "6", -0.01, "stop"), openai.Done)
	})
	r := scriptedRig(t, backend.URL, backend.URL)
	req, err := openai.Scan(openai.Chat, []byte(chat("Hello", `,"stream":true`)), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	var out collector
	var once sync.Once
	out.onText = func() {
		if bytes.Contains(bytes.Join(out.writes, nil), []byte("hi")) {
			once.Do(func() { close(release) }) // without the text there is no end
		}
	}
	if _, err := r.cascade.Answer(t.Context(), Request{Body: req, Tier: plan.Target, ID: "x"}, &out); err != nil {
		t.Error(err)
	}
}

func TestAClientsMistakeInWordsIsNotTheBackendsFault(t *testing.T) {
	backend := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		say(w, `{"error":{"message":"out of vocabulary","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, openai.Done)
	})
	_, rc, err := scriptedRig(t, backend.URL, backend.URL).ask(openai.Chat, plan.Target, chat("Hello", `,"stream":true`))
	if engine.Classify(err) != engine.ClassSuccess || len(rc.Tries) != 1 {
		t.Errorf("class %d after %d tries: %v", engine.Classify(err), len(rc.Tries), err)
	}
}

func TestAContinuationThatBreaksUnseenIsAnsweredAfresh(t *testing.T) {
	draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		say(w, roleChunk)
		for i := range 40 {
			say(w, spoken(fmt.Sprintf(" w%d", i), fmt.Sprint(100+i), -0.01, ""))
		}
	})
	target := newScripted(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			say(w, continued(" TARGET", "")) // and cut
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"model":"big","choices":[{"index":0,"message":{"content":"fresh"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
	})
	got, rc, err := scriptedRig(t, draft.URL, target.URL).ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":100`))
	if err != nil || got.text != "fresh" || rc.Tier != plan.Target {
		t.Errorf("%q from %s, %v", got.text, rc.Tier, err)
	}
}

func TestNothingBehindAStopStringIsSentWhenTheDraftFallsThere(t *testing.T) {
	draft := newScripted(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		say(w, roleChunk, spoken("Sure", "100", -0.01, ""), spoken(" thing", "101", -30, ""), spoken("\nUser:", "102", -30, ""))
		<-r.Context().Done()
	})
	target := newScripted(t, ending)
	r := scriptedRig(t, draft.URL, target.URL)
	r.cfg.Accept.Threshold, r.cfg.HoldbackTokens = -1, 1
	got, _, err := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"stream":true,"max_tokens":100,"stop":"\nUser:"`))
	if err != nil || got.text != "Sure thing TARGET" || got.stop != "null" {
		t.Errorf("%q, stop_reason %s, %v", got.text, got.stop, err)
	}
	if strings.Contains(target.asked(0), "102") {
		t.Errorf("the stop string's token was handed over: %s", target.asked(0))
	}
}

// TestASeamWithinATokenThatWasSentInPartIsWrittenAgain: the stop string held back half of a
// token, of whose other half the client has; where the target writes another word, it goes on
// behind what the client has.
func TestASeamWithinATokenThatWasSentInPartIsWrittenAgain(t *testing.T) {
	for _, c := range []struct{ again, want string }{{" nail", "One nail."}, {" other", "One n, by text."}} {
		shown := make(chan struct{})
		draft := newScripted(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			say(w, roleChunk, spoken("One", "100", -0.01, ""), spoken(" na", "101", -0.01, ""))
			select {
			case <-shown:
			case <-r.Context().Done():
			}
			say(w, spoken("i", "102", -40, ""), spoken("ve", "103", -40, ""))
			<-r.Context().Done()
		})
		target := newScripted(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/chat/completions") {
				say(w, spoken(", by text.", "", noLogprob, "stop"), usageTail, openai.Done)
				return
			}
			say(w, continued(c.again, ""), continued(".", "stop"), usageTail, openai.Done)
		})
		r := scriptedRig(t, draft.URL, target.URL)
		r.cfg.Accept.Threshold, r.cfg.HoldbackTokens = -1, 2
		req, err := openai.Scan(openai.Chat, []byte(chat("Hello", `,"stream":true,"max_tokens":100,"stop":"aive"`)), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		var out collector
		var once sync.Once
		out.onText = func() {
			if bytes.Contains(bytes.Join(out.writes, nil), []byte("One n")) {
				once.Do(func() { close(shown) })
			}
		}
		rc, err := r.cascade.Answer(t.Context(), Request{Body: req, ID: "x"}, &out)
		got := read(t, true, bytes.Join(out.writes, nil))
		if err != nil || got.text != c.want || got.finish != "stop" || got.stop != "null" || len(rc.Failovers) != 1 {
			t.Errorf("%q: %q (%s, %s), over %+v, %v", c.again, got.text, got.finish, got.stop, rc.Failovers, err)
		}
	}
}
