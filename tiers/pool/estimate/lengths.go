package estimate

const (
	// meanOutputDefault is the length in tokens of answers before any was seen: about the
	// mean of public conversation traces.
	meanOutputDefault = 200.0
	// Kinds is how many kinds of answers are told apart. Two that share a place are
	// taken for one.
	Kinds = 256
	// knownFrom is after how many answers a kind speaks for itself alone.
	knownFrom = 32
	// mostlyFull is the share of answers that end at their limit from which the limit is
	// the best guess.
	mostlyFull = 0.75
	// like is how many times the mean a limit may be for that: where short answers were
	// cut, it says nothing of a limit that is a thousand times as long.
	like = 4
)

// Outputs are the lengths of answers: of all, and by kind. Requests with the same
// system prompt are of one kind: an application's answers are alike in length, and
// those of another may be ten times as long.
type Outputs struct {
	all  lengths
	kind [Kinds]lengths
}

// lengths are mean and spread of the lengths of answers, in tokens, by exponential
// forgetting.
type lengths struct {
	mean, variance float64
	full           float64 // share of the answers with a limit that ended there
	n              int     // answers seen, up to knownFrom
}

// NewOutputs knows nothing yet: lengths of answers are about as far spread as they are
// long.
func NewOutputs() Outputs {
	return Outputs{all: lengths{mean: meanOutputDefault, variance: meanOutputDefault * meanOutputDefault}}
}

// Of is what is to be expected of an answer of a kind that may have at most so many
// tokens, 0 where that is unknown.
func (o *Outputs) Of(kind, limit int) (mean, variance float64) {
	l := o.all
	if kind >= 0 {
		k := &o.kind[kind]
		known := float64(k.n) / knownFrom
		l.mean += (k.mean - l.mean) * known
		l.variance += (k.variance - l.variance) * known
		l.full += (k.full - l.full) * known
	}
	if limit > 0 && (float64(limit) < l.mean || l.full >= mostlyFull && float64(limit) <= like*l.mean) {
		return float64(limit), 0
	}
	return l.mean, l.variance
}

// Learn takes in that an answer which might have had so many tokens at most, 0 is
// unknown, had n.
func (o *Outputs) Learn(kind, limit, n int) {
	o.all.learn(limit, n)
	if kind < 0 {
		return
	}
	k := &o.kind[kind]
	if k.n == 0 {
		*k = o.all
		k.mean, k.n = float64(n), 0
	}
	k.n = min(k.n+1, knownFrom)
	k.learn(limit, n)
}

// learn moves what is known by one answer. One that was cut short of the mean says
// nothing of how long it would have been.
func (l *lengths) learn(limit, n int) {
	cut := limit > 0 && n >= limit
	if off := float64(n) - l.mean; !cut || off > 0 {
		l.mean += off * averageShare
		l.variance += (off*off - l.variance) * averageShare
	}
	if limit == 0 {
		return
	}
	full := 0.0
	if cut {
		full = 1
	}
	l.full += (full - l.full) * averageShare
}
