package gateway

import (
	"errors"
	"net/http"
	"time"
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

var errReloadLate = refuse("reload_late", "The files were not read in time. The log and GET /admin/status tell what is in force.").after(2 * time.Second)

// reload handles POST /admin/reload?dry_run=1, even if the client disconnects.
func (g *Gateway) reload(_ http.ResponseWriter, r *http.Request) (any, error) {
	q, err := query(r, "dry_run")
	if err != nil {
		return nil, err
	}
	dryRun := q.Get("dry_run")
	if q.Has("dry_run") && dryRun != "0" && dryRun != "1" {
		return nil, badParam("dry_run", "want 1 or 0")
	}
	ctx, cancel := untilDone(r, ReloadTimeout)
	defer cancel()
	result, err := g.opts.Replica.Reload(ctx, dryRun == "1")
	result.Changes, result.Restart = append([]string{}, result.Changes...), append([]string{}, result.Restart...) // none is [], not null
	if dryRun != "1" {
		g.logAction(r, "reload", err).Int("changes", len(result.Changes)).Strs("restart", result.Restart).Int("problems", len(result.Problems)).
			Bool("done", err == nil && len(result.Problems) == 0).Msg("operator action")
	}
	switch {
	case errors.Is(err, ErrNoConfigFile):
		return nil, err
	case err != nil:
		return nil, errReloadLate
	case len(result.Problems) > 0:
		p := refuse("reload_refused", result.Problems[0])
		p.more = map[string]any{"dry_run": result.DryRun, "changes": result.Changes, "restart_required": result.Restart, "problems": result.Problems}
		return nil, p
	}
	return result, nil
}
