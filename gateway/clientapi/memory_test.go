package clientapi_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/gateway/clientapi/messages"
	"github.com/foregate/foregate/gateway/clientapi/responses"
)

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
