package budgets

import (
	_ "embed" // the script
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/redis/script"
)

// keyBeats is a hash about all budgets: beat counts the calls of the script, since is when Redis was last found to
// have lost data, in ms of its clock. It has no expiry.
const keyBeats = "foregate:{fg}:budgets"

// keyWindow plus a window's name and its tenant is a hash: one field per replica process with its part, and the
// field folded with the parts of processes that are gone. It expires an hour after the end of the window.
const keyWindow = "foregate:{fg}:budget:"

// expiry is how long a window is kept after its end: for requests that began in it.
const expiry = time.Hour

// keyOf returns the key of a tenant's window. The name of the window has no colon, so no two tenants share a key.
func keyOf(tenant string, per identity.Period, begin time.Time) string {
	layout := map[identity.Period]string{identity.Hour: "2006-01-02T15", identity.Day: "2006-01-02", identity.Month: "2006-01"}[per]
	return keyWindow + begin.Format(layout) + ":" + tenant
}

// The script's first key is keyBeats, the others are windows.
var (
	//go:embed budget.lua
	budgetSource string
	budgetScript = script.New(budgetSource)
)
