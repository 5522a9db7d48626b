package strategy

import (
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/openai"
)

// Auditor audits the drafts of a request.
type Auditor interface {
	// Watch begins the audit of a draft that is streamed.
	Watch() Watcher
	// Whole audits a draft that came in one piece.
	Whole(*openai.DraftAnswer)
}

// Watcher sees the draft that the client may get as it comes, and audits it to its end.
type Watcher interface {
	// See takes the next chunk; it is valid during the call only.
	See(*openai.Chunk)
	// Decided tells that it is decided now whether the client gets the draft.
	Decided()
	// Wants reports whether more of the draft is to be read, whatever becomes of the request.
	Wants() bool
	// TakeOver reads the rest of the draft. The exchange is the watcher's from then on.
	TakeOver(x *dispatch.Exchange)
	// Over tells that no more of the draft comes, and that it was not lost.
	Over()
}
