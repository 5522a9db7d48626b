package identity

import (
	"strings"
	"time"
)

// Access is which models a tenant may use, and how much it may spend. It is immutable. A nil Access allows every
// model, has no budget, lets no request leave for fallbacks, and puts no content into traces.
type Access struct {
	Models  []string // names of routes, or beginnings of names that end with *; none: every model
	Budgets []Budget // all of them hold; no two have the same unit and period

	External     bool // its requests may be answered by fallbacks outside of the operator's own pools
	Forget       bool // its answers in the Responses API are not stored
	TraceContent bool // its requests are traced, with what they ask and what they are answered
}

// Period is the length of a budget's window. Windows are those of the UTC calendar.
type Period string

// The periods.
const (
	Hour  Period = "hour"
	Day   Period = "day"
	Month Period = "month"
)

// Window returns the begin and the end of the window that contains now.
func (p Period) Window(now time.Time) (begin, end time.Time) {
	now = now.UTC()
	year, month, day := now.Date()
	switch p {
	case Hour:
		begin = time.Date(year, month, day, now.Hour(), 0, 0, 0, time.UTC)
		return begin, begin.Add(time.Hour)
	case Month:
		return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	default:
		begin = time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		return begin, begin.AddDate(0, 0, 1)
	}
}

// Budget is what a tenant may spend in each window: either tokens or dollars.
type Budget struct {
	Tokens     int64 // of prompts and answers; 0: the budget is in dollars
	NanoUSD    int64 // 1e-9 USD; 0: the budget is in tokens
	Per        Period
	DenyOnLoss bool // without Redis, refuse; otherwise continue with a share
}

// HasBudgets reports whether the tenant has a budget.
func (a *Access) HasBudgets() bool { return a != nil && len(a.Budgets) > 0 }

// MayLeave reports whether the tenant's requests may be answered outside of the operator's own pools.
func (a *Access) MayLeave() bool { return a != nil && a.External }

// Forgets reports whether the answers of a tenant are not stored.
func (a *Access) Forgets() bool { return a != nil && a.Forget }

// Traced reports whether the tenant's requests are traced with their content.
func (a *Access) Traced() bool { return a != nil && a.TraceContent }

// Allows reports whether the tenant may use the route with this name. The route need not exist.
func (a *Access) Allows(model string) bool {
	if a == nil || len(a.Models) == 0 {
		return true
	}
	for _, pattern := range a.Models {
		if MatchModel(pattern, model) {
			return true
		}
	}
	return false
}

// MatchModel reports whether a pattern covers a model: it is the model's name, or it ends with * and the name
// begins with the rest.
func MatchModel(pattern, model string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(model, prefix)
	}
	return pattern == model
}
