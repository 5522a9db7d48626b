package probe

import (
	"encoding/json"

	"github.com/foregate/foregate/tiers/dialect"
)

// parseProps reads the context length of a request, in tokens, from an answer of llama.cpp's GET /props. The error is an
// *unreadable.
func parseProps(body []byte) (int, error) {
	var w struct {
		Defaults struct {
			Window int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return 0, &unreadable{"its answer cannot be read: " + line(err.Error())}
	}
	if w.Defaults.Window <= 0 {
		return 0, &unreadable{"it tells no n_ctx"}
	}
	return w.Defaults.Window, nil
}

// parseLoaded reads the context length of a model, in tokens, from an answer of Ollama's GET /api/ps; 0 is unknown, as
// before release 0.11. The error is an *unreadable: the model is not loaded, too.
func parseLoaded(body []byte, model string) (int, error) {
	var w struct {
		Models []struct {
			Name   string `json:"name"`
			Model  string `json:"model"`
			Window int    `json:"context_length"`
		} `json:"models"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return 0, &unreadable{"its answer cannot be read: " + line(err.Error())}
	}
	for i := range w.Models {
		if m := &w.Models[i]; names(dialect.Ollama, m.Name, model) || names(dialect.Ollama, m.Model, model) {
			return max(m.Window, 0), nil
		}
	}
	return 0, &unreadable{"the model is not loaded, although it has just answered"}
}
