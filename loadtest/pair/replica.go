package pair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/loadtest/process"
)

const (
	poolDraft  = "draft"
	poolTarget = "target"

	routePair = "pair"

	settingsTimeout = 10 * time.Second // for settings to be in force; usually a second
	drainGrace      = 5 * time.Second
	waitingLines    = 15 * time.Second // between two lines about the probe
	adminTimeout    = 30 * time.Second // an import on a busy machine
	noLimit         = 24 * time.Hour   // of a wait whose context has a deadline
)

// replica is one replica in this process, with its Redis.
type replica struct {
	app        *app.App
	stores     stores.Stores
	client     *http.Client
	base       string // URL of requests
	admin      string // URL of the admin listener
	stopStores func()
}

// configOf is the configuration of a replica in front of a pair.
func configOf(p demo.Pair, sameTokenizer bool) []byte {
	type auth struct {
		File string `json:"api_key_file"`
	}
	type pool struct {
		Model    string   `json:"model"`
		Backends []string `json:"backends"`
		Auth     *auth    `json:"auth,omitempty"`
	}
	of := func(e demo.Engine) pool {
		one := pool{Model: e.Model, Backends: []string{e.URL}}
		if e.KeyFile != "" {
			one.Auth = &auth{e.KeyFile}
		}
		return one
	}
	text, err := json.Marshal(map[string]any{ // JSON is YAML
		"listen": "127.0.0.1:0",
		"pools":  map[string]pool{poolDraft: of(p.Draft), poolTarget: of(p.Target)},
		"routes": []any{map[string]any{"model": routePair, "draft": poolDraft, "target": poolTarget, "same_tokenizer": sameTokenizer}},
		"drain":  map[string]string{"delay": "0s", "grace": drainGrace.String()},
	})
	if err != nil {
		panic(err) // all of it is text
	}
	return text
}

// startReplica starts a replica. Its engines are not known yet.
func startReplica(ctx context.Context, o *Options) (*replica, error) {
	r := &replica{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: MaxClients}}, stopStores: func() {}}
	if err := r.start(ctx, o); err != nil {
		r.stopStores()
		return nil, err
	}
	r.base, r.admin = "http://"+r.app.Addr().String(), "http://"+r.app.AdminAddr().String()
	return r, nil
}

// start starts the gateway.
func (r *replica) start(ctx context.Context, o *Options) error {
	file, err := config.Parse("proof-live.yaml", configOf(o.Pair, o.SameTokenizer))
	if err != nil {
		return err
	}
	if r.stores, r.stopStores, err = stores.Open(config.Redis{URL: config.Endpoint{Kind: config.KindEmbedded}}); err != nil {
		r.stopStores = func() {}
		return err
	}
	if r.app, err = app.New(ctx, app.Options{File: file, Stores: r.stores, Admin: "127.0.0.1:0", Version: "proof-live"}); err != nil {
		return err
	}
	return r.app.Start()
}

// stop drains the replica and waits for its end.
func (r *replica) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), drainGrace+time.Second)
	defer cancel()
	r.client.CloseIdleConnections()
	r.app.Stop(ctx)
	r.stopStores()
}

// awaitEngines waits until the capabilities of all engines are known.
func (r *replica) awaitEngines(ctx context.Context, say func(string, ...any)) error {
	began, said := time.Now(), time.Now()
	err := process.Poll(ctx, noLimit, func() bool {
		if time.Since(said) >= waitingLines {
			said = time.Now()
			say("… asking the engines what they can do for %.0f s", said.Sub(began).Seconds())
		}
		return r.app.EnginesKnown()
	})
	if err == nil {
		return nil
	}
	for _, e := range r.app.Status().Engines {
		if e.Age < 0 && e.Failed != "" {
			err = fmt.Errorf("%s: %s", e.Pool, e.Failed)
		}
	}
	return fmt.Errorf("the engines did not answer the probe in time: %w", err)
}

// drafts is how a route uses its draft pool.
func (r *replica) drafts(route string) gateway.DraftView {
	for _, d := range r.app.Status().Drafts {
		if d.Route == route {
			return d
		}
	}
	return gateway.DraftView{}
}

// set puts settings of a route into force.
func (r *replica) set(ctx context.Context, route string, values map[string]string) error {
	pairs := make([]any, 0, 2*len(values))
	for name, v := range values {
		pairs = append(pairs, name+"@"+route, v)
	}
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	var failed error // of a slow machine: it is tried again
	if err := process.Poll(ctx, noLimit, func() bool {
		failed = r.stores.Control.HSet(ctx, "foregate:settings", pairs...).Err()
		return failed == nil
	}); err != nil {
		return fmt.Errorf("settings: %w", errors.Join(failed, err))
	}
	var missing string
	err := process.Poll(ctx, noLimit, func() bool {
		missing = r.missing(ctx, route, values)
		return missing == ""
	})
	if err != nil {
		return fmt.Errorf("the setting %s of route %s did not come into force: %w", missing, route, err)
	}
	return nil
}

// missing is a setting that does not have its value yet, "" if all have.
func (r *replica) missing(ctx context.Context, route string, values map[string]string) string {
	var view struct{ Settings []gateway.SettingView }
	body, err := r.read(ctx, "/admin/settings?route="+url.QueryEscape(route))
	if err == nil {
		err = json.Unmarshal(body, &view)
	}
	if err != nil {
		return err.Error()
	}
	inForce := map[string]string{}
	for _, s := range view.Settings {
		inForce[s.Name] = s.Value
	}
	for name, want := range values {
		if !sameValue(inForce[name+"@"+route], want) && !sameValue(inForce[name], want) {
			return name + "=" + want
		}
	}
	return ""
}

// sameValue reports whether two texts are the same value of a setting: 1m0s is 1m.
func sameValue(a, b string) bool {
	da, errA := time.ParseDuration(a)
	db, errB := time.ParseDuration(b)
	return a == b || errA == nil && errB == nil && da == db
}

// read reads a page of the admin listener.
func (r *replica) read(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.admin+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// receipt returns the receipt of a request, also after ctx has ended. It is kept a moment after the last byte of the answer.
func (r *replica) receipt(ctx context.Context, id string) (*receipt, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
	defer cancel()
	var found receipt
	last := errors.New("it was not looked for")
	err := process.Poll(ctx, noLimit, func() bool {
		body, err := r.read(ctx, "/admin/receipts/"+url.PathEscape(id))
		if err == nil {
			err = json.Unmarshal(body, &found)
		}
		last = err
		return err == nil
	})
	if err != nil {
		return nil, fmt.Errorf("receipt %s: %w", id, last)
	}
	return &found, nil
}
