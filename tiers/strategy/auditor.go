package strategy

import (
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/openai"
)

// Auditor audits the drafts of a request.
type Auditor interface {
	// Watch begins the audit of a draft that is streamed.
	Watch() AuditDraft
	// Whole audits a draft that came in one piece.
	Whole(*openai.DraftAnswer)
}

// AuditDraft sees the draft that the client may get as it comes, and audits it to its end.
type AuditDraft interface {
	// Observe takes the next chunk; it is valid during the call only.
	Observe(*openai.Chunk)
	// MarkDecided tells that it is decided now whether the client gets the draft.
	MarkDecided()
	// NeedsMore reports whether more of the draft is to be read, whatever becomes of the request.
	NeedsMore() bool
	// TakeStream reads the rest of the draft. The exchange is the watcher's from then on.
	TakeStream(x *dispatch.Exchange)
	// End tells that no more of the draft comes, and that it was not lost.
	End()
}
