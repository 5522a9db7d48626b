package openai

import (
	"bytes"
	"errors"
	"fmt"
)

// Why an answer cannot be assembled.
var (
	ErrIncomplete = errors.New("the answer is not complete")
	ErrTooLong    = errors.New("the answer is too long")
	ErrForeign    = errors.New("the answer holds what only its backend understands")
)

// Assembler assembles an answer from the parts that went to the client. If it does not understand a part, the
// answer is unusable ([Assembler.Whole] fails), never incomplete.
type Assembler struct {
	kind       Kind
	maxBytes   int
	numChoices int // choices; 0 is any number
	size       int // bytes of the answer so far
	whole      bool
	plain      bool // text came
	chunks     bool // chunks came
	ended      bool
	err        error

	choices []growing
	usage   Usage

	data    []byte  // what cur reads
	cur     *cursor // borrowed while data is read
	message []byte  // what sub reads: a delta or message in data
	sub     *cursor // borrowed while a message is read
}

// growing is a choice that is being assembled.
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

// The memory of a choice and of a call besides their content, so that a bound on the answer also bounds the
// memory.
const (
	choiceSize = 192
	callSize   = 96
)

// fail gives up the answer, and releases its memory.
func (a *Assembler) fail(err error) {
	if a.err == nil {
		a.err, a.choices = err, nil
	}
}

func (a *Assembler) foreign(what string) {
	a.fail(fmt.Errorf("%w: %s", ErrForeign, clip(what, 64)))
}

// spend counts bytes to keep and reports whether they are within the limit.
func (a *Assembler) spend(n int) bool {
	if a.size += n; a.size > a.maxBytes {
		a.fail(ErrTooLong)
	}
	return a.err == nil
}

// choiceAt returns the choice with an index, nil if the answer was given up.
func (a *Assembler) choiceAt(index int) *growing {
	if index < 0 || index >= maxChoices {
		a.foreign("a choice's index")
		return nil
	}
	for len(a.choices) <= index {
		if len(a.choices) > 0 && !a.spend(choiceSize) { // the first is not counted: a plain answer costs only its text
			return nil
		}
		a.choices = append(a.choices, growing{})
	}
	return &a.choices[index]
}

// stop stores a stop_reason, which is a string or a number unless it is null.
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
