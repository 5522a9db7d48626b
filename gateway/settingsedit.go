package gateway

import (
	"bytes"
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

	"github.com/foregate/foregate/tiers/openai"
)

// SettingsEditor changes the live settings of all replicas, and shows their history. It is safe for
// concurrent use, and waits as long as ctx allows. Its errors match *SettingsRejected or ErrSettingsReadOnly,
// or come from Redis.
type SettingsEditor interface {
	// Change sets and unsets settings, all or none.
	Change(ctx context.Context, o SettingsEdit) (SettingsEditResult, error)
	// Rollback restores the settings after a version; 0 means no settings.
	Rollback(ctx context.Context, o SettingsEdit, version int64) (SettingsEditResult, error)
	// History returns the last n changes, the newest first.
	History(ctx context.Context, n int) ([]SettingsLogEntry, error)
}

// SettingsEdit is a change of settings with its author and its reason.
type SettingsEdit struct {
	Who, Why string
	Set      map[string]string // by name or name@route
	Unset    []string
	DryRun   bool // only report what would change
}

// SettingsEditResult is the result of an edit or of its dry run.
type SettingsEditResult struct {
	Version int64           `json:"version"` // of the settings afterwards; 0: nothing was written
	DryRun  bool            `json:"dry_run"`
	Changes []SettingChange `json:"changes"` // empty: the settings already have these values
	Found   []SettingChange `json:"found"`   // changes that were made without the log before, and are logged now
	Notes   []string        `json:"notes"`   // what the operator should know about the new settings

	Problems []string `json:"problems,omitempty"` // dry run: problems that would refuse the whole edit
}

// SettingChange is the change of one setting; null means not set.
type SettingChange struct {
	Name string  `json:"name"`
	Old  *string `json:"old"`
	New  *string `json:"new"`
}

// SettingsLogEntry is one change in the history.
type SettingsLogEntry struct {
	ID      string          `json:"id"`
	Version int64           `json:"version"`
	When    time.Time       `json:"when"`
	Who     string          `json:"who"`
	Why     string          `json:"why"`
	Changes []SettingChange `json:"changes"`
}

// SettingsRejected lists the problems of an edit, one line for each setting. Nothing was changed.
type SettingsRejected struct{ Problems []string }

// Error returns all lines.
func (e *SettingsRejected) Error() string { return strings.Join(e.Problems, "\n") }

// ErrSettingsReadOnly means that this replica's Redis user may not write settings.
var ErrSettingsReadOnly = errors.New("the Redis user may only read settings")

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
			writeJSON(w, map[string]any{"entries": []SettingsLogEntry{}})
		})
		return
	}
	r.Post("/admin/settings", g.handleSettingsEdit(func(ctx context.Context, o *settingsEditRequest) (SettingsEditResult, error) {
		if len(o.Set) == 0 && len(o.Unset) == 0 {
			return SettingsEditResult{}, badParam("set", "give settings in set, or names in unset")
		}
		return g.opts.SettingsEditor.Change(ctx, o.edit())
	}))
	r.Post("/admin/settings/rollback", g.handleSettingsEdit(func(ctx context.Context, o *settingsEditRequest) (SettingsEditResult, error) {
		if o.Version == nil || *o.Version < 0 {
			return SettingsEditResult{}, badParam("version", "give the version of an entry of the history; 0 is nothing set")
		}
		return g.opts.SettingsEditor.Rollback(ctx, o.edit(), *o.Version)
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

func (o *settingsEditRequest) edit() SettingsEdit {
	return SettingsEdit{Who: o.operator, Why: o.Why, Set: o.Set, Unset: o.Unset, DryRun: o.DryRun}
}

// handleSettingsEdit handles one kind of edit, even if the client disconnects.
func (g *Gateway) handleSettingsEdit(do func(context.Context, *settingsEditRequest) (SettingsEditResult, error)) http.HandlerFunc {
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
		var refused *SettingsRejected
		if o.DryRun && errors.As(err, &refused) { // a dry run reports problems as its result
			result, err = SettingsEditResult{Changes: []SettingChange{}, Found: []SettingChange{}, Notes: []string{}, Problems: refused.Problems}, nil
		}
		if err != nil {
			g.writeSettingsProblem(w, err)
			return
		}
		result.DryRun = o.DryRun
		writeJSON(w, result)
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
	o.operator = callerOf(r).author()
	return &o, nil
}

// writeSettingsProblem answers an edit that failed. Problems with settings are listed one by one.
func (g *Gateway) writeSettingsProblem(w http.ResponseWriter, err error) {
	var refused *SettingsRejected
	switch {
	case errors.As(err, &refused):
		writeJSONStatus(w, http.StatusUnprocessableEntity, map[string]any{
			"error":    map[string]string{"message": refused.Error(), "type": "invalid_request_error", "code": "settings_refused"},
			"problems": refused.Problems,
		})
	case errors.Is(err, ErrSettingsReadOnly):
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
	entries, err := g.opts.SettingsEditor.History(ctx, n)
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
