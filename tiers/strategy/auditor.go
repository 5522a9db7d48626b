package strategy

import (
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/openai"
)

// Auditor audits the drafts of a request (package audit implements it).
type Auditor interface {
	// Watch begins the audit of a draft that is streamed.
	Watch() AuditDraft
	// Whole audits a draft that came in one piece.
	Whole(*openai.DraftAnswer)
}

// AuditDraft reads along with the client's draft and audits it when it has ended.
type AuditDraft interface {
	// Observe takes the next chunk; it is valid during the call only. waited says that the hold-back's time is over.
	Observe(c *openai.Chunk, waited bool)
	// NeedsMore reports whether the audit needs the rest of the draft.
	NeedsMore() bool
	// TakeStream takes ownership of the exchange and reads the rest of the draft.
	TakeStream(x *dispatch.Exchange)
	// End says that the draft is complete.
	End()
	// Leave says that the draft ended without that: its client has left, its backend failed, or there was none.
	Leave()
}
