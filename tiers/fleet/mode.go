package fleet

// Mode is the degradation level of this replica: how far it can rely on shared state.
type Mode int

// The modes, from the lowest to the highest level of sharing.
const (
	Local    Mode = iota // alone: no Redis, or no successful heartbeat for 1.5 s; it owns every backend
	Degraded             // not every tick succeeds; the members are those of at most 1.5 s ago
	Shared               // the members are those of the last tick
)

// modes lists all modes, for the gauge.
var modes = []Mode{Local, Degraded, Shared}

// String is the mode's name in metrics and logs.
func (m Mode) String() string {
	switch m {
	case Shared:
		return "shared"
	case Degraded:
		return "degraded"
	default:
		return "local"
	}
}
