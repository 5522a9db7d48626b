package tiers

import (
	"fmt"
	"sync"
	"testing"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// TestStreamsSideBySideKeepTheirOwnText runs relayed and drafted streams at once, under the race detector in particular:
// windows, parsers and buffers of one go to the next, and none has text of another.
func TestStreamsSideBySideKeepTheirOwnText(t *testing.T) {
	r := newRig(t, 7, 0, true) // both models write the same
	r.cfg.Accept.Threshold = -15
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			body := chat(fmt.Sprint("stream ", i), `,"max_tokens":40,"stream":true`)
			want := r.own(body)
			for range 6 {
				got, _, err := r.ask(openai.Chat, [...]plan.Tier{plan.Target, plan.Auto}[i%2], body)
				if err != nil || got.text != want.text {
					t.Errorf("stream %d: %q, want %q; %v", i, got.text, want.text, err)
				}
			}
		})
	}
	group.Wait()
}
