package tiers

import (
	"net/http"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/strategy"
)

// Request is one request as the gateway took it in.
type Request struct {
	Body              *openai.Request
	Tier              plan.Tier         // demanded; "" is Auto
	ID                string            // of the request: the gateway's own, unique. Ids of calls and of answers made here begin with it
	Tenant            string            // whose it is
	Class             int8              // of its priority: higher goes first
	RAG               string            // digest of the retrieved context, "" when not told
	Salt              string            // keeps its prompt's blocks apart in the engines' prefix caches; "" is none
	Header            http.Header       // to be sent along upstream: its trace, nothing of the client's own
	Spans             bool              // each call upstream is a span of its own in the trace of Header (see dispatch.Try.Span)
	Observer          strategy.Observer // hears the answer; nil is nobody
	Config            *plan.Config      // of its route, where it was read before; nil is what is in force now
	AllowLowScore     bool              // its tenant may get a draft below the threshold while the target is short of memory
	PerTenantEvidence bool              // what is promised of drafts is promised for its tenant alone
	Plan              *plan.Plan        // by which others were promised the answer ([Cascade.Plan]): where it judges no draft, none is made; nil is none
	OnAuditPassed     func()            // called when an audit has found that the target stands by a draft that the warm-up served; nil tells nobody
	Sent              []byte            // what clients have of an answer that was lost: the target carries on from there, where that can be

	// RetainBody says that something uses the request's body when Answer has returned, until released is called; nil tells nobody.
	RetainBody func() (released func())
}

// head is what the request's prompt begins with.
func (a *Request) head() prefix.Head {
	system, first := a.Body.Head()
	return prefix.Head{Tenant: a.Tenant, RAG: a.RAG, System: system, First: first}
}
