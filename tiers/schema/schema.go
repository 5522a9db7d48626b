// Package schema checks a draft against the client's own JSON Schemas: the arguments of tool calls, and
// answers with a response_format. Start at [Schemas].
//
// Schemas come from clients and are untrusted: nothing is loaded from outside, and a schema that would take
// long to compile or to check is not checked. The result is then [ReasonUnusable]: the draft is rejected and
// the target answers.
package schema

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Why a draft does not fit the request.
const (
	ReasonInvalid   = "invalid_json"    // it is not JSON
	ReasonMismatch  = "schema_mismatch" // it is JSON, but does not fit the schema
	ReasonUnusable  = "schema_unusable" // the schema does not compile, or is too expensive to check
	ReasonNoCall    = "call_missing"    // a call is required, and there is none
	ReasonUnknown   = "call_unknown"    // a call of a tool that is not offered, or not the required one
	ReasonArguments = "call_arguments"  // a call's arguments are not a JSON object, or do not fit the tool's schema
)

// Schemas caches compiled schemas by tenant: nobody's are pushed out by another's. It is safe for concurrent use; the zero
// value but for Now is ready. [Schemas.Of] uses it for a tenant.
type Schemas struct {
	Now func() time.Time

	mu     sync.Mutex
	owners map[string]*owner
	bytes  int // that all tenants hold
}

// key is the hash of a schema's text.
type key = [sha256.Size]byte

// entry is a cached schema, compiled once by its first user. One that does not compile is cached, too.
type entry struct {
	once sync.Once
	sch  *jsonschema.Schema
	err  error
}

// Checker checks the drafts of one tenant. The zero value is for drafts whose requests have no schema.
type Checker struct {
	*Schemas
	tenant string
}

// Of returns the checker of a tenant's drafts.
func (s *Schemas) Of(tenant string) Checker { return Checker{s, tenant} }

// compiled returns the compiled schema of a text.
func (s Checker) compiled(text []byte) (*jsonschema.Schema, error) {
	if len(text) > maxText {
		return nil, errTooBig
	}
	e := s.entry(sha256.Sum256(text), len(text))
	if e == nil {
		return nil, errTooMany
	}
	e.once.Do(func() {
		var p patterns
		e.sch, e.err = compile(text, &p)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hold(s.tenant, p.used)
	})
	return e.sch, e.err
}

// entry returns the cached schema, or makes a new one; nil if the tenant has compiled too many.
func (s Checker) entry(k key, size int) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owner(s.tenant)
	if o == nil {
		return nil
	}
	if e := o.kept[k]; e != nil {
		return e
	}
	if !o.mayCompile(size) {
		return nil
	}
	e := &entry{}
	o.kept[k] = e
	s.hold(s.tenant, entryBytes+size)
	return e
}

// root is the name of a schema during compilation. It can be neither a file nor an address.
const root = "urn:foregate:schema"

// errRemote is returned for schemas that refer to others.
var errRemote = errors.New("nothing is loaded")

// nowhere loads no schema.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errRemote }

// compile compiles a schema within the bounds.
func compile(text []byte, p *patterns) (sch *jsonschema.Schema, err error) {
	defer func() {
		if what := recover(); what != nil {
			sch, err = nil, fmt.Errorf("compiling panics: %v", what)
		}
	}()
	doc, err := decode(text)
	if err != nil {
		return nil, err
	}
	if err := ofBounds(doc); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(p.compile)
	if err := c.AddResource(root, doc); err != nil {
		return nil, err
	}
	return c.Compile(root)
}

// check checks a value against a schema, "" or a reason, and subtracts its cost from the meter.
func check(sch *jsonschema.Schema, v any, m *meter) (reason string) {
	defer func() {
		if recover() != nil { // a library error on strange input: the target answers
			reason = ReasonUnusable
		}
	}()
	if !m.allows(sch, v) {
		return ReasonUnusable
	}
	if sch.Validate(v) != nil {
		return ReasonMismatch
	}
	return ""
}

// CheckSchema checks that a text is JSON that fits a schema: "", [ReasonInvalid], [ReasonMismatch] or
// [ReasonUnusable].
func (s Checker) CheckSchema(text, schema []byte) (reason string) {
	v, err := decodeValue(text)
	switch {
	case errors.Is(err, errNotJSON):
		return ReasonInvalid
	case err != nil:
		return ReasonUnusable
	}
	sch, err := s.compiled(schema)
	if err != nil {
		return ReasonUnusable
	}
	return check(sch, v, newMeter())
}
