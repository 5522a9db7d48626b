package clientapi_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi/messages"
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
