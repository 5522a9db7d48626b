package tiers

import (
	"net/http"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/strategy"
)

// Request is one request to the cascade.
type Request struct {
	Body              *openai.Request
	Route             *Route            // of its model, if it was read before; nil: the current one
	Tier              plan.Tier         // demanded; "" is Auto
	ID                string            // unique, made by the gateway; ids of calls and answers begin with it
	Tenant            string            // whose it is
	Class             int8              // of its priority: higher goes first
	RAG               string            // digest of the retrieved context; "" if the client sent none
	Salt              string            // cache_salt: separates its prompt in the engines' prefix caches; "": none
	Header            http.Header       // trace headers for upstream calls; no header of the client
	Spans             bool              // each upstream call gets its own span in Header's trace (see dispatch.Try.Span)
	Observer          strategy.Observer // receives the answer's content; nil: none
	Config            *plan.Config      // of its route, if it was read before; nil: the current one
	PerTenantEvidence bool              // the promise on drafts is kept for the tenant alone
	Plan              *plan.Plan        // a plan that the answer was promised by ([Cascade.Plan]): if it judges no draft, none is made; nil: none
	Confirmation      Confirmation      // of an answer that is to be kept for others; nil: it is not kept
	Sent              []byte            // the prefix that clients already have of a lost answer; the target continues it if it can

	Retainer BodyRetainer // keeps the request's body valid after Answer has returned; nil: not needed
}

// Confirmation is told whether an answer must wait for the target's opinion of its draft before it is kept for others.
type Confirmation interface {
	// Await says that it must. It is called before [Cascade.Answer] returns, or not at all.
	Await()
	// Confirm says whether the target accepts the draft. It is called once, before Answer returns or later, or never.
	Confirm(good bool)
}

// BodyRetainer holds the memory of a request's body.
type BodyRetainer interface {
	// Retain keeps it until released is called.
	Retain() (released func())
}

// head returns the beginning of the request's prompt, for prefix matching.
func (a *Request) head() prefix.Head {
	system, first := a.Body.Head()
	return prefix.Head{Tenant: a.Tenant, RAG: a.RAG, System: system, First: first}
}
