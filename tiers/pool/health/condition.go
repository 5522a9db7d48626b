package health

// Condition is what is wrong with a backend, in logs and status.
type Condition string

// The conditions. A Silent or Hung backend is suspect.
const (
	Well   Condition = "well"
	Silent Condition = "answers nothing"
	Hung   Condition = "stands still"
	Frozen Condition = "its metrics stand still, it answers"
	Lying  Condition = "its KV usage never changes"
	Shared Condition = "several engines answer at its address; give each an address of its own"
)

// Condition returns the first condition that holds.
func (v *Monitor) Condition() Condition {
	switch {
	case v.IsSilent():
		return Silent
	case v.IsSuspect():
		return Hung
	case v.stuck, v.frozen:
		return Frozen
	case v.lying:
		return Lying
	case v.IsShared(v.last.At):
		return Shared
	}
	return Well
}
