package tiers

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/cache"
)

func TestWhoVouchesMayComeBeforeOrAfterTheAnswer(t *testing.T) {
	for range 200 {
		v, kept := &confirmation{}, atomic.Int64{}
		var wg sync.WaitGroup
		wg.Go(func() { v.confirm(true) })
		wg.Go(func() {
			v.onOpinion(func(good bool) {
				if good {
					kept.Add(1)
				}
			})
		})
		if wg.Wait(); kept.Load() != 1 {
			t.Fatalf("kept %d times", kept.Load())
		}
		if v.confirm(false); kept.Load() != 1 {
			t.Fatal("kept again")
		}
	}
	v := &confirmation{}
	v.onOpinion(func(bool) { t.Error("kept though nobody vouched") })
}

func TestTheObjectOfASharedAnswerSaysWarmup(t *testing.T) {
	for acceptance, phase := range map[string]string{
		"accepted;phase=warmup;reason=confident;score=0.31": "warmup", "accepted;reason=confident;score=0.31": "",
	} {
		e := &cache.Entry{Tier: "draft", Accepted: 3, Acceptance: acceptance}
		var object struct{ Phase, Reason string }
		if err := json.Unmarshal(extraOf(e, cache.ResultCoalesced, 0), &object); err != nil || object.Phase != phase || object.Reason != "confident" {
			t.Errorf("%s: %+v, %v", acceptance, object, err)
		}
	}
}
