package plan

import (
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
)

// Tier is the role of a pool for a route, and what an answer came from.
type Tier string

// The tiers. A request demands auto, draft or target; an answer is draft,
// target, mixed or fallback.
const (
	Auto     Tier = "auto"
	Draft    Tier = "draft"
	Target   Tier = "target"
	Mixed    Tier = "mixed"
	Fallback Tier = "fallback" // a hosted pool, which is not the operator's own
)

// Facts are the inputs of a plan.
type Facts struct {
	Request       *openai.Request
	Variant       string // the target pool, if it is not the route's pool in force; "" otherwise
	Revisions     string // of the weights of draft and target, as the configuration names them; "" if it names none
	Demanded      Tier
	HasDraft      bool // the route has a draft pool
	SameTokenizer bool // the configuration says that its pools share tokenizer and chat template

	EvidenceTenant string              // the tenant for which a promise of its own is kept; "": all tenants together
	Draft, Target  *probe.Capabilities // what the pools' engines support; nil: unknown
	TargetEngine   dialect.Kind        // of the target's engines until they are probed; "": not known
}

// sameTokens reports whether draft ids are valid for the target: as the engines were probed, and until then as the
// configuration says.
func (f Facts) sameTokens() bool {
	if same, known := probe.SameTokens(f.Draft, f.Target); known {
		return same
	}
	return f.SameTokenizer
}
