package tiers

import (
	"net/http"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/strategy"
)

// Ask is one request as the gateway took it in.
type Ask struct {
	Request *openai.Request
	Tier    plan.Tier         // demanded; "" is Auto
	ID      string            // of the request: the gateway's own, unique. Ids of calls and of answers made here begin with it
	Tenant  string            // whose it is
	Class   int8              // of its priority: higher goes first
	RAG     string            // digest of the retrieved context, "" when not told
	Salt    string            // keeps its prompt's blocks apart in the engines' prefix caches; "" is none
	Header  http.Header       // to be sent along upstream: its trace, nothing of the client's own
	Spans   bool              // each call upstream is a span of its own in the trace of Header (see dispatch.Try.Span)
	Tap     strategy.Observer // hears the answer; nil is nobody
	Config  *plan.Config      // of its route, where it was read before; nil is what is in force now
	Spared  bool              // its tenant may get a draft below the threshold while the target is short of memory
	Apart   bool              // what is promised of drafts is promised for its tenant alone
	Plan    *plan.Plan        // by which others were promised the answer ([Cascade.Plan]): where it judges no draft, none is made; nil is none
	Vouched func()            // called when an audit has found that the target stands by a draft that the warm-up served; nil tells nobody
	Said    []byte            // what clients have of an answer that was lost: the target carries on from there, where that can be

	// Keep says that something uses the request's body when Answer has returned, until released is called; nil tells nobody.
	Keep func() (released func())
}

// head is what the request's prompt begins with.
func (a *Ask) head() prefix.Head {
	system, first := a.Request.Head()
	return prefix.Head{Tenant: a.Tenant, RAG: a.RAG, System: system, First: first}
}
