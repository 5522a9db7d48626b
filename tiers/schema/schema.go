// Package schema checks a draft against the client's own JSON Schemas: the arguments of tool calls, and answers with a
// response_format. Start at [Schemas].
//
// Schemas come from clients and are untrusted: nothing is loaded, and what would take long to compile or to check is not
// checked. The result is then [ReasonUnusable]: the draft is rejected and the target answers.
package schema

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Why a draft is not what was demanded.
const (
	ReasonInvalid   = "invalid_json"    // JSON was asked for, and this is none
	ReasonMismatch  = "schema_mismatch" // it is JSON, but not of that schema
	ReasonUnusable  = "schema_unusable" // the schema does not compile, or costs too much to check
	ReasonNoCall    = "call_missing"    // a call was demanded, and there is none
	ReasonUnknown   = "call_unknown"    // a tool is called that was not offered, or not the one demanded
	ReasonArguments = "call_arguments"  // a call's arguments are no JSON object, or not of the tool's schema
)

// What all schemas that are kept may have together: so many bytes of text take 50 MB at
// worst, compiled (where each is nothing but names). An instruction of a regular expression
// counts as a byte.
const (
	maxKept      = 512
	maxKeptBytes = 512 << 10
)

// Schemas keeps compiled schemas, the most recently used ones. It is safe for concurrent use; the zero value is ready.
type Schemas struct {
	mu    sync.Mutex
	byKey map[key]*list.Element // of *entry
	order list.List             // the latest used first
	bytes int                   // the sizes of all in order
}

// key is the hash of a schema's text.
type key = [sha256.Size]byte

// entry is a cached schema, compiled once by its first user. One that does not compile is cached, too.
type entry struct {
	key  key
	size int
	once sync.Once
	sch  *jsonschema.Schema
	err  error
}

// compiled is the schema of a text.
func (s *Schemas) compiled(text []byte) (*jsonschema.Schema, error) {
	if len(text) > maxText {
		return nil, errTooBig
	}
	e := s.entry(sha256.Sum256(text), len(text))
	e.once.Do(func() {
		var p patterns
		e.sch, e.err = compile(text, &p)
		s.grow(e, p.used)
	})
	return e.sch, e.err
}

// grow counts what an entry turned out to have beside its text.
func (s *Schemas) grow(e *entry, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.byKey[e.key]; ok && at.Value == e {
		e.size += by
		s.bytes += by
		s.trim()
	}
}

// trim lets the schemas go that were used longest ago.
func (s *Schemas) trim() {
	for s.order.Len() > maxKept || s.bytes > maxKeptBytes {
		old, _ := s.order.Remove(s.order.Back()).(*entry)
		delete(s.byKey, old.key)
		s.bytes -= old.size
	}
}

func (s *Schemas) entry(k key, size int) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.byKey[k]; ok {
		s.order.MoveToFront(at)
		e, _ := at.Value.(*entry)
		return e
	}
	if s.byKey == nil {
		s.byKey = map[key]*list.Element{}
	}
	e := &entry{key: k, size: size}
	s.byKey[k] = s.order.PushFront(e)
	s.bytes += size
	s.trim()
	return e
}

// root is what a schema is called while it is compiled. It can be neither a file nor an address.
const root = "urn:foregate:schema"

// errRemote is returned for schemas that refer to others.
var errRemote = errors.New("nothing is loaded")

// nowhere loads no schema.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errRemote }

// compile compiles a schema within bounds of size.
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

// check says whether a value is of a schema, "" or a reason, and takes its cost from the meter.
func check(sch *jsonschema.Schema, v any, m *meter) (reason string) {
	defer func() {
		if recover() != nil { // a library that was asked something strange: the target answers
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

// CheckSchema says whether a text is JSON of a schema: "", [ReasonInvalid],
// [ReasonMismatch] or [ReasonUnusable].
func (s *Schemas) CheckSchema(text, schema []byte) (reason string) {
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
