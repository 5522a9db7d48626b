package quality

import (
	"fmt"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
)

// labelErrors are how often a label says otherwise than the target's own distributions, by the lenient rule.
type labelErrors struct {
	good, bad      int // drafts by the rule
	missed, blamed int // bad ones that the label calls good, and good ones that it calls bad
}

func (e *labelErrors) add(stands, label bool) {
	switch {
	case stands && !label:
		e.blamed++
	case !stands && label:
		e.missed++
	}
	if stands {
		e.good++
	} else {
		e.bad++
	}
}

func (e *labelErrors) String() string {
	share := func(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }
	return fmt.Sprintf("%.0f %% | %.0f %% | %.0f %%", share(e.bad, e.good+e.bad), share(e.missed, e.bad), share(e.blamed, e.good))
}

// TestHowOftenTheLabelsOfHostedTargetsErr measures judge and regenerate where the truth is known. docs/measurements.md has the
// rows; tiers/risk proves the guarantee with labels that err so.
func TestHowOftenTheLabelsOfHostedTargetsErr(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 200
	}
	tok := vllmsim.DefaultTokenizer()
	for _, divergence := range []float64{0.25, 0.4} {
		d := draftsOf(divergence, 0)
		var judged, again labelErrors
		for k := range n {
			q := request(k, 0, false)
			q.MaxTokens = 50 + 37*k%151
			prompt := tok.Chat(messagesOf(q))
			w, own := d.judge.writer(d.judge.draft, q, prompt), d.judge.Answer(q, prompt)
			var ids []int32
			for done := false; !done; {
				var id int32
				id, done = w.Next()
				ids = append(ids, id)
			}
			text := tok.Decode(ids, true)
			stands := d.judge.stands(q, prompt, ids)
			says := d.judge.target.model.Judge(prompt, tok.Encode(text)) >= 0
			judged.add(stands, says)
			again.add(stands, says || accept.SameAnswer([]byte(text), []byte(tok.Decode(own, true))))
		}
		fmt.Fprintf(t.Output(), "| %g | judge | %v |\n| %g | regenerate | %v |\n", divergence, &judged, divergence, &again)
		for name, c := range map[string]struct {
			labelErrors
			most float64 // of the good ones may be blamed
		}{"judge": {judged, .45}, "regenerate": {again, .12}} {
			e := c.labelErrors
			if missed, blamed := float64(e.missed)/float64(max(e.bad, 1)), float64(e.blamed)/float64(max(e.good, 1)); e.bad < n/50 || missed > .45 || blamed > c.most {
				t.Errorf("divergence %g, %s: it errs more than tiers/risk assumes: %+v", divergence, name, e)
			}
		}
	}
}
