package probe

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
)

// modelCard is what an engine tells of one model. Two cards are equal where they tell the same.
type modelCard struct {
	ID      string
	Root    string
	Parent  string
	Aliases string // one a line
	Window  int    // context length of a request, tokens; 0: not told
	Start   string // changes with each start of the engine; "": nothing tells it
}

// parseCards reads an answer of /v1/models.
func parseCards(body []byte) ([]modelCard, error) {
	models, err := dialect.ParseModels(body)
	if err != nil {
		return nil, unusable("the answer of /v1/models cannot be read: " + line(err.Error()))
	}
	cards := make([]modelCard, len(models))
	for i, d := range models {
		var aliases []string
		_ = json.Unmarshal(d.Aliases, &aliases) // of another shape there are none
		cards[i] = modelCard{ID: d.ID, Root: d.Root, Parent: d.Parent, Aliases: strings.Join(aliases, "\n"), Window: max(d.Window, 0)}
	}
	return cards, nil
}

// cardOf returns where the card of a model is, or −1. A card that has the very name comes first.
func cardOf(cards []modelCard, model string) int {
	if at := slices.IndexFunc(cards, func(c modelCard) bool { return c.ID == model }); at >= 0 {
		return at
	}
	return slices.IndexFunc(cards, func(c modelCard) bool {
		return sameName(model, c.ID) || c.Aliases != "" && slices.Contains(strings.Split(c.Aliases, "\n"), model)
	})
}

// snapshot is how hosts name a dated version of a model: gpt-4o-2024-08-06.
var snapshot = regexp.MustCompile(`^-\d{4}[-0-9]*$`)

// sameName reports whether two names are of one model: a file and its name, a name with and without the tag that some servers
// add, a name and its dated version.
func sameName(a, b string) bool {
	a, b = strings.TrimSuffix(a, ":latest"), strings.TrimSuffix(b, ":latest")
	if a == b || strings.HasPrefix(b, a) && a != "" && snapshot.MatchString(b[len(a):]) {
		return true
	}
	x, inA := stem(a)
	y, inB := stem(b)
	return x == y && x != "" && (!inA || !inB)
}

// stem is the last element of a path without .gguf; path reports whether there was more.
func stem(name string) (last string, path bool) {
	at := strings.LastIndexAny(name, `/\`)
	return strings.TrimSuffix(name[at+1:], ".gguf"), at >= 0
}

// sameModel reports whether an engine that was asked for one name and tells another means the same model.
func sameModel(cards []modelCard, asked, told string) bool {
	if told == "" || sameName(asked, told) {
		return true
	}
	i, j := cardOf(cards, asked), cardOf(cards, told)
	return i >= 0 && j >= 0 && (i == j || cards[i].Root != "" && cards[i].Root == cards[j].Root)
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
		p.cards, err = parseCards(body)
	}
	if at := cardOf(p.cards, p.asker.model); err == nil && at >= 0 {
		p.model = p.cards[at]
	} else if err == nil {
		err = unusable("/v1/models does not list " + line(strconv.Quote(p.asker.model)))
	}
	if fails(err) {
		return err
	}
	if p.dialect().PropsWindow {
		if body, err = p.get(ctx, "/props"); err == nil {
			p.model.Window, p.model.Start, err = parseProps(body)
		}
		if fails(err) {
			return err
		}
	} else {
		p.model.Start = p.started(ctx)
	}
	switch p.found.Window = p.model.Window; {
	case err != nil:
		p.addMissing(MissingWindow, reason(err))
	case p.found.Window == 0:
		p.addMissing(MissingWindow, "/v1/models lists the model without max_model_len")
	}
	return nil
}
