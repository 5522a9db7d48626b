package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/internal/words"
	"github.com/foregate/foregate/tiers/dialect"
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
	switch {
	case p.Draft.URL == "":
		return Pair{}, errors.New("--draft is missing: --target needs both URLs")
	case p.Target.URL == "":
		return Pair{}, errors.New("--target is missing: --draft needs both URLs")
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
	u, err := config.BackendURL(strings.TrimSuffix(strings.TrimRight(e.URL, "/"), "/v1"))
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

// models asks the engine which models it has. One that loads its model is asked again: llama.cpp's server answers 503 until
// it has.
func (e Engine) models(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLoading)
	defer cancel()
	for {
		status, body, err := e.askModels(ctx)
		switch at := e.URL + dialect.ModelsPath; {
		case err != nil:
			return nil, err
		case status == http.StatusServiceUnavailable:
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("%s answers 503 Service Unavailable: it may still load its model", at)
			case <-time.After(loadingPause):
				continue
			}
		case status != http.StatusOK:
			return nil, fmt.Errorf("%s answers %d %s", at, status, http.StatusText(status))
		}
		list, err := dialect.ParseModels(body)
		if err != nil {
			return nil, fmt.Errorf("%s%s is no list of models as OpenAI's API has it: %w", e.URL, dialect.ModelsPath, err)
		}
		var names []string
		for _, m := range list {
			if m.ID == "" || len(m.ID) > maxModelName || words.Printable(m.ID) != m.ID {
				return nil, fmt.Errorf("%.50q is no name of a model", m.ID)
			}
			names = append(names, m.ID)
		}
		return names, nil
	}
}

// askModels asks the engine once, for at most modelsTimeout.
func (e Engine) askModels(ctx context.Context) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+dialect.ModelsPath, nil)
	if err != nil {
		return 0, nil, err
	}
	if e.KeyFile != "" {
		key, err := os.ReadFile(e.KeyFile)
		if err != nil {
			return 0, nil, err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without method and URL
		}
		return 0, nil, fmt.Errorf("no engine answers at %s: %w", e.URL, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxModelsBody))
	return resp.StatusCode, body, err
}

// config is the configuration that an operator of such engines would write.
func (p Pair) config() []byte {
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
`, pool(pairPools[0], p.Draft), pool(pairPools[1], p.Target), pairRoute, pairPools[0], pairPools[1], drainGrace)
}
