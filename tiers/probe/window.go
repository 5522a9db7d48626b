package probe

import (
	"context"
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
	e.found.Window = max(e.model.Window, 0)
	switch {
	case e.dialect().Window == dialect.WindowProps:
		return e.props(ctx)
	case err != nil:
		e.addMissing(MissingWindow, err.Error())
	case e.found.Window == 0:
		e.addMissing(MissingWindow, "/v1/models lists the model without max_model_len")
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
	}
	return nil
}
