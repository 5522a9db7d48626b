package openai

import (
	"bytes"
	"errors"
	"fmt"
)

// Why an answer cannot be put together.
var (
	ErrIncomplete = errors.New("the answer is not complete")
	ErrTooLong    = errors.New("the answer is too long")
	ErrForeign    = errors.New("the answer holds what only its backend understands")
)

// Assembler puts an answer together from what of it went to the client. What it does not understand whole
// makes the answer unusable ([Assembler.Whole] fails) rather than incomplete.
type Assembler struct {
	kind   Kind
	most   int
	wanted int // choices; 0 is any number
	size   int // bytes of the answer so far
	whole  bool
	plain  bool // text came
	chunks bool // chunks came
	ended  bool
	err    error

	choices []growing
	usage   Usage

	data []byte // what cur reads
	cur  cursor
	said []byte // what sub reads: a delta or message in data
	sub  cursor
}

// growing is a choice that is being put together.
type growing struct {
	seen      bool
	text      []byte
	reasoning []byte
	as        string
	calls     []growingCall
	finish    string
	stop      []byte
}

type growingCall struct {
	id, kind, name string
	arguments      []byte
}

// Our own bytes for a choice and for a call beside what they hold, so that a bound on the answer bounds
// the memory, too.
const (
	choiceSize = 192
	callSize   = 96
)

// fail gives the answer up, and its memory.
func (a *Assembler) fail(err error) {
	if a.err == nil {
		a.err, a.choices = err, nil
	}
}

func (a *Assembler) foreign(what string) {
	a.fail(fmt.Errorf("%w: %s", ErrForeign, clip(what, 64)))
}

// spend counts bytes that are kept and reports whether they still may be.
func (a *Assembler) spend(n int) bool {
	if a.size += n; a.size > a.most {
		a.fail(ErrTooLong)
	}
	return a.err == nil
}

// choiceAt is the choice of an index, nil where the answer was given up.
func (a *Assembler) choiceAt(index int) *growing {
	if index < 0 || index >= maxChoices {
		a.foreign("a choice's index")
		return nil
	}
	for len(a.choices) <= index {
		if len(a.choices) > 0 && !a.spend(choiceSize) { // the first is free: a plain answer costs its text
			return nil
		}
		a.choices = append(a.choices, growing{})
	}
	return &a.choices[index]
}

// stop keeps a stop_reason, which is a string or a number where it is not null.
func (a *Assembler) stop(c *growing, raw []byte) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	if !isStop(raw) {
		a.foreign("stop_reason")
		return
	}
	if a.spend(len(raw)) {
		c.stop = bytes.Clone(raw)
	}
}
