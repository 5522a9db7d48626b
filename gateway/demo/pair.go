package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// Pair are two engines that run already; the demo starts none then.
type Pair struct{ Draft, Target Engine }

// Engine is an engine that runs already.
type Engine struct {
	URL        string  // http or https; a path /v1 is left out
	Model      string  // "": the only one that it lists
	KeyFile    string  // one line: its API key; "" is none
	USDPerHour float64 // above 0
}

const (
	modelsTimeout = 5 * time.Second
	maxLoading    = 30 * time.Second       // how long an engine that loads its model is waited for
	loadingPause  = 200 * time.Millisecond // between two questions
	maxModelsBody = 1 << 20                // bytes of GET /v1/models
	maxModelName  = 200                    // bytes
)

// Find checks a pair, and finds the models that are not named. An error is one line that begins with the flag that is
// to be changed.
func (p Pair) Find(ctx context.Context) (Pair, error) {
	if p.Draft.URL == "" || p.Target.URL == "" {
		missing, given := "--draft", "--target"
		if p.Target.URL == "" {
			missing, given = given, missing
		}
		return Pair{}, fmt.Errorf("%s is missing: %s needs both URLs", missing, given)
	}
	draft, err := p.Draft.find(ctx, "--draft")
	if err != nil {
		return Pair{}, err
	}
	target, err := p.Target.find(ctx, "--target")
	if err != nil {
		return Pair{}, err
	}
	if draft.URL == target.URL && draft.Model == target.Model {
		return Pair{}, fmt.Errorf("--target: %s with model %s is the draft, too; use another engine, or another --target-model", target.URL, target.Model)
	}
	return Pair{draft, target}, nil
}

// find returns the engine with a plain URL and the name of its model. flag is what sets its URL.
func (e Engine) find(ctx context.Context, flag string) (Engine, error) {
	u, err := plainURL(e.URL)
	if err != nil {
		return Engine{}, fmt.Errorf("%s: %w", flag, err)
	}
	e.URL = u
	if e.USDPerHour <= 0 {
		return Engine{}, fmt.Errorf("%s-usd-per-hour must be above 0, but is %g", flag, e.USDPerHour)
	}
	names, err := e.models(ctx)
	switch {
	case err != nil:
		return Engine{}, fmt.Errorf("%s: %w", flag, err)
	case len(names) == 0:
		return Engine{}, fmt.Errorf("%s: %s/v1/models lists no model; load or pull one first", flag, e.URL)
	case e.Model == "" && len(names) > 1:
		return Engine{}, fmt.Errorf("%s: %s has several models; choose one with %s-model: %s", flag, e.URL, flag, strings.Join(names, ", "))
	case e.Model != "" && !slices.Contains(names, e.Model):
		return Engine{}, fmt.Errorf("%s-model: %s has no model %q, only %s", flag, e.URL, e.Model, strings.Join(names, ", "))
	}
	e.Model = cmp.Or(e.Model, names[0])
	return e, nil
}

// plainURL returns scheme and host of an engine's URL.
func plainURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("%q is not a URL such as http://127.0.0.1:8081", text)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%q has more than scheme, host and port; a key belongs into a file", u.Redacted())
	case !slices.Contains([]string{"", "/v1"}, strings.TrimRight(u.Path, "/")):
		return "", fmt.Errorf("%q has the path %s; give the address alone, as the gateway adds /v1/…", text, u.Path)
	}
	return u.Scheme + "://" + u.Host, nil
}

// errLoading says that an engine loads its model: llama.cpp's server answers 503 until it has.
var errLoading = errors.New("503 Service Unavailable: it may still load its model")

// models asks the engine which models it has. One that loads its model is asked again.
func (e Engine) models(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLoading)
	defer cancel()
	for {
		names, err := e.askModels(ctx)
		if !errors.Is(err, errLoading) {
			return names, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(loadingPause):
		}
	}
}

// askModels asks the engine once.
func (e Engine) askModels(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+"/v1/models", nil)
	if err != nil {
		return nil, err
	}
	if e.KeyFile != "" {
		key, err := os.ReadFile(e.KeyFile)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without method and URL
		}
		return nil, fmt.Errorf("no engine answers at %s: %w", e.URL, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModelsBody))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s/v1/models: %w", e.URL, err)
	case resp.StatusCode == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("%s/v1/models answers %w", e.URL, errLoading)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s/v1/models answers %s", e.URL, resp.Status)
	}
	names, err := modelNames(body)
	if err != nil {
		return nil, fmt.Errorf("%s/v1/models is no list of models as OpenAI's API has it: %w", e.URL, err)
	}
	return names, nil
}

// modelNames reads an answer of GET /v1/models.
func modelNames(body []byte) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, m := range list.Data {
		if m.ID == "" || len(m.ID) > maxModelName || strings.ContainsFunc(m.ID, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) {
			return nil, fmt.Errorf("%.50q is no name of a model", m.ID)
		}
		names = append(names, m.ID)
	}
	return names, nil
}

// config is the configuration that an operator of such engines would write.
func (p Pair) config(route string) []byte {
	pool := func(name string, e Engine) string {
		auth := ""
		if e.KeyFile != "" {
			auth = fmt.Sprintf(", auth: {api_key_file: %q}", e.KeyFile)
		}
		return fmt.Sprintf("  %s: {model: %q, usd_per_hour: %g, backends: [%q]%s}\n", name, e.Model, e.USDPerHour, e.URL, auth)
	}
	return fmt.Appendf(nil, `
listen: 127.0.0.1:0
pools:
%s%sroutes:
  - {model: %s, draft: %s, target: %s}
drain: {delay: 0s, grace: %s}
`, pool(pairDraft, p.Draft), pool(pairTarget, p.Target), route, pairDraft, pairTarget, drainGrace)
}
