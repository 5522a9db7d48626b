package estimate

const (
	// meanOutputDefault is the length in tokens of answers before any was seen: about the
	// mean of public conversation traces.
	meanOutputDefault = 200.0
	// Kinds is the number of slots for kinds of answers. Kinds with the same hash share one.
	Kinds = 256
	// minOwnSamples is the number of answers after which a kind's own mean is used alone.
	minOwnSamples = 32
	// mostlyFull is the share of answers that reach their limit from which the limit is the estimate.
	mostlyFull = 0.75
	// like bounds that rule to limits of at most so many times the mean.
	like = 4
)

// Outputs learns answer lengths: of all answers, and by kind. Requests with the same system prompt are of one kind,
// because an application's answers are alike in length, and those of another may be ten times as long.
type Outputs struct {
	all  lengths
	kind [Kinds]lengths
}

// lengths are the exponentially weighted mean and variance of answer lengths in tokens.
type lengths struct {
	mean, variance float64
	full           float64 // share of the answers with a limit that ended there
	n              int     // answers seen, up to minOwnSamples
}

// NewOutputs returns an Outputs without samples. The initial spread is about the mean.
func NewOutputs() Outputs {
	return Outputs{all: lengths{mean: meanOutputDefault, variance: meanOutputDefault * meanOutputDefault}}
}

// Of returns the expected length of an answer of a kind with the given limit in tokens; limit 0 is unknown.
func (o *Outputs) Of(kind, limit int) (mean, variance float64) {
	l := o.all
	if kind >= 0 {
		k := &o.kind[kind]
		known := float64(k.n) / minOwnSamples
		l.mean += (k.mean - l.mean) * known
		l.variance += (k.variance - l.variance) * known
		l.full += (k.full - l.full) * known
	}
	if limit > 0 && (float64(limit) < l.mean || l.full >= mostlyFull && float64(limit) <= like*l.mean) {
		return float64(limit), 0
	}
	return l.mean, l.variance
}

// Learn adds an answer of n tokens with the given limit; limit 0 is unknown.
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
	k.n = min(k.n+1, minOwnSamples)
	k.learn(limit, n)
}

// learn adds one answer. One that its limit cut below the mean is ignored.
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
