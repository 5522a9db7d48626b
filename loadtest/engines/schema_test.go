package engines

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestEachFieldOfTheEnginesSchemaIsRecorded compares the names that vLLM takes now with those about which package tiers/openai has decided.
func TestEachFieldOfTheEnginesSchemaIsRecorded(t *testing.T) {
	recorded, err := os.ReadFile("../../tiers/openai/testdata/vllm.txt")
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, p pair) {
		if p.target.Kind != VLLM {
			t.Skip("llama.cpp has no schema")
		}
		var document struct {
			Components struct {
				Schemas map[string]struct{ Properties map[string]json.RawMessage }
			}
		}
		if err := askJSON(t.Context(), "GET", p.target.URL+"/openapi.json", "", &document); err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, schema := range []string{"ChatCompletionRequest", "CompletionRequest"} {
			for name := range document.Components.Schemas[schema].Properties {
				names[name] = true
			}
		}
		if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, strings.Fields(string(recorded))) {
			t.Errorf("the engine takes %q: decide about each new field in tiers/openai, and record the list in testdata/vllm.txt", got)
		}
	})
}
