package gateway

// TargetsView shows the target pools of a route that has several of them.
type TargetsView struct {
	Route   string       `json:"route"`
	Targets []TargetView `json:"targets"` // the one in force first
}

// TargetView is a target pool of a route.
type TargetView struct {
	Pool             string            `json:"pool"`
	Share            float64           `json:"share"`                       // of the route's conversations, 0 … 1
	Diverted         bool              `json:"diverted,omitempty"`          // it takes no requests now, so the first target answers its conversations
	UnavailableModes []UnavailableView `json:"unavailable_modes,omitempty"` // modes that its engines do not allow, and those of the first target do
}
