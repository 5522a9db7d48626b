package receipts

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

func scan(t testing.TB, body string) *openai.Request {
	t.Helper()
	r, err := openai.Scan(openai.Chat, []byte(body), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(role, content string) message {
	return message{Role: role, Parts: []part{{Type: "text", Content: content}}}
}

// kept returns what is left of messages within the bound.
func kept(t *testing.T, all ...message) (out string, back []message, cut bool) {
	t.Helper()
	c := NewContent(openai.Chat)
	out = c.bounded(all)
	if err := json.Unmarshal([]byte(out), &back); err != nil || len(out) > maxMessages {
		t.Errorf("%d bytes: %v", len(out), err)
	}
	return out, back, c.Truncated
}

func TestMessagesHaveTheFormOfTheConventions(t *testing.T) {
	c := NewContent(openai.Chat)
	c.Ask(scan(t, `{"model":"m","messages":[
		{"role":"system","content":"S"},
		{"role":"user","content":[{"type":"text","text":"<look>"},{"type":"text","text":"here"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"42"}]}`))
	const want = `[{"role":"system","parts":[{"type":"text","content":"S"}]},` +
		`{"role":"user","parts":[{"type":"text","content":"<look>"},{"type":"text","content":"here"}]},` +
		`{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"f","arguments":{"a":1}}]},` +
		`{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"42"}]}]`
	if c.Input != want || c.Truncated {
		t.Errorf("truncated %t, %s", c.Truncated, c.Input)
	}
}

func TestOfMediaOnlyTheTypeIsCollected(t *testing.T) {
	parts := contentOf([]byte(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]`))
	if got := string(clientapi.Encode(parts)); got != `[{"type":"image_url"}]` {
		t.Error(got)
	}
}

func TestALongTextLosesItsEndAndStaysJSON(t *testing.T) {
	for _, unit := range []string{"a", "\x00", "é", "\"", "a\x01\x01"} {
		long := strings.Repeat(unit, maxMessages)
		for _, p := range []part{
			{Type: "text", Content: long}, {Type: "tool_call_response", ID: "c", Response: long},
			callPart("c", "f", long), callPart("c", "f", string(clientapi.Encode(map[string]string{"a": long}))),
		} {
			out, back, cut := kept(t, message{Role: "user", Parts: []part{p}}, text("user", "next"))
			if !cut || len(out) < maxMessages/8 || len(back) != 2 || back[1].Parts[0].Content != "next" {
				t.Errorf("%s of %q: %d bytes, cut %t, %d messages", p.Type, unit, len(out), cut, len(back))
			}
		}
	}
}

func TestTheQuestionIsKeptWithLongToolResults(t *testing.T) {
	result := message{Role: "tool", Parts: []part{{Type: "tool_call_response", ID: "c", Response: strings.Repeat("r", 70<<10)}}}
	for name, all := range map[string][]message{
		"after one":    {text("user", "hi"), result, text("user", "LAST")},
		"before three": {text("user", "LAST"), result, result, result},
		"between":      {text("user", "hi"), result, text("user", "LAST"), result, result},
	} {
		if out, back, cut := kept(t, all...); !cut || len(back) != len(all) || !strings.Contains(out, "LAST") {
			t.Errorf("%s: %d bytes, cut %t, %d of %d messages", name, len(out), cut, len(back), len(all))
		}
	}
}

func TestTheEarliestMessagesAreLeftOut(t *testing.T) {
	var all []message
	for i := range 1000 {
		all = append(all, text("user", fmt.Sprintf("%d %s", i, strings.Repeat("w", 1000))))
	}
	out, back, cut := kept(t, all...)
	whole, first := 0, len(all)-len(back)
	for i, m := range back {
		if m.Parts[0].Content == all[first+i].Parts[0].Content {
			whole++
		}
	}
	if !cut || whole < 30 || back[len(back)-1].Parts[0].Content != all[999].Parts[0].Content {
		t.Errorf("%d bytes, cut %t, %d messages, of which %d are whole", len(out), cut, len(back), whole)
	}
}

func TestAnAnswerThatBrokeOffIsCollectedAsFarAsItCame(t *testing.T) {
	c := NewContent(openai.Chat)
	o := c.Observe()
	o.Text([]byte("The sky"))
	o.Text([]byte(" is"))
	c.End(nil)
	if want := `[{"role":"assistant","parts":[{"type":"text","content":"The sky is"}],"finish_reason":"error"}]`; !c.Truncated || c.Output != want {
		t.Errorf("%s, truncated %t", c.Output, c.Truncated)
	}
}

// FuzzMessages collects any request that is accepted: always JSON, always within the bound.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\u0000x"}]},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{"}}]}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"1","content":"é\u0001é\u0001"},{"role":"user","content":"last"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := openai.Scan(openai.Chat, body, openai.DefaultLimits())
		if err != nil {
			return
		}
		c := NewContent(openai.Chat)
		if c.Ask(r); !json.Valid([]byte(c.Input)) || len(c.Input) > maxMessages {
			t.Errorf("%d bytes: %s", len(c.Input), c.Input)
		}
		for _, m := range input(r) {
			for limit := range 64 {
				if !json.Valid(clientapi.Encode(m.cut(limit))) {
					t.Errorf("cut at %d it is no JSON: %s", limit, clientapi.Encode(m.cut(limit)))
				}
			}
		}
	})
}
