package tiers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// fine is a grid whose thresholds lie among the scores of the simulator's drafts.
var fine = risk.Grid{0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0, -0.5, -1}

// audited counts the audits that were opened since, with a score of their own threshold or more.
func (n *notebook) audited(since int) (served int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.opened[since:] {
		if a.Score >= a.Threshold {
			served++
		}
	}
	return served
}

func (n *notebook) so() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.opened)
}

func TestWhatIsServedUnverifiedIsWhatAuditsAreOf(t *testing.T) {
	for what, change := range map[string]func(*plan.Config){
		"streams":               func(*plan.Config) {},
		"nothing is taken over": func(c *plan.Config) { c.MidstreamFailover = false },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, n := auditedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.3}, vllmsim.Options{})
			n.grid, n.op = fine, 3
			change(&r.cfg)
			served := 0
			for i := range sample(30, 60) {
				before := n.so()
				_, rc, err := r.ask(openai.Chat, plan.Auto, chat(fmt.Sprint("question ", i), fmt.Sprintf(`,"max_tokens":120,"stream":%v`, i%3 > 0)))
				if err != nil {
					t.Fatal(err)
				}
				r.rests(t)
				if rc.Tier == plan.Draft {
					if got := n.audited(before); got != 1 {
						t.Errorf("%s from the draft: %d audits are of it", rc.Acceptance(), got)
					}
					served++
				}
			}
			if served == 0 {
				t.Error("nothing was served: the test shows nothing")
			}
		})
	}
}

// scriptedDraft is a draft backend that streams text of its own where it is asked for a chat, and is a
// simulator in all else.
func scriptedDraft(t *testing.T, sim string, words []string) string {
	t.Helper()
	at, err := url.Parse(sim)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			req.Body = io.NopCloser(bytes.NewReader(body))
			proxy.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i, word := range words {
			text, err := json.Marshal(word)
			if err != nil {
				return
			}
			finish, prompt := "null", ""
			if i == len(words)-1 {
				finish = `"stop"`
			}
			if i == 0 {
				prompt = `,"prompt_token_ids":[1,2,3]`
			}
			_, _ = fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"small"%s,"choices":[{"index":0,"delta":{"content":%s},"token_ids":[%d],"logprobs":{"content":[{"token":%s,"logprob":-0.01,"top_logprobs":[]}]},"finish_reason":%s}]}`+"\n\n",
				prompt, text, 100+slices.Index(words, word), text, finish)
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestAFaultOfShapeThatShowsTooLateIsBad(t *testing.T) {
	circles := slices.Repeat([]string{" round", " and", " and", " about"}, 5)
	for what, end := range map[string][]string{"sound": nil, "in circles": circles} {
		bad, tier := end != nil, plan.Draft
		if bad {
			tier = plan.Mixed // the target carries on
		}
		r, n := auditedRig(t, vllmsim.Options{Seed: 7}, vllmsim.Options{})
		n.grid, n.op = everything, 1
		words := []string{"Here", " is", " code", ":\n"}
		for i := range 30 {
			words = append(words, fmt.Sprintf("x%d := f(%d)\n", i*i, i*7+i%3))
		}
		rt := routeOf(r.cascade)
		rt.Draft = testPool(t, "drafts", "small", scriptedDraft(t, r.draft.URL(), append(append(words, end...), " end")))
		_, rc, err := r.ask(openai.Chat, plan.Auto, chat("question", `,"max_tokens":300,"stream":true`))
		if err != nil || rc.Tier != tier || (rc.Verdict.Reason == accept.ReasonRepetition) != bad {
			t.Fatalf("%s: %s from %s, %v", what, rc.Acceptance(), rc.Tier, err)
		}
		r.rests(t)
		if n.so() != 1 {
			t.Fatalf("%s: %d audits, %v", what, n.so(), n.fates)
		}
		if all, _ := n.closed(); bad && all != 0 {
			t.Errorf("%s: the target was asked about it", what)
		}
	}
}
