package probe

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"

	"github.com/foregate/foregate/tiers/dialect"
)

// modelCard is what an engine tells of a model. Two cards are equal where they tell the same.
type modelCard struct {
	ID     string
	Root   string
	Parent string
	Window int    // context length of a request, tokens; 0: not told
	Start  string // changes with each start of the engine; "": nothing tells it
}

// parseCard reads the card of a model from an answer of /v1/models: the one with its name, or the only one.
func parseCard(body []byte, model string) (modelCard, error) {
	models, err := dialect.ParseModels(body)
	if err != nil {
		return modelCard{}, unusable("the answer of /v1/models cannot be read: " + line(err.Error()))
	}
	for _, m := range models {
		if m.ID == model || len(models) == 1 {
			return modelCard{ID: m.ID, Root: m.Root, Parent: m.Parent, Window: max(m.Window, 0)}, nil
		}
	}
	return modelCard{}, unusable("/v1/models does not list " + line(strconv.Quote(model)))
}

// parseProps reads the context length of a request from an answer of llama.cpp's /props, and what changes with each start.
func parseProps(body []byte) (window int, start string, err error) {
	var w struct {
		Settings struct {
			Window int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Marker json.RawMessage `json:"media_marker"` // drawn at each start
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return 0, "", unusable("the answer cannot be read: " + line(err.Error()))
	}
	if w.Settings.Window <= 0 {
		return 0, "", unusable("it tells no n_ctx")
	}
	_ = json.Unmarshal(w.Marker, &start) // of another type it is none
	return w.Settings.Window, line(start), nil
}

// startTime is the metric of Python's client that tells when the process was started.
var startTime = regexp.MustCompile(`(?m)^process_start_time_seconds (\S{1,32})\s*$`)

// started returns when the engine says that it was started, "" if it does not.
func (p *probeRun) started(ctx context.Context) string {
	if !p.dialect().Load.Reads() {
		return ""
	}
	body, err := p.get(ctx, "/metrics")
	if told := startTime.FindSubmatch(body); err == nil && told != nil {
		return string(told[1])
	}
	return ""
}

// window reads the model card, and the context length of a request where the engine tells it.
func (p *probeRun) window(ctx context.Context) error {
	body, err := p.get(ctx, dialect.ModelsPath)
	if err == nil {
		p.card, err = parseCard(body, p.model)
	}
	if fails(err) {
		return err
	}
	if p.dialect().PropsWindow {
		if body, err = p.get(ctx, "/props"); err == nil {
			p.card.Window, p.card.Start, err = parseProps(body)
		}
		if fails(err) {
			return err
		}
	} else {
		p.card.Start = p.started(ctx)
	}
	switch p.found.Window = p.card.Window; {
	case err != nil:
		p.addMissing(MissingWindow, reason(err))
	case p.found.Window == 0:
		p.addMissing(MissingWindow, "/v1/models lists the model without max_model_len")
	}
	return nil
}
