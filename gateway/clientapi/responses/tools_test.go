package responses

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi"
)

// agentTools are tools as coding agents send them.
const agentTools = `{"type":"function","name":"f","parameters":{},"defer_loading":true},` +
	`{"type":"namespace","name":"agents","description":"d","tools":[{"type":"function","name":"close","parameters":{}}]},` +
	`{"type":"namespace","name":"mcp__x__","tools":[{"type":"function","name":"get","parameters":{}}]},` +
	`{"type":"custom","name":"apply_patch","description":"Edits.","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},` +
	`{"type":"web_search","external_web_access":true},{"type":"mcp","server_label":"s"}`

func translate(t *testing.T, body string) *clientapi.Request {
	t.Helper()
	r, err := API{}.Translate([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

func TestToolsOfAgentsAreFunctionsOfTheChat(t *testing.T) {
	for choice, want := range map[string]string{
		`"auto"`: `f agents__close mcp__x__get apply_patch "auto"`,
		`{"type":"function","name":"close","namespace":"agents"}`:                                                   `f agents__close mcp__x__get apply_patch {"function":{"name":"agents__close"},"type":"function"}`,
		`{"type":"custom","name":"apply_patch"}`:                                                                    `f agents__close mcp__x__get apply_patch {"function":{"name":"apply_patch"},"type":"function"}`,
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"},{"type":"web_search"}]}`: `f "required"`,
		`{"type":"allowed_tools","mode":"auto","tools":[]}`:                                                         ``,
	} {
		r := translate(t, `{"model":"m","input":"x","client_metadata":{"a":"b"},"truncation":"auto","max_tool_calls":3,"context_management":[],"include":["reasoning.encrypted_content"],"tools":[`+agentTools+`],"tool_choice":`+choice+`}`)
		var chat struct {
			Tools []struct {
				Type     string
				Function struct{ Name, Description string }
			}
			Choice json.RawMessage `json:"tool_choice"`
		}
		if err := json.Unmarshal(r.Chat, &chat); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tool := range chat.Tools {
			if got = append(got, tool.Function.Name); tool.Function.Name == "apply_patch" && tool.Function.Description != "Edits.\n\nThe input must match this grammar (lark):\nstart: x" {
				t.Errorf("the grammar is not told: %q", tool.Function.Description)
			}
		}
		if len(chat.Choice) > 0 {
			got = append(got, string(chat.Choice))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s:\n got %s\nwant %s", choice, s, want)
		}
		if want := []string{"context_management", "truncation", "tools[4] web_search", "tools[5] mcp"}; !slices.Equal(r.Dropped, want) {
			t.Errorf("dropped are %q, want %q", r.Dropped, want)
		}
	}
}

func TestToolsInTheInputAreToolsOfTheChat(t *testing.T) {
	const tools = `{"type":"additional_tools","id":"at_1","role":"developer","tools":[` + agentTools + `]},`
	r := translate(t, `{"model":"m","reasoning":{"effort":"low","context":"all_turns"},"input":[`+tools+tools+`{"role":"user","content":"x"}],"tool_choice":"auto","tools":[{"type":"function","name":"g"}]}`)
	chat := string(r.Chat)
	for _, name := range []string{"f", "agents__close", "mcp__x__get", "apply_patch", "g"} {
		if n := strings.Count(chat, `"name":"`+name+`"`); n != 1 {
			t.Errorf("%s is there %d times: %s", name, n, chat)
		}
	}
	if len(r.Dropped) == 0 || r.Dropped[0] != "input[0].tools[4] web_search" {
		t.Errorf("dropped are %q", r.Dropped)
	}
}

func TestNamesOfToolsAreShort(t *testing.T) {
	long := strings.Repeat("n", 60)
	a, b := toolName{namespace: long, name: "first"}.chatName(), toolName{namespace: long, name: "other"}.chatName()
	if len(a) != maxToolName || a == b {
		t.Errorf("%s and %s", a, b)
	}
}

// TestCallsComeBackUnderTheNamesOfTheClient writes calls whole and as a stream; the items are sent back afterwards.
func TestCallsComeBackUnderTheNamesOfTheClient(t *testing.T) {
	r := translate(t, `{"input":"x","tools":[`+agentTools+`]}`)
	const calls = `{"index":0,"id":"a","function":{"name":"agents__close","arguments":"{\"t\":1}"}},{"index":1,"id":"b","function":{"name":"apply_patch","arguments":"{\"input\":\"*** Begin\\n\"}"}},{"index":2,"id":"c","function":{"name":"apply_patch","arguments":"bare"}}`
	const want = `{"id":"fc_1_0","type":"function_call","status":"completed","call_id":"a","namespace":"agents","name":"close","arguments":"{\"t\":1}"},` +
		`{"id":"ctc_1_1","type":"custom_tool_call","status":"completed","call_id":"b","name":"apply_patch","input":"*** Begin\n"},` +
		`{"id":"ctc_1_2","type":"custom_tool_call","status":"completed","call_id":"c","name":"apply_patch","input":"bare"}`
	whole, err := clientapi.ParsePart([]byte(`{"choices":[{"message":{"tool_calls":[` + calls + `]},"finish_reason":"tool_calls"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.NewEncoder("1", 0).Whole(nil, whole); err != nil || !strings.Contains(string(got), `"output":[`+want+`]`) {
		t.Errorf("%v: %s", err, got)
	}
	frames := `data: {"choices":[{"delta":{"tool_calls":[` + calls + `]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	stream, err := recoded([]byte(frames), r.NewEncoder("1", 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{
		`"type":"response.output_item.added","sequence_number":6,"output_index":1,"item":{"id":"ctc_1_1","type":"custom_tool_call","status":"in_progress","call_id":"b","name":"apply_patch","input":""}`,
		`"type":"response.custom_tool_call_input.delta","sequence_number":7,"item_id":"ctc_1_1","output_index":1,"delta":"*** Begin\n"`,
		`"type":"response.custom_tool_call_input.done","sequence_number":8,"item_id":"ctc_1_1","output_index":1,"input":"*** Begin\n"`,
		`"output":[` + want + `]`,
	} {
		if !strings.Contains(string(stream), event) {
			t.Errorf("no %s in\n%s", event, stream)
		}
	}
	back := translate(t, `{"input":[`+want+`,{"type":"custom_tool_call_output","call_id":"b","output":"ok"},{"type":"web_search_call","id":"ws"}]}`)
	if sent := string(back.Chat); !strings.Contains(sent, `"name":"agents__close"`) || !strings.Contains(sent, `{"arguments":"{\"input\":\"*** Begin\\n\"}","name":"apply_patch"}`) ||
		!strings.HasSuffix(sent, `{"content":"ok","role":"tool","tool_call_id":"b"}]}`) || len(back.Dropped) != 1 {
		t.Errorf("sent back: %s, dropped %q", sent, back.Dropped)
	}
}

func TestReasoningIsTheSummaryWhereOneIsAskedFor(t *testing.T) {
	r := translate(t, `{"input":"x","reasoning":{"summary":"auto"}}`)
	frames := `data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	stream, err := recoded([]byte(frames), r.NewEncoder("1", 0))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(stream)) {
		if name, ok := strings.CutPrefix(line, "event: response."); ok {
			got = append(got, strings.TrimSpace(name))
		}
	}
	const want = "created in_progress output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done output_item.done " +
		"output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done completed"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("events\n%s, want\n%s", s, want)
	}
	const item = `{"id":"rs_1_0","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"status":"completed","content":[]}`
	if !strings.Contains(string(stream), `"output":[`+item) {
		t.Errorf("no %s in %s", item, stream)
	}
	if back := translate(t, `{"input":[`+item+`]}`); strings.Contains(string(back.Chat), "hm") {
		t.Errorf("sent back: %s", back.Chat)
	}
}
