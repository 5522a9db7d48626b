package probe

import (
	"context"
	"fmt"
	"net/http"

	"github.com/foregate/foregate/tiers/dialect"
)

// window reads the model card, and the context length of a request where the engine tells it.
func (e *probeRun) window(ctx context.Context) error {
	body, err := e.send(ctx, http.MethodGet, "/v1/models", nil)
	if err == nil {
		e.cards, err = parseCards(body)
	}
	if err == nil {
		e.model, err = pickCard(e.cards, e.asker.model)
	}
	if fails(err) {
		return err
	}
	e.found.Window, e.trained, e.made = max(e.model.Window, 0), e.model.Trained, e.last
	switch {
	case e.dialect().Window == dialect.WindowProps:
		return e.props(ctx)
	case e.dialect().Window == dialect.WindowOllama: // it is told of a model that is loaded
	case err != nil:
		e.addMissing(MissingWindow, err.Error())
	case e.found.Window == 0:
		e.addMissing(MissingWindow, "/v1/models lists the model without max_model_len")
	default:
		e.showf(MissingWindow, "max_model_len %d", e.found.Window)
	}
	return nil
}

// props reads the context length of a request from llama.cpp.
func (e *probeRun) props(ctx context.Context) error {
	n := 0
	body, err := e.send(ctx, http.MethodGet, "/props", nil)
	if err == nil {
		n, err = parseProps(body)
	}
	switch {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingWindow, "/props: "+err.Error())
	default:
		e.found.Window, e.model.Window = n, n
		e.showf(MissingWindow, "n_ctx %d", n)
	}
	return nil
}

// loaded reads from Ollama, right after an answer, whether the model is still in memory, and its context length there.
func (e *probeRun) loaded(ctx context.Context) error {
	if e.dialect().Window != dialect.WindowOllama {
		return nil
	}
	body, err := e.send(ctx, http.MethodGet, "/api/ps", nil)
	if fails(err) {
		return err
	}
	n, there := 0, false
	if err == nil {
		n, there, err = parseLoaded(body, e.asker.model)
	}
	switch {
	case err != nil:
		e.addMissing(MissingWindow, "/api/ps: "+err.Error())
		return nil
	case !there:
		e.addMissing(MissingWindow, "/api/ps does not list the model right after it answered")
		e.addHazard(HazardSwappedModel, "it was not in memory any more right after it answered: each request may wait until it is loaded")
		return nil
	case n == 0:
		e.addMissing(MissingWindow, "/api/ps tells no context_length")
	default:
		e.found.Window = n
		e.showf(MissingWindow, "context_length %d", n)
	}
	e.show(HazardSwappedModel, "it stays in memory")
	shown := e.last
	body, err = e.post(ctx, "/api/show", map[string]any{})
	e.last = shown
	if err == nil {
		e.trained, e.made = parseTrained(body), "POST /api/show"
	}
	return nil
}

// promised is the reason for which a context is shorter than the model's card promises; "": it is not.
func (e *probeRun) promised() string {
	if e.found.Window == 0 || e.trained <= e.found.Window {
		return ""
	}
	return fmt.Sprintf("a request has %d tokens, though the model was made for %d", e.found.Window, e.trained)
}
