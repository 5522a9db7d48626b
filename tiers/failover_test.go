package tiers

import (
	"bytes"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// lossy is a rig with two targets, of which the first is to be lost.
func lossy(t *testing.T) (r *rig, spare *vllmsim.Server) {
	r = probedRig(t, vllmsim.Options{Seed: 7}, vllmsim.Options{})
	spare = vllmsim.Start(t, vllmsim.Options{Model: "big", Profile: "h100-70b-tp4", Seed: 7, TimeScale: testScale})
	r.wire(t, r.target.URL(), spare.URL())
	r.cfg.Mode = plan.ModeOff
	return r, spare
}

func TestAnAnswerThatWasLostIsCarriedOnWithInEveryMode(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.5}, vllmsim.Options{})
	const said = "What the target alone would not have said, "
	for _, mode := range []plan.Mode{plan.ModeOff, plan.ModeConfidence, plan.ModeVerify} {
		r.cfg.Mode = mode
		req, err := openai.Scan(openai.Chat, []byte(chat("Tell me", `,"max_tokens":60,"stream":true`)), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		var out collector
		rc, err := answerBy(t.Context(), r.cascade, arrival{Body: req, ID: "x", Sent: []byte(said)}, &out)
		if err != nil {
			t.Fatal(err)
		}
		text := read(t, true, bytes.Join(out.writes, nil)).text
		if word, reason := rc.Outcome(); !strings.HasPrefix(text, said) || len(rc.Failovers) != 1 || word != "bypassed" || reason != "target_lost" || rc.Tier != plan.Target {
			t.Errorf("%s: %q, %s from %s, over %+v", mode, text, rc.Acceptance(), rc.Tier, rc.Failovers)
		}
	}
}
