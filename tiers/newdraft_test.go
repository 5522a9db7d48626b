package tiers

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

func TestWhatATargetIsToldOfADraft(t *testing.T) {
	for what, c := range map[string]struct {
		members, finish string // of the request, and of the last chunk
		last            string
		want            Draft
	}{
		"it ended by itself":           {"", "stop", "two", Draft{Text: []byte("one two"), Ended: true}},
		"by the client's limit":        {`,"max_tokens":2`, "length", "two", Draft{Text: []byte("one two"), AtLimit: true}},
		"by its own context":           {`,"max_tokens":9`, "length", "two", Draft{Text: []byte("one two")}},
		"by a stop string":             {`,"stop":["wo"]`, "", "two", Draft{Text: []byte("one t"), WithStop: []byte("one two")}},
		"by one that the client wants": {`,"stop":["wo"],"include_stop_str_in_output":true`, "", "two", Draft{Text: []byte("one two")}},
	} {
		said := `{"model":"m","messages":[{"role":"user","content":"x"}]` + c.members + `}`
		body, err := openai.Scan(openai.Chat, []byte(said), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		d := draft.New(draft.Options{
			Request: body, Config: &plan.Config{}, MaxBytes: 1000,
			Decision: &plan.Decision{Plan: plan.Plan{Judged: true, Resume: plan.ResumeIDs}, Accept: accept.Config{Threshold: -1}},
		})
		for i, text := range []string{"one ", c.last} {
			chunk := &openai.Chunk{Choices: 1, Plain: true, Text: []byte(text), Stop: []byte("null")}
			chunk.IDs, chunk.Logprobs = []int32{int32(i) + 7}, []float64{-0.1}
			if chunk.AddTop(); i == 0 {
				chunk.PromptIDs = []int32{1, 2}
			} else {
				chunk.Finish = []byte(c.finish)
			}
			d.Take(chunk)
		}
		d.End()
		if c.want.WithStop == nil {
			c.want.WithStop = c.want.Text
		}
		c.want.PromptIDs, c.want.IDs, c.want.Tokens, c.want.Resumes = []int32{1, 2}, []int32{7, 8}, 2, true
		if diff := cmp.Diff(c.want, NewDraft(d)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}
