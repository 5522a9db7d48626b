package pool

import (
	"time"

	"github.com/foregate/foregate/tiers/pool/estimate"
	"github.com/foregate/foregate/tiers/prefix"
)

// Demand is what a request asks of a backend.
type Demand struct {
	PromptTokens int            // counted, or estimated by somebody who knows no better
	PromptBytes  int            // of text from which the pool estimates the tokens; 0: PromptTokens is exact
	IDs          func() []int32 // the prompt's token ids, where they are known; nil: they are not. Only an Index asks
	Salt         string         // that keeps the prompt's blocks apart from others' in an engine's cache; "" is none. Only an Index asks
	OutputTokens int            // expected
	MaxOutput    int            // tokens that the answer may have at most; 0 is unknown
	Answers      int            // how many are asked for; 0 is 1
	Whole        bool           // it comes in one piece, so that one does not see it begin

	Admission Admission // of the backend that it goes to

	Parts [prefix.MaxParts]prefix.Part // what the prompt begins with; those with Key 0 are absent

	Optional bool // it is of no use where it may wait: neither at a suspect nor at one whose breaker is open, though all of the pool were

	WarmBackend string   // id of a backend that has computed this very prompt a moment ago; "" is none
	Exclude     []string // ids of backends that were tried already
}

// Admission is how full a backend may be, or become, that a request goes to; see
// [choose.Candidate.Above].
type Admission struct {
	MaxUsage float64 // share of the KV cache, 0..1; 0 is no limit
	MaxQueue int     // requests that may wait there; 0 is any number
	Now      bool    // only what is in use now counts, not what it will grow to

	// Patient says that the request can wait for room where it is warm, although there
	// is some elsewhere; Waited is how long it has done so.
	Patient bool
	Waited  time.Duration
}

// key names the longest part of the prompt, 0 where nothing is known of it.
func (d *Demand) key() prefix.Key {
	for i := len(d.Parts) - 1; i >= 0; i-- {
		if k := d.Parts[i].Key; k != 0 {
			return k
		}
	}
	return 0
}

func (d *Demand) answers() int { return max(d.Answers, 1) }

// parts are those that are there.
func (d *Demand) parts() []prefix.Part {
	n := 0
	for n < len(d.Parts) && d.Parts[n].Key != 0 {
		n++
	}
	return d.Parts[:n]
}

// kind is the kind of the request's answer, −1 where its prompt does not tell.
func (d *Demand) kind() int {
	if first := d.Parts[0]; first.Key != 0 && first.Share < 1 {
		return int(first.Key % estimate.Kinds)
	}
	return -1
}
