package pool

const (
	// meanOutputDefault is the length in tokens of answers before any was seen: about the
	// mean of public conversation traces.
	meanOutputDefault = 200.0
	// lengthShare is how much one answer moves what is known of its kind.
	lengthShare = 1.0 / 64
	// kinds is how many kinds of answers are told apart. Two that share a place are
	// taken for one.
	kinds = 256
	// knownFrom is after how many answers a kind speaks for itself alone.
	knownFrom = 32
	// mostlyFull is the share of answers that end at their limit from which the limit is
	// the best guess.
	mostlyFull = 0.75
	// like is how many times the mean a limit may be for that: where short answers were
	// cut, it says nothing of a limit that is a thousand times as long.
	like = 4
)

// outputs are the lengths of answers: of all, and by kind. Requests with the same
// system prompt are of one kind: an application's answers are alike in length, and
// those of another may be ten times as long.
type outputs struct {
	all  lengths
	kind [kinds]lengths
}

// lengths are mean and spread of the lengths of answers, in tokens, by exponential
// forgetting.
type lengths struct {
	mean, variance float64
	full           float64 // share of the answers with a limit that ended there
	n              int     // answers seen, up to knownFrom
}

// newOutputs knows nothing yet: lengths of answers are about as far spread as they are
// long.
func newOutputs() outputs {
	return outputs{all: lengths{mean: meanOutputDefault, variance: meanOutputDefault * meanOutputDefault}}
}

// kindOf is the kind of a request's answer, −1 where its prompt does not tell.
func kindOf(d *Demand) int {
	if first := d.Parts[0]; first.Key != 0 && first.Share < 1 {
		return int(first.Key % kinds)
	}
	return -1
}

// of is what is to be expected of an answer of a kind that may have at most so many
// tokens, 0 where that is unknown.
func (o *outputs) of(kind, most int) (mean, variance float64) {
	l := o.all
	if kind >= 0 {
		k := &o.kind[kind]
		known := float64(k.n) / knownFrom
		l.mean += (k.mean - l.mean) * known
		l.variance += (k.variance - l.variance) * known
		l.full += (k.full - l.full) * known
	}
	if most > 0 && (float64(most) < l.mean || l.full >= mostlyFull && float64(most) <= like*l.mean) {
		return float64(most), 0
	}
	return l.mean, l.variance
}

// learn takes in that an answer which might have had so many tokens at most, 0 is
// unknown, had n.
func (o *outputs) learn(kind, most, n int) {
	o.all.learn(most, n)
	if kind < 0 {
		return
	}
	k := &o.kind[kind]
	if k.n == 0 {
		*k = o.all
		k.mean, k.n = float64(n), 0
	}
	k.n = min(k.n+1, knownFrom)
	k.learn(most, n)
}

// learn moves what is known by one answer. One that was cut short of the mean says
// nothing of how long it would have been.
func (l *lengths) learn(most, n int) {
	cut := most > 0 && n >= most
	if off := float64(n) - l.mean; !cut || off > 0 {
		l.mean += off * lengthShare
		l.variance += (off*off - l.variance) * lengthShare
	}
	if most == 0 {
		return
	}
	full := 0.0
	if cut {
		full = 1
	}
	l.full += (full - l.full) * lengthShare
}
