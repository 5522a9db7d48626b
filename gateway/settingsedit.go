package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/openai"
)

// SettingsEditor changes the live settings of all replicas, and shows their history; [settings.Store] implements it. It is
// safe for concurrent use, and waits as long as ctx allows. Its errors match *[settings.RefusedError], or come from Redis.
type SettingsEditor interface {
	// Set sets and unsets settings, by name or name@route, all or none.
	Set(ctx context.Context, o settings.Edit, set map[string]string, unset []string) (settings.Result, error)
	// Rollback restores the settings after a version; 0 means no settings.
	Rollback(ctx context.Context, o settings.Edit, version int64) (settings.Result, error)
	// History calls yield with the changes, the newest first, until it returns false.
	History(ctx context.Context, yield func(settings.Entry) bool) error
}

// settingsEditResult is the answer to an edit.
type settingsEditResult struct {
	settings.Result
	DryRun   bool     `json:"dry_run"`
	Problems []string `json:"problems,omitempty"` // dry run: problems that would refuse the whole edit
}

const (
	maxHistory      = 500
	defaultHistory  = 50
	maxWhy          = 256 // bytes
	settingsTimeout = 15 * time.Second
)

var (
	errSettingsReadOnly = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: "The Redis user of this replica can only read settings. Set redis.settings_url to a user who can write them, or use foregate settings.", Type: "permission_error", Code: "settings_read_only",
	}}
	errNoSettings = &problem{status: http.StatusServiceUnavailable, retryable: true, retry: 2 * time.Second, body: openai.ErrorBody{
		Message: "Redis does not answer, so settings cannot be read or changed. When it answers again, the history shows whether this change was applied.", Type: "server_error", Code: "no_settings",
	}}
)

// settingsEditRoutes are the routes that change settings. Without a SettingsEditor, the history is empty.
func (g *Gateway) settingsEditRoutes(r chi.Router) {
	if g.opts.SettingsEditor == nil {
		r.Get("/admin/settings/log", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, map[string]any{"entries": []settings.Entry{}})
		})
		return
	}
	r.Post("/admin/settings", g.handleSettingsEdit(func(ctx context.Context, o *settingsEditRequest) (settings.Result, error) {
		if len(o.Set) == 0 && len(o.Unset) == 0 {
			return settings.Result{}, badParam("set", "give settings in set, or names in unset")
		}
		return g.opts.SettingsEditor().Set(ctx, o.edit(), o.Set, o.Unset)
	}))
	r.Post("/admin/settings/rollback", g.handleSettingsEdit(func(ctx context.Context, o *settingsEditRequest) (settings.Result, error) {
		if o.Version == nil || *o.Version < 0 {
			return settings.Result{}, badParam("version", "give the version of an entry of the history; 0 is nothing set")
		}
		edit := o.edit()
		edit.Why = cmp.Or(edit.Why, fmt.Sprintf("back to version %d", *o.Version))
		return g.opts.SettingsEditor().Rollback(ctx, edit, *o.Version)
	}))
	r.Get("/admin/settings/log", g.settingsLog)
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

func (o *settingsEditRequest) edit() settings.Edit {
	return settings.Edit{Who: o.operator, Why: o.Why, DryRun: o.DryRun}
}

// handleSettingsEdit handles one kind of edit, even if the client disconnects.
func (g *Gateway) handleSettingsEdit(do func(context.Context, *settingsEditRequest) (settings.Result, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o, err := g.readSettingsEdit(w, r)
		if err != nil {
			writeProblem(w, g.actionProblem(err))
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), settingsTimeout)
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
			g.writeSettingsProblem(w, err)
			return
		}
		writeJSON(w, answer)
	}
}

// readSettingsEdit reads an edit strictly: a misspelt field could mean another change.
func (g *Gateway) readSettingsEdit(w http.ResponseWriter, r *http.Request) (*settingsEditRequest, error) {
	if g.guard.operators == nil {
		return nil, errReadOnly
	}
	if _, err := query(r.URL.RawQuery, nil); err != nil {
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
		return nil, invalid(http.StatusBadRequest, "bad_body", `Want one JSON object: {"set": {NAME: VALUE as text}, "unset": [NAME], "why": TEXT, "dry_run": true|false}, or {"version": N, …} to roll back.`)
	}
	if len(o.Why) > maxWhy || !utf8.ValidString(o.Why) || strings.ContainsFunc(o.Why, unicode.IsControl) {
		return nil, badParam("why", fmt.Sprintf("want at most %d bytes of text in one line", maxWhy))
	}
	o.operator = callerOf(r).name()
	return &o, nil
}

// writeSettingsProblem answers an edit that failed. Problems with settings are listed one by one.
func (g *Gateway) writeSettingsProblem(w http.ResponseWriter, err error) {
	var refused *settings.RefusedError
	switch {
	case errors.As(err, &refused):
		writeJSONStatus(w, http.StatusUnprocessableEntity, map[string]any{
			"error":    map[string]string{"message": refused.Error(), "type": "invalid_request_error", "code": "settings_refused"},
			"problems": refused.Problems,
		})
	case settings.IsForbidden(err):
		writeProblem(w, errSettingsReadOnly)
	default:
		p := problemOf(err)
		if p == errPanic {
			p = errNoSettings
		}
		writeProblem(w, p)
	}
}

// settingsLog answers GET /admin/settings/log?n=.
func (g *Gateway) settingsLog(w http.ResponseWriter, r *http.Request) {
	n, err := historyLength(r.URL.RawQuery)
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), settingsTimeout)
	defer cancel()
	entries := []settings.Entry{}
	err = g.opts.SettingsEditor().History(ctx, func(e settings.Entry) bool {
		entries = append(entries, e)
		return len(entries) < n
	})
	if err != nil {
		g.writeSettingsProblem(w, err)
		return
	}
	writeJSON(w, map[string]any{"entries": entries})
}

func historyLength(raw string) (int, error) {
	q, err := query(raw, []string{"n"})
	if err != nil {
		return 0, err
	}
	return count(q, defaultHistory, maxHistory)
}
