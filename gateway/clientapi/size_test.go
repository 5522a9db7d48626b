package clientapi_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/gateway/clientapi/messages"
	"github.com/foregate/foregate/gateway/clientapi/responses"
)

// hostile are bodies that are small for what they take: a head, what is repeated, and a tail.
var hostile = map[string]struct {
	api              clientapi.API
	head, unit, tail string
}{
	"messages: text":       {messages.API{}, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"`, `word `, `"}]}`},
	"messages: objects":    {messages.API{}, `{"model":"m","max_tokens":1,"messages":[`, `{},`, `{}]}`},
	"messages: messages":   {messages.API{}, `{"model":"m","max_tokens":1,"messages":[`, `{"role":"user","content":""},`, `{"role":"user","content":""}]}`},
	"messages: blocks":     {messages.API{}, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[`, `{"type":"text","text":"a"},`, `{"type":"text","text":"a"}]}]}`},
	"messages: results":    {messages.API{}, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[`, `{"type":"tool_result","tool_use_id":"a"},`, `{"type":"text","text":""}]}]}`},
	"messages: tools":      {messages.API{}, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[`, `{"name":"f","input_schema":{}},`, `{"name":"f","input_schema":{}}]}`},
	"messages: stops":      {messages.API{}, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"stop_sequences":[`, `"",`, `""]}`},
	"messages: escapes":    {messages.API{}, `{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{"a":"`, `\"`, `"}}]},{"role":"user","content":"x"}]}`},
	"responses: text":      {responses.API{}, `{"model":"m","input":"`, `word `, `"}`},
	"responses: objects":   {responses.API{}, `{"model":"m","input":[`, `{"a":1},`, `{}]}`},
	"responses: numbers":   {responses.API{}, `{"model":"m","input":[`, `0,`, `0]}`},
	"responses: reasoning": {responses.API{}, `{"model":"m","input":[`, `{"type":"reasoning"},`, `{"type":"reasoning"}]}`},
	"responses: messages":  {responses.API{}, `{"model":"m","input":[`, `{"role":"user","content":""},`, `{"role":"user","content":""}]}`},
	"responses: images":    {responses.API{}, `{"model":"m","input":[{"role":"user","content":[`, `{"type":"input_image","image_url":"a"},`, `{"type":"input_text","text":""}]}]}`},
	"responses: calls":     {responses.API{}, `{"model":"m","input":[`, `{"type":"function_call","call_id":"a","name":"b","arguments":""},`, `{"type":"reasoning"}]}`},
	"responses: tools":     {responses.API{}, `{"model":"m","input":"x","tools":[`, `{"type":"function","name":"f"},`, `{"type":"function","name":"f"}]}`},
	"responses: include":   {responses.API{}, `{"model":"m","input":"x","include":[`, `"",`, `""]}`},
}

// TestATranslationIsChargedForItsMemory compares the charge with all that is allocated, of which most is garbage before the end.
func TestATranslationIsChargedForItsMemory(t *testing.T) {
	const size, garbage = 64 << 10, 3
	for name, c := range hostile {
		body := []byte(c.head + strings.Repeat(c.unit, size/len(c.unit)) + c.tail)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = c.api.Translate(body) // some are refused in the end
		runtime.ReadMemStats(&after)
		took, charged := int64(after.TotalAlloc-before.TotalAlloc), clientapi.TranslationBytes(body)
		if took > garbage*charged {
			t.Errorf("%s: %d bytes take %d, and are charged with %d", name, len(body), took, charged)
		}
	}
}

// TestNestedResultsAreNotCopiedForEachLevel refuses the first result within a result.
func TestNestedResultsAreNotCopiedForEachLevel(t *testing.T) {
	const depth, size = 30, 64 << 10
	body := []byte(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":` + strings.Repeat(`[{"type":"tool_result","tool_use_id":"a","content":`, depth) +
		`"` + strings.Repeat("w", size) + `"` + strings.Repeat("}]", depth) + `}]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := messages.API{}.Translate(body)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 12*uint64(len(body)) {
		t.Errorf("%d bytes take %d: %v", len(body), took, err)
	}
}

// TestTextBehindACallIsKeptOnce streams much text behind a call, in small parts.
func TestTextBehindACallIsKeptOnce(t *testing.T) {
	const parts, text = 4096, "0123456789abcdef"
	for _, c := range []struct {
		api  clientapi.API
		body string
	}{
		{messages.API{}, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`}, {responses.API{}, `{"model":"m","input":"x"}`},
	} {
		r, err := c.api.Translate([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		e := r.NewEncoder("1", 0)
		out, _ := e.Part(nil, &clientapi.Part{Calls: []clientapi.CallPart{{ID: "c", Name: "f", Arguments: "{}"}}})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range parts {
			out, _ = e.Part(out, &clientapi.Part{Text: text})
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 64*parts*uint64(len(text)) {
			t.Errorf("%T: %d bytes of text take %d", c.api, parts*len(text), took)
		}
		if out, err = e.End(out); err != nil || !strings.Contains(string(out), strings.Repeat(text, parts)) {
			t.Errorf("%T: the text is not whole: %v", c.api, err)
		}
	}
}
