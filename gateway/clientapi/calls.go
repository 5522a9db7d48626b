package clientapi

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// errCallEnded says that a tool call goes on although its arguments are whole.
var errCallEnded = errors.New("a tool call of the answer goes on behind its end")

// Calls puts the parts of an answer's tool calls in sequence: each goes out as it comes, until the next call has begun and
// the arguments of this one are whole. Engines hardly mix the parts of calls; those that come too early are kept.
type Calls struct {
	all   []call
	at    int  // the call that goes out
	begun bool // its beginning is out
	sent  int  // bytes of its arguments that are out
}

// call is a call so far.
type call struct {
	CallPart  // with the arguments from its end on
	arguments []byte
}

// CallWriter writes calls, one after the other.
type CallWriter interface {
	// BeginCall begins a call with its name.
	BeginCall(c *CallPart)
	// MoreOfCall adds to its arguments.
	MoreOfCall(arguments string)
	// EndCall ends it; c has all of its arguments.
	EndCall(c *CallPart)
}

// Any reports whether there is any call.
func (s *Calls) Any() bool { return len(s.all) > 0 }

// Add adds a part, and writes what can go out.
func (s *Calls) Add(p *CallPart, w CallWriter) error {
	switch i := slices.IndexFunc(s.all, func(c call) bool { return c.Index == p.Index }); {
	case i < 0:
		s.all = append(s.all, call{CallPart{Index: p.Index, ID: p.ID, Name: p.Name}, []byte(p.Arguments)})
	case i >= s.at:
		s.all[i].arguments = append(s.all[i].arguments, p.Arguments...)
	case strings.TrimSpace(p.Arguments) != "":
		return errCallEnded
	}
	s.write(w, false)
	return nil
}

// End writes the rest.
func (s *Calls) End(w CallWriter) { s.write(w, true) }

func (s *Calls) write(w CallWriter, all bool) {
	for s.at < len(s.all) {
		c := &s.all[s.at]
		if !s.begun {
			w.BeginCall(&c.CallPart)
			s.begun = true
		}
		if rest := c.arguments[s.sent:]; len(rest) > 0 {
			w.MoreOfCall(string(rest))
			s.sent = len(c.arguments)
		}
		if !all && (s.at == len(s.all)-1 || !json.Valid(c.arguments)) {
			return
		}
		c.Arguments = string(c.arguments)
		w.EndCall(&c.CallPart)
		s.at, s.begun, s.sent = s.at+1, false, 0
	}
}
