package tiers

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
)

// Engines differ in what they tell of an answer while they write it. These tests are of those that tell less than vLLM.

func TestTheTokenThatEndsADraftNeedsNoLogprob(t *testing.T) {
	brief := []string{ // what has answers of less than ten tokens
		`,"structured_outputs":{"choice":["yes","no"]}`, `,"structured_outputs":{"choice":["yes, it is","no, it is not"]}`,
		`,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}}}`,
		`,"tools":[{"type":"function","function":{"name":"go","parameters":{"type":"object","properties":{}}}}],"tool_choice":"required"`,
	}
	for feature, most := range map[string]int{"end_logprob": 0, "logprobs": 2 * len(brief)} {
		r := probedRig(t, vllmsim.Options{Seed: 7, Without: []string{feature}}, vllmsim.Options{})
		r.cfg.Accept.Threshold = -15
		refused := 0
		for i := range 2 * len(brief) {
			body := chat("Is it?", fmt.Sprintf(`%s,"max_tokens":200,"stream":%v`, brief[i/2], i%2 == 0))
			got, rc, err := r.ask(openai.Chat, plan.Auto, body)
			if err != nil {
				t.Fatal(err)
			}
			if rc.Tier != plan.Draft {
				refused++
				t.Logf("%s: %s", body, rc.Acceptance())
			}
			if want := r.own(body); got.text != want.text || got.usage.Prompt > 0 && want.usage.Prompt > 0 && got.usage != want.usage {
				t.Errorf("%s\n got %q, %+v\nwant %q, %+v", body, got.text, got.usage, want.text, want.usage)
			}
		}
		if refused != most {
			t.Errorf("without %s: %d of %d short answers refused, want %d", feature, refused, 2*len(brief), most)
		}
	}
}

