package tiers

import (
	"errors"
	"net/http"
	"testing"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

func TestAJSONAnswerWithAChoiceThatWasAbortedIsNotServed(t *testing.T) {
	backend := newScripted(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"choices":[{"index":0,"text":"a","finish_reason":"abort"},{"index":1,"text":"b","finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":2}}`))
	})
	_, _, err := scriptedRig(t, backend.URL, backend.URL).ask(openai.Completion, plan.Target, `{"model":"m","prompt":["a","b"]}`)
	if f, ok := errors.AsType[*engine.Failure](err); !ok || f.Kind != engine.Aborted {
		t.Errorf("an answer with an aborted choice: %v", err)
	}
}
