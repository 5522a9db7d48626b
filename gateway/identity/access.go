package identity

import "strings"

// Access is which models a tenant may use. It is immutable. A nil Access allows every model.
type Access struct {
	Models []string // names of routes, or beginnings of names that end with *; none: every model
}

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
