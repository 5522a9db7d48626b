package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/tiers/openai"
)

// ReloadResult is the result of a reload, or of its dry run.
type ReloadResult struct {
	DryRun  bool     `json:"dry_run"`
	Changes []string `json:"changes"`          // what is new in force, such as "pools.draft: changed"
	Restart []string `json:"restart_required"` // fields of the file whose new values are in force only after a restart
	// Problems are mistakes, one per line of a file: "config:12: pools.draft.model: …". A file with one is not in force;
	// its last valid content is. A dry run names the first file only.
	Problems []string `json:"problems,omitempty"`
}

// ErrNoConfigFile means that the replica was not started with a configuration file.
var ErrNoConfigFile = errors.New("there is no configuration file")

// ReloadTimeout bounds a reload: all files are read, and new pools find their backends.
const ReloadTimeout = 30 * time.Second

var errNoConfigFile = &problem{status: http.StatusConflict, body: openai.ErrorBody{
	Message: "This replica was not started with a configuration file, so there is nothing to read again.", Type: "invalid_request_error", Code: "no_config_file",
}}

var errReloadLate = &problem{status: http.StatusServiceUnavailable, retryable: true, retry: 2 * time.Second, body: openai.ErrorBody{
	Message: "The files were not read in time. The log and GET /admin/status tell what is in force.", Type: "server_error", Code: "reload_late",
}}

// reloadRoutes are the routes of a gateway with a Reload.
func (g *Gateway) reloadRoutes(r chi.Router) {
	if g.opts.Reload != nil {
		r.Post("/admin/reload", g.reload)
	}
}

// reload handles POST /admin/reload?dry_run=1, even if the client disconnects.
func (g *Gateway) reload(w http.ResponseWriter, r *http.Request) {
	q, err := query(r.URL.RawQuery, []string{"dry_run"})
	if err != nil {
		writeProblem(w, problemOf(err))
		return
	}
	dryRun := q.Get("dry_run")
	if q.Has("dry_run") && dryRun != "0" && dryRun != "1" {
		writeProblem(w, problemOf(badParam("dry_run", "want 1 or 0")))
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), ReloadTimeout)
	defer cancel()
	result, err := g.opts.Reload(ctx, dryRun == "1")
	result.Changes, result.Restart = append([]string{}, result.Changes...), append([]string{}, result.Restart...) // none is [], not null
	if dryRun != "1" {
		g.logAction(r, "reload", err).Int("changes", len(result.Changes)).Strs("restart", result.Restart).Int("problems", len(result.Problems)).
			Bool("done", err == nil && len(result.Problems) == 0).Msg("operator action")
	}
	switch {
	case errors.Is(err, ErrNoConfigFile):
		writeProblem(w, errNoConfigFile)
	case err != nil:
		writeProblem(w, errReloadLate)
	case len(result.Problems) > 0:
		writeJSONStatus(w, http.StatusUnprocessableEntity, map[string]any{
			"error":            map[string]string{"message": result.Problems[0], "type": "invalid_request_error", "code": "reload_refused"},
			"dry_run":          result.DryRun,
			"changes":          result.Changes,
			"restart_required": result.Restart,
			"problems":         result.Problems,
		})
	default:
		writeJSON(w, result)
	}
}
