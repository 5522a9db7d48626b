package tiers

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// headSink keeps what was known at the first byte.
type headSink struct {
	collector
	draft, target, first time.Duration
}

func (s *headSink) Begin(h Head) error {
	s.draft, s.target, s.first = h.Receipt.Draft, h.Receipt.Target, h.Receipt.First
	return s.collector.Begin(h)
}

// TestEachPhaseIsItsWholeDuration holds phases against the calls that are in them: of what is not streamed they are whole
// at the first byte already.
func TestEachPhaseIsItsWholeDuration(t *testing.T) {
	const long = `{"model":"m","messages":[{"role":"user","content":"Tell me about the sea."}],"max_tokens":200,"ignore_eos":true,"temperature":0}`
	for name, c := range map[string]struct {
		tier plan.Tier
		body string
		lost bool
	}{
		"the target's own answer":       {plan.Target, chatOf(), false},
		"the target's own stream":       {plan.Target, chatOf(`"stream":true`), false},
		"a draft that breaks off":       {plan.Auto, long, true},
		"a stream's that breaks off":    {plan.Auto, strings.Replace(long, `{`, `{"stream":true,`, 1), true},
		"the draft's own unjudged text": {plan.Draft, chatOf(), false},
	} {
		r := newRig(t, 3, 0.6, true)
		if r.cfg.Accept.Threshold = -20; c.lost {
			if err := r.draft.SetFault(vllmsim.Fault{CutAfterBytes: 16000}); err != nil {
				t.Fatal(err)
			}
		}
		req, err := openai.Scan(openai.Chat, []byte(c.body), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		var out headSink
		began := time.Now()
		rc, err := r.cascade.Answer(context.Background(), Request{Body: req, Tier: c.tier, ID: "x", Header: http.Header{}}, &out)
		whole := time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		if (rc.Tier == plan.Mixed) != c.lost {
			t.Errorf("%s: an answer of %s", name, rc.Tier)
		}
		took := map[dispatch.Role]time.Duration{}
		for _, try := range rc.Tries {
			took[try.Role] += try.Took
		}
		if rc.Draft < took[dispatch.RoleDraft] || rc.Target < took[dispatch.RoleTarget] || rc.Draft+rc.Target+rc.Verify > whole {
			t.Errorf("%s: draft %v, target %v, verify %v of %v, and calls took %v", name, rc.Draft, rc.Target, rc.Verify, whole, took)
		}
		if out.draft+out.target > out.first || c.lost && !req.Stream && out.target < took[dispatch.RoleTarget] || out.target > rc.Target {
			t.Errorf("%s: the head says draft %v, target %v until the first byte at %v, and calls took %v", name, out.draft, out.target, out.first, took)
		}
	}
}

func TestAnAnswerOfTheDraftPoolThatIsCarriedOnThereSpentNothingOnTheTarget(t *testing.T) {
	r := newRig(t, 3, 0.6, true)
	if err := r.draft.SetFault(vllmsim.Fault{CutAfterBytes: 8000, For: 1}); err != nil {
		t.Fatal(err)
	}
	_, rc, err := r.ask(openai.Chat, plan.Draft, chat("Tell me about the sea.", `,"max_tokens":200,"ignore_eos":true,"stream":true`))
	if err != nil || rc.Tier != plan.Draft || len(rc.Failovers) != 1 {
		t.Fatalf("%v; %s, %+v", err, rc.Tier, rc.Failovers)
	}
	var took time.Duration
	for _, try := range rc.Tries {
		took += try.Took
	}
	if rc.Target != 0 || rc.Draft < took/2 {
		t.Errorf("draft %v, target %v; calls took %v", rc.Draft, rc.Target, took)
	}
}
