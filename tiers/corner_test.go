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

	"github.com/foregate/foregate/tiers/accept"
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
		one := fmt.Sprintf(`{"logprob":%g}`, logprob)
		lps = `{"content":[` + one + strings.Repeat(","+one, strings.Count(ids, ",")) + `]}`
	}
	if finish != "" {
		fin = `"` + finish + `"`
	}
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q},"logprobs":%s,"finish_reason":%s,"token_ids":%s}]}`, text, lps, fin, list)
}

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

func TestADraftThatIsTheAnswerThoughItsFaultWasSeenTooLateIsNotCalledRejected(t *testing.T) {
	draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		say(w, roleChunk)
		for i := range 60 { // released, and then it is filtered
			say(w, spoken(fmt.Sprintf(" v%d", i), fmt.Sprint(200+i), -0.01, ""))
		}
		say(w, spoken("", "100", -0.01, "content_filter"), openai.Done)
	})
	target := newScripted(t, ending)
	got, rc, err := scriptedRig(t, draft.URL, target.URL).ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":300,"stream":true`))
	if err != nil || rc.Tier != plan.Draft || rc.Verdict.Accept || rc.Verdict.Reason != accept.ReasonCut {
		t.Fatalf("tier %s, %+v, %v", rc.Tier, rc.Verdict, err)
	}
	if got.foregate.Verdict != "accepted" || got.foregate.Reason != "late_cut_short" {
		t.Errorf("the answer says %+v", got.foregate)
	}
}

// Also where no ids are told, and loops show in the text only.
func TestADraftThatBeginsToRunInCirclesIsContinuedByTheTarget(t *testing.T) {
	for _, ids := range []bool{true, false} {
		draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			say(w, roleChunk)
			for i := range 1060 {
				word, id := fmt.Sprintf(" v%d", i), fmt.Sprint(200+i)
				if i >= 60 { // released, and then it runs in circles
					word, id = fmt.Sprintf(" w%d", i%4), fmt.Sprint(100+i%4)
				}
				if !ids {
					id = ""
				}
				say(w, spoken(word, id, -0.01, ""))
			}
			say(w, spoken("", "100", -0.01, "stop"), openai.Done)
		})
		target := newScripted(t, ending)
		got, rc, err := scriptedRig(t, draft.URL, target.URL).ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":2000,"stream":true`))
		if err != nil || rc.Tier != plan.Mixed || rc.Verdict.Reason != accept.ReasonRepetition || !strings.HasSuffix(got.text, " TARGET") {
			t.Errorf("ids %t: tier %s, %+v, %v, …%q", ids, rc.Tier, rc.Verdict, err, got.text[max(len(got.text)-40, 0):])
		}
		if n := strings.Count(got.text, " w2"); ids && n > 4 || n > 200 {
			t.Errorf("ids %t: the client got the phrase %d times", ids, n)
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
	if _, err := answerBy(t.Context(), r.cascade, arrival{Body: req, Tier: plan.Target, ID: "x"}, &out); err != nil {
		t.Error(err)
	}
}
