package contentlog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"

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

func TestMessagesHaveTheFormOfTheConventions(t *testing.T) {
	system, rest := input(scan(t, `{"model":"m","messages":[
		{"role":"system","content":"S"},
		{"role":"user","content":[{"type":"text","text":"<look>"},{"type":"text","text":"here"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"42"}]}`))
	text, cut := bounded(rest, maxContent)
	const want = `[{"role":"user","parts":[{"type":"text","content":"<look>"},{"type":"text","content":"here"}]},` +
		`{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"f","arguments":{"a":1}}]},` +
		`{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"42"}]}]`
	if text != want || cut || string(encode(system)) != `[{"type":"text","content":"S"}]` {
		t.Errorf("system %s, cut %t, rest %s", encode(system), cut, text)
	}
}

func TestOfMediaOnlyTheTypeIsExported(t *testing.T) {
	parts := contentOf([]byte(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]`))
	if got := string(encode(parts)); got != `[{"type":"image_url"}]` {
		t.Error(got)
	}
}

func TestOneSystemMessageInTheMiddleStaysAmongTheMessages(t *testing.T) {
	system, rest := input(scan(t, `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`))
	if len(system) != 0 || len(rest) != 2 {
		t.Errorf("%v, %v", system, rest)
	}
}

func TestLongContentIsCutAtTheBoundAndStaysJSON(t *testing.T) {
	for _, unit := range []string{"a", "\x00", "é", "\"", "a\x01\x01"} {
		long := strings.Repeat(unit, maxContent)
		for _, p := range []part{
			{Type: "text", Content: long}, {Type: "tool_call_response", ID: "c", Response: long},
			callPart("c", "f", long), callPart("c", "f", string(encode(map[string]string{"a": long}))), callPart("c", "f", string(encode(long))),
		} {
			out, cut := bounded([]message{{Role: "user", Parts: []part{p}}, text("user", "next")}, maxContent)
			back := decoded(t, out)
			if !cut || len(out) > maxContent || len(out) < maxContent-64 || len(back) != 2 || back[1].Parts[0].Content != "next" {
				t.Errorf("%s of %q: %d bytes, cut %t, %d messages", p.Type, unit, len(out), cut, len(back))
			}
		}
	}
}

func TestTheQuestionIsExportedWithLongToolResults(t *testing.T) {
	result := message{Role: "tool", Parts: []part{{Type: "tool_call_response", ID: "c", Response: strings.Repeat("r", 70<<10)}}}
	for name, all := range map[string][]message{
		"after one":    {text("user", "hi"), result, text("user", "LAST")},
		"before three": {text("user", "LAST"), result, result, result},
		"between":      {text("user", "hi"), result, text("user", "LAST"), result, result},
	} {
		out, cut := bounded(all, maxContent)
		if back := decoded(t, out); !cut || len(out) > maxContent || len(out) < maxContent-64 || len(back) != len(all) || !strings.Contains(out, "LAST") {
			t.Errorf("%s: %d bytes, cut %t, %d of %d messages", name, len(out), cut, len(back), len(all))
		}
	}
}

func TestTheEarliestMessagesAreLeftOut(t *testing.T) {
	var all []message
	for i := range 1000 {
		all = append(all, text("user", fmt.Sprintf("%d %s", i, strings.Repeat("w", 1000))))
	}
	out, cut := bounded(all, maxContent)
	back := decoded(t, out)
	whole, first := 0, len(all)-len(back)
	for i, m := range back {
		if m.Parts[0].Content == all[first+i].Parts[0].Content {
			whole++
		}
	}
	if !cut || len(out) > maxContent || whole < 60 || back[len(back)-1].Parts[0].Content != all[999].Parts[0].Content {
		t.Errorf("%d bytes, cut %t, %d messages, of which %d are whole", len(out), cut, len(back), whole)
	}
}

func TestArgumentsThatAreCutAreTheBeginningAsText(t *testing.T) {
	call := message{Role: "assistant", Parts: []part{callPart("c", "f", `{"city":"Bern"}`)}}
	out, cut := bounded([]message{call}, len(encode([]message{call}))-1)
	if want := `[{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"f","arguments":"{\"city\":"}]}]`; out != want || !cut {
		t.Errorf("%s, cut %t", out, cut)
	}
}

// decoded reads messages back.
func decoded(t *testing.T, out string) (all []message) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWhatFitsIsNotCut(t *testing.T) {
	all := []message{text("user", "a"), text("assistant", "b")}
	whole := string(encode(all))
	if out, cut := bounded(all, len(whole)); out != whole || cut {
		t.Errorf("%s, cut %t", out, cut)
	}
	if out, cut := bounded(all, len(whole)-1); !cut || len(out) >= len(whole) || !json.Valid([]byte(out)) {
		t.Errorf("%s, cut %t", out, cut)
	}
}

func TestTheShareDecidesByTheHash(t *testing.T) {
	for _, c := range []struct {
		hash  uint64
		share float64
		want  bool
	}{{0, 0, false}, {^uint64(0), 0, false}, {0, 1, true}, {^uint64(0), 1, true}, {1 << 62, 0.3, true}, {1 << 63, 0.3, false}} {
		if got := sampled(c.hash, c.share); got != c.want {
			t.Errorf("hash %d in share %g: %t", c.hash, c.share, got)
		}
	}
}

func TestAnAnswerThatBrokeOffIsExportedAsFarAsItCame(t *testing.T) {
	o := &observer{whole: openai.NewAssembler(openai.Chat, maxAnswer)}
	o.Text([]byte("The sky"))
	o.Text([]byte(" is"))
	all, cut := o.messages()
	if got, _ := bounded(all, maxContent); !cut || got != `[{"role":"assistant","parts":[{"type":"text","content":"The sky is"}],"finish_reason":"error"}]` {
		t.Errorf("%s, cut %t", got, cut)
	}
}

func text(role, content string) message {
	return message{Role: role, Parts: []part{{Type: "text", Content: content}}}
}

// FuzzMessages exports any request that is accepted: always JSON, always within the bound.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`), 64)
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\u0000x"}]},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{"}}]}]}`), 90)
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"1","content":"é\u0001é\u0001"},{"role":"user","content":"last"}]}`), 120)
	f.Fuzz(func(t *testing.T, body []byte, room int) {
		r, err := openai.Scan(openai.Chat, body, openai.DefaultLimits())
		if err != nil {
			return
		}
		room = max(2, min(room, maxContent))
		_, rest := input(r)
		if out, _ := bounded(rest, room); !json.Valid([]byte(out)) || len(out) > room {
			t.Errorf("%d bytes for %d: %s", len(out), room, out)
		} else if values([]byte(out)).Type() != attribute.SLICE {
			t.Errorf("it is no list: %s", out)
		}
	})
}
