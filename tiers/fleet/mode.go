package fleet

// Mode is the degradation level of this replica: how far it can rely on what replicas share.
type Mode int

// The modes, from the one with the least to the one with the most of Redis in it.
const (
	Local    Mode = iota // alone: no Redis, or no heartbeat that it took for 1.5 s; every backend is mine
	Degraded             // not every tick goes well; the members of up to 1.5 s ago are believed
	Shared               // the members are those of the last tick
)

// modes are all of them, for the gauge.
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
