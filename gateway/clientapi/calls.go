package clientapi

import (
	"errors"
	"strings"
)

// errCallEnded says that a tool call goes on although its arguments are whole.
var errCallEnded = errors.New("a tool call of the answer goes on behind its end")

// Calls puts the parts of an answer's tool calls in sequence: each goes out as it comes, until the next call has begun and
// the arguments of this one are whole. Engines hardly mix the parts of calls; those that come too early are kept.
type Calls struct {
	Bound *Bound

	all      []call
	latest   map[callKey]int // the call that a part belongs to
	argued   int             // calls up to the last one that has arguments
	at       int             // the call that goes out
	begun    bool            // its beginning is out
	sentFrom int             // bytes of its arguments that are out
}

// callKey is what the parts of a call have in common. Engines write the id on the first part only, or on all; and some write
// no index, so that the calls of a stream differ only in their ids.
type callKey struct {
	index int
	id    string // "" for the latest call of the index
}

// call is a call so far.
type call struct {
	CallPart  // with the arguments from its end on
	arguments []byte
	nesting   nesting
}

// callBytes is what a call takes besides its text, about.
const callBytes = 256

// Any reports whether there is any call.
func (cs *Calls) Any() bool { return len(cs.all) > 0 }

// Add adds a part, and writes what can go out.
func (cs *Calls) Add(p *CallPart, w Writer) error {
	i := cs.find(p)
	if i < cs.at {
		if strings.TrimSpace(p.Arguments) != "" {
			return errCallEnded
		}
		return nil
	}
	bytes := len(p.Arguments)
	if i == len(cs.all) {
		cs.begin(p)
		bytes += callBytes + len(p.ID) + len(p.Name)
	}
	if p.Arguments != "" {
		c := &cs.all[i]
		c.arguments = append(c.arguments, p.Arguments...)
		c.nesting.add(p.Arguments)
		cs.argued = max(cs.argued, i+1)
	}
	if err := cs.Bound.Keep(bytes); err != nil {
		return err
	}
	return cs.write(w, false)
}

// find returns the position of the call that a part belongs to; that behind the last one is a new call.
func (cs *Calls) find(p *CallPart) int {
	if i, ok := cs.latest[callKey{p.Index, p.ID}]; ok {
		return i
	}
	if i, ok := cs.latest[callKey{p.Index, ""}]; ok && (p.Name == "" || cs.all[i].ID == "") {
		return i // a call begins with its name
	}
	return len(cs.all)
}

// begin adds a call.
func (cs *Calls) begin(p *CallPart) {
	if cs.latest == nil {
		cs.latest = map[callKey]int{}
	}
	cs.latest[callKey{p.Index, ""}] = len(cs.all)
	cs.latest[callKey{p.Index, p.ID}] = len(cs.all)
	cs.all = append(cs.all, call{CallPart: CallPart{Index: p.Index, ID: p.ID, Name: p.Name}})
}

// End writes the rest.
func (cs *Calls) End(w Writer) error { return cs.write(w, true) }

func (cs *Calls) write(w Writer, all bool) error {
	for cs.at < len(cs.all) {
		c := &cs.all[cs.at]
		if !cs.begun {
			w.BeginCall(&c.CallPart)
			cs.begun = true
		}
		if rest := c.arguments[cs.sentFrom:]; len(rest) > 0 {
			w.MoreOfCall(string(rest))
			cs.sentFrom = len(c.arguments)
		}
		if !all && !cs.whole(c) {
			return nil
		}
		c.Arguments, c.arguments = string(c.arguments), nil
		if err := w.EndCall(&c.CallPart, all && cs.at == len(cs.all)-1); err != nil {
			return err
		}
		c.Arguments = ""
		cs.at, cs.begun, cs.sentFrom = cs.at+1, false, 0
	}
	return nil
}

// whole reports whether the call c that goes out has ended: a call has begun behind it, and it lacks nothing. A call without
// arguments may still get them until one behind it has some: engines may name all calls first.
func (cs *Calls) whole(c *call) bool {
	if len(c.arguments) == 0 {
		return cs.at+1 < cs.argued
	}
	return cs.at+1 < len(cs.all) && c.nesting.closed()
}

// nesting follows the strings and brackets of JSON. It looks at every byte once, and does not say whether the JSON is valid.
type nesting struct {
	depth           int
	quoted, escaped bool
}

func (n *nesting) add(text string) {
	for i := range len(text) {
		switch c := text[i]; {
		case n.escaped:
			n.escaped = false
		case n.quoted && c == '\\':
			n.escaped = true
		case c == '"':
			n.quoted = !n.quoted
		case n.quoted:
		case c == '{' || c == '[':
			n.depth++
		case c == '}' || c == ']':
			n.depth--
		}
	}
}

// closed reports whether no string and no bracket is open.
func (n *nesting) closed() bool { return !n.quoted && n.depth <= 0 }
