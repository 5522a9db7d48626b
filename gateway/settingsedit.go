package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/foregate/foregate/gateway/settings"
)

// settingsEditResult is the answer to an edit.
type settingsEditResult struct {
	settings.Result
	DryRun   bool     `json:"dry_run"`
	Problems []string `json:"problems,omitempty"` // dry run: problems that would refuse the whole edit
}

const (
	maxHistory      = 500
	defaultHistory  = 50
	settingsTimeout = 15 * time.Second
)

var (
	errSettingsReadOnly = refuse("settings_read_only", "The Redis user of this replica can only read settings. Set redis.settings_url to a user who can write them, or use foregate settings.")
	errNoSettings       = refuse("no_settings", "Redis does not answer, so settings cannot be read or changed. When it answers again, the history shows whether this change was applied.").after(2 * time.Second)
)

// setSettings sets and unsets.
func (g *Gateway) setSettings(ctx context.Context, o *settingsEditRequest) (settings.Result, error) {
	if len(o.Set) == 0 && len(o.Unset) == 0 {
		return settings.Result{}, badParam("set", "give settings in set, or names in unset")
	}
	return g.opts.Replica.SettingsStore().Set(ctx, o.edit(), o.Set, o.Unset)
}

// rollbackSettings restores the settings after a version.
func (g *Gateway) rollbackSettings(ctx context.Context, o *settingsEditRequest) (settings.Result, error) {
	if o.Version == nil || *o.Version < 0 {
		return settings.Result{}, badParam("version", "give the version of an entry of the history; 0 is nothing set")
	}
	edit := o.edit()
	edit.Why = cmp.Or(edit.Why, fmt.Sprintf("back to version %d", *o.Version))
	return g.opts.Replica.SettingsStore().Rollback(ctx, edit, *o.Version)
}

// settingsEditRequest is the body of an edit.
type settingsEditRequest struct {
	Set     map[string]string `json:"set"`
	Unset   []string          `json:"unset"`
	Version *int64            `json:"version"`
	Why     string            `json:"why"`
	DryRun  bool              `json:"dry_run"`

	operator string // whose token was used
}

func (s *settingsEditRequest) edit() settings.Edit {
	return settings.Edit{Who: s.operator, Why: s.Why, DryRun: s.DryRun}
}

// settingsEdit makes one kind of edit, even if the client disconnects.
func (g *Gateway) settingsEdit(do func(context.Context, *settingsEditRequest) (settings.Result, error)) adminHandler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		o, err := g.readSettingsEdit(w, r)
		if err != nil {
			return nil, err
		}
		ctx, cancel := untilDone(r, settingsTimeout)
		defer cancel()
		result, err := do(ctx, o)
		if !o.DryRun {
			g.logAction(r, "settings", err).Str("why", o.Why).Int64("version", result.Version).Bool("done", err == nil).Msg("operator action")
		}
		answer := settingsEditResult{Result: result.WithLists(), DryRun: o.DryRun}
		if refused, ok := errors.AsType[*settings.RefusedError](err); ok && o.DryRun { // a dry run reports problems as its result
			answer.Problems, err = refused.Problems, nil
		}
		if err != nil {
			return nil, settingsProblem(err)
		}
		return answer, nil
	}
}

// readSettingsEdit reads an edit strictly: a misspelt field could mean another change.
func (g *Gateway) readSettingsEdit(w http.ResponseWriter, r *http.Request) (*settingsEditRequest, error) {
	if g.guard.operators == nil {
		return nil, errReadOnly
	}
	if _, err := query(r); err != nil {
		return nil, err
	}
	body, err := readActionBody(w, r)
	if err != nil {
		return nil, err
	}
	var o settingsEditRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil || d.More() {
		return nil, refuse("bad_body", `Want one JSON object: {"set": {NAME: VALUE as text}, "unset": [NAME], "why": TEXT, "dry_run": true|false}, or {"version": N, …} to roll back.`)
	}
	o.operator = operatorOf(r).label()
	return &o, checkWhy(o.Why)
}

// settingsProblem is the refusal of an edit that failed. Problems with settings are listed one by one.
func settingsProblem(err error) error {
	if refused, ok := errors.AsType[*settings.RefusedError](err); ok {
		p := refuse("settings_refused", refused.Error())
		p.more = map[string]any{"problems": refused.Problems}
		return p
	}
	switch {
	case settings.IsForbidden(err):
		return errSettingsReadOnly
	case problemOf(err) == errPanic:
		return errNoSettings
	}
	return err
}

// settingsLog answers GET /admin/settings/log?n=. Without an editor there is no history.
func (g *Gateway) settingsLog(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := query(r, "n")
	if err != nil {
		return nil, err
	}
	n, err := count(q, defaultHistory, maxHistory)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), settingsTimeout)
	defer cancel()
	entries := []settings.Entry{}
	if editor := g.opts.Replica.SettingsStore(); editor != nil {
		err = editor.History(ctx, func(e settings.Entry) bool {
			entries = append(entries, e)
			return len(entries) < n
		})
	}
	if err != nil {
		return nil, settingsProblem(err)
	}
	return map[string]any{"entries": entries}, nil
}
