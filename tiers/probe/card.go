package probe

import (
	"context"
	"encoding/json"
	"net/http"
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

// parseCards reads an answer of /v1/models. The error is an *unreadable.
func parseCards(body []byte) ([]modelCard, error) {
	var w struct {
		Data []struct {
			ID      string          `json:"id"`
			Root    string          `json:"root"`
			Parent  string          `json:"parent"`
			Window  int             `json:"max_model_len"`
			Aliases json.RawMessage `json:"aliases"` // llama.cpp's
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, &unreadable{"the answer of /v1/models cannot be read: " + line(err.Error())}
	}
	cards := make([]modelCard, len(w.Data))
	for i, d := range w.Data {
		var aliases []string
		_ = json.Unmarshal(d.Aliases, &aliases) // of another shape there are none
		cards[i] = modelCard{ID: d.ID, Root: d.Root, Parent: d.Parent, Aliases: strings.Join(aliases, "\n"), Window: d.Window}
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

// pickCard returns the card of a model. The error is an *unreadable.
func pickCard(cards []modelCard, model string) (modelCard, error) {
	at := cardOf(cards, model)
	if at < 0 {
		return modelCard{}, &unreadable{"/v1/models does not list " + line(strconv.Quote(model))}
	}
	return cards[at], nil
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
// The error is an *unreadable.
func parseProps(body []byte) (window int, start string, err error) {
	var w struct {
		Settings struct {
			Window int `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Marker json.RawMessage `json:"media_marker"` // drawn at each start
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return 0, "", &unreadable{"the answer of /props cannot be read: " + line(err.Error())}
	}
	if w.Settings.Window <= 0 {
		return 0, "", &unreadable{"/props tells no n_ctx"}
	}
	_ = json.Unmarshal(w.Marker, &start) // of another type it is none
	return w.Settings.Window, line(start), nil
}

// startTime is the metric of Python's client that tells when the process was started.
var startTime = regexp.MustCompile(`(?m)^process_start_time_seconds (\S{1,32})\s*$`)

// started returns when the engine says that it was started, "" if it does not.
func (e *probeRun) started(ctx context.Context) string {
	if !e.dialect().Load.Reads() {
		return ""
	}
	body, err := e.send(ctx, http.MethodGet, "/metrics", nil)
	if told := startTime.FindSubmatch(body); err == nil && told != nil {
		return string(told[1])
	}
	return ""
}

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
	if e.dialect().Window == dialect.WindowProps {
		return e.props(ctx)
	}
	e.model.Start = e.started(ctx)
	switch {
	case err != nil:
		e.addMissing(MissingWindow, err.Error())
	case e.found.Window == 0:
		e.addMissing(MissingWindow, "/v1/models lists the model without max_model_len")
	}
	return nil
}

// props reads the context length of a request from llama.cpp.
func (e *probeRun) props(ctx context.Context) error {
	n, start := 0, ""
	body, err := e.send(ctx, http.MethodGet, "/props", nil)
	if err == nil {
		n, start, err = parseProps(body)
	}
	switch {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingWindow, "/props: "+err.Error())
	default:
		e.found.Window, e.model.Window, e.model.Start = n, n, start
	}
	return nil
}