func TestAnEndThatAnEngineIsToIgnoreIsATokenThatNeedsItsLogprob(t *testing.T) {
	for more, reason := range map[string]string{
		`,"ignore_eos":true`: accept.ReasonNoLogprobs, `,"ignore_eos":false`: "", `,"ignore_eos":null`: "", "": "",
	} {
		draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			say(w, roleChunk, spoken(" yes", "100", -0.01, ""), spoken("", "2", noLogprob, ""), spoken("", "", noLogprob, "stop"), usageTail, openai.Done)
		})
		target := newScripted(t, ending)
		r := scriptedRig(t, draft.URL, target.URL)
		r.cascade.capabilities = func(string) *probe.Capabilities { return &probe.Capabilities{TokenIDs: true, EOS: []int32{2}} } // 2 ends its answers
		_, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"stream":true,"max_tokens":100`+more))
		if err != nil || (rc.Tier == plan.Draft) != (reason == "") || reason != "" && rc.Verdict.Reason != reason {
			t.Errorf("%q: %s, %s, %v", more, rc.Tier, rc.Acceptance(), err)
		}
	}
}

// TestWhatARequestAsksOfAnEngineIsAskedBehindTheSeamToo: a continuation by ids is a body of its own. What it cannot say is
// continued by text, which keeps the request's.
func TestWhatARequestAsksOfAnEngineIsAskedBehindTheSeamToo(t *testing.T) {
	for field, way := range map[string]string{
		`"top_k":40`: "ids", `"min_p":0.05`: "ids", `"stop_token_ids":[7]`: "ids", `"repetition_penalty":1.0`: "ids",
		`"reasoning_effort":"low"`: "", `"metadata":{"a":"b"}`: "", `"typical_p":null`: "", // nothing that a continuation by ids would miss
		`"typical_p":0.9`: "text", `"no_stop_trim":true`: "text", `"thinking_token_budget":64`: "text",
		`"repetition_detection":{"max_pattern_size":4}`: "text", `"a_field_of_next_year":1`: "text",
	} {
		draft := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			say(w, roleChunk)
			for i := range 20 { // and cut
				say(w, spoken(fmt.Sprintf(" w%d", i), fmt.Sprint(100+i), -0.01, ""))
			}
		})
		target := newScripted(t, ending)
		if _, _, err := scriptedRig(t, draft.URL, target.URL).ask(openai.Chat, plan.Auto, chat("Hello", `,"stream":true,"max_tokens":100,`+field)); err != nil {
			t.Fatalf("%s: %v", field, err)
		}
		asked := target.asked(1) // the first is about the model
		if byIDs := strings.Contains(asked, `"prompt":[`); byIDs != (way != "text") || way != "" && !strings.Contains(asked, field) {
			t.Errorf("%s: continued with %s", field, asked)
		}
	}
}

// tokens counts those of a text.
func (r *rig) tokens(text string) int {
	plain := vllmsim.DefaultTokenizer()
	return len(plain.Encode(text))
}

// TestAStopStringBehindASeamLeavesTheUsageRight: the engine that carries on tells the ids of its chunks, of several tokens
// each, and no usage before the end, which a stop string keeps from coming.
func TestAStopStringBehindASeamLeavesTheUsageRight(t *testing.T) {
	for _, interval := range []int{1, 3} {
		r := probedRig(t, vllmsim.Options{Seed: 7}, vllmsim.Options{StreamInterval: interval, Without: []string{"running_usage"}})
		r.cfg.Accept.Threshold, r.cfg.HoldbackTokens = -15, 1
		seams, n := 0, sample(16, 40)
		for i, p := range prompts(n) {
			own := r.own(chat(p, `,"max_tokens":200`))
			at := len(own.text) * (60 + i%3*15) / 100
			for at > 0 && !isASCII(own.text[at:at+3]) {
				at--
			}
			body := chat(p, fmt.Sprintf(`,"max_tokens":200,"stop":[%q],"stream":true,"stream_options":{"include_usage":true}`, own.text[at:at+3]))
			want := r.own(strings.Replace(body, `"stream":true,"stream_options":{"include_usage":true}`, `"stream":false`, 1))
			if err := r.draft.SetFault(vllmsim.Fault{CleanEOFAfterTokens: 2 + want.usage.Completion/3, For: 1}); err != nil {
				t.Fatal(err)
			}
			got, rc, err := r.ask(openai.Chat, plan.Auto, body)
			if err != nil {
				t.Fatal(err)
			}
			if rc.Tier == plan.Mixed {
				seams++
			}
			// Where within its chunk the stop string ends is not told: all of it is counted.
			if off := got.usage.Completion - want.usage.Completion; got.text != want.text || off < 0 || off >= interval {
				t.Errorf("chunks of %d: %q told %+v, want %q, %+v; %s", interval, got.text, got.usage, want.text, want.usage, rc.Acceptance())
			}
		}
		if seams < n/2 {
			t.Errorf("%d seams: the test shows nothing", seams)
		}
	}
}

// dying stands before an engine whose machine goes down within the next answer: it is cut after so many bytes, and whatever
// comes then is refused and counted.
type dying struct {
	url    string
	dead   atomic.Bool
	missed atomic.Int64 // questions to count tokens that came to the dead one
}

// newDying starts one. Who is the next to answer takes the fuse, the bytes until it is cut; 0 is never.
func newDying(t *testing.T, engine string, fuse *atomic.Int64) *dying {
	t.Helper()
	to, err := url.Parse(engine)
	if err != nil {
		t.Fatal(err)
	}
	d := &dying{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval, proxy.ErrorLog = -1, log.New(io.Discard, "", 0)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.dead.Load() {
			if r.URL.Path == openai.TokenizePath {
				d.missed.Add(1)
			}
			panic(http.ErrAbortHandler)
		}
		if strings.HasPrefix(r.URL.Path, "/v1/c") {
			if n := fuse.Swap(0); n > 0 {
				cut := &cutting{w, int(n)}
				defer func() { // before the connection is closed
					if cut.left < 0 {
						d.dead.Store(true)
					}
				}()
				w = cut
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	d.url = s.URL
	return d
}

// TestATakeoverAsksALiveBackendHowManyTokensThereAre: of two targets the one that answers dies. The other says how many
// tokens there are; where it cannot, the answer is not taken for longer than it is.
func TestATakeoverAsksALiveBackendHowManyTokensThereAre(t *testing.T) {
	for _, without := range []string{"", "tokenize"} {
		target := vllmsim.Options{}
		if without != "" {
			target.Without = []string{without}
		}
		r := probedRig(t, vllmsim.Options{Seed: 7}, target)
		r.cfg.Mode = plan.ModeOff
		var fuse atomic.Int64
		two := [2]*dying{newDying(t, r.target.URL(), &fuse), newDying(t, r.target.URL(), &fuse)}
		r.wire(t, two[0].url, two[1].url)
		taken := 0
		for i, p := range prompts(32) {
			body := chat(p, `,"max_tokens":40,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}`)
			want := r.own(body)
			fuse.Store(int64(2000 + 250*i))
			for _, d := range two {
				d.dead.Store(false)
			}
			got, rc, err := r.ask(openai.Chat, plan.Auto, body)
			if err != nil {
				t.Fatal(err)
			}
			if len(rc.Failovers) == 0 {
				continue // it was whole before
			}
			taken++
			if without == "" && (got.text != want.text || got.usage != want.usage) || !strings.HasPrefix(got.text, want.text) || got.usage.Completion > want.usage.Completion {
				t.Errorf("without %q: %q told %+v\nwant %q, %+v; over %+v", without, got.text, got.usage, want.text, want.usage, rc.Failovers)
			}
		}
		missed := two[0].missed.Load() + two[1].missed.Load()
		t.Logf("without %q: %d taken over, %d questions to the dead", without, taken, missed)
		if missed > 0 || taken < 16 {
			t.Errorf("without %q: %d taken over, %d questions to the dead", without, taken, missed)
		}
	}
}
