package openai

import (
	"errors"
	"fmt"
	"slices"
)

// Why an answer cannot be assembled.
var (
	ErrIncomplete = errors.New("the answer is not complete")
	ErrTooLong    = errors.New("the answer is too long")
	ErrForeign    = errors.New("the answer holds what only its backend understands")
)

// foreign returns an [ErrForeign] about a part of an answer.
func foreign(what string) error { return fmt.Errorf("%w: %s", ErrForeign, clip(what, 64)) }

// Assembler assembles an answer from the parts that went to the client. If it does not understand a part, the
// answer is unusable ([Assembler.Whole] fails), never incomplete.
type Assembler struct {
	kind       Kind
	numChoices int // choices; 0 is any number
	left       int // bytes that it may still keep

	text   []byte  // of a plain answer, or before the chunks
	merger *Merger // of the chunks; nil: none came
	body   *Whole  // of an answer in one piece
	ended  bool
	end    Ending
	err    error
}

// NewAssembler assembles an answer of the given kind, of at most maximum bytes.
func NewAssembler(kind Kind, maximum int) *Assembler {
	return &Assembler{kind: kind, left: maximum}
}

// Want sets the number of choices that the answer must have. An answer with fewer may look complete: engines
// have lost choices.
func (a *Assembler) Want(choices int) { a.numChoices = choices }

// Text appends text of a plain answer: one choice that consists of text.
func (a *Assembler) Text(b []byte) {
	if a.left -= len(b); a.left < 0 {
		a.fail(ErrTooLong)
	}
	if a.err == nil {
		a.text = append(a.text, b...)
	}
}

// Chunk adds the JSON of a chunk that may contain more than text. After the first one, all chunks must come
// here.
func (a *Assembler) Chunk(raw []byte) {
	if a.err != nil {
		return
	}
	if a.merger == nil {
		a.merger = NewMerger(a.left)
	}
	if err := a.merger.Add(raw); errors.Is(err, ErrTooLong) {
		a.fail(err)
	} else if err != nil {
		a.fail(foreign(err.Error()))
	}
}

// Body adds a whole JSON answer.
func (a *Assembler) Body(raw []byte) {
	if a.ended = true; len(raw) > a.left {
		a.fail(ErrTooLong)
		return
	}
	var err error
	if a.body, err = readWhole(a.kind, raw); err != nil {
		a.fail(err)
	}
}

// End reports the end of the answer: an answer that is not a body is incomplete without it. It gives the
// finish reason of a plain answer, and the usage; without a usage, that of the chunks is kept.
func (a *Assembler) End(e Ending) { a.ended, a.end = true, e }

// fail gives up the answer, and releases its memory.
func (a *Assembler) fail(err error) {
	if a.err == nil {
		a.err, a.text, a.merger = err, nil, nil
	}
}

// Whole returns the answer, or why there is none: [ErrIncomplete], [ErrTooLong] or [ErrForeign]. It shares
// the assembler's memory.
func (a *Assembler) Whole() (*Whole, error) {
	switch {
	case a.err != nil:
		return nil, a.err
	case !a.ended:
		return nil, ErrIncomplete
	}
	w, err := a.joined()
	if err != nil {
		return nil, err
	}
	if a.end.Usage != (Usage{}) {
		w.Usage = a.end.Usage
	}
	switch n := len(w.Choices); {
	case n == 0 || n < a.numChoices:
		return nil, ErrIncomplete
	case a.numChoices > 0 && n > a.numChoices:
		return nil, foreign("more choices than asked for")
	}
	for i := range w.Choices {
		if err := w.Choices[i].check(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// joined joins the parts of the answer.
func (a *Assembler) joined() (*Whole, error) {
	if a.body != nil {
		return a.body, nil
	}
	if a.merger == nil {
		stop, err := stopReason(a.end.Stop)
		return &Whole{Kind: a.kind, Choices: []Choice{{Text: a.text, Finish: a.end.Finish, Stop: stop}}}, err
	}
	w, err := readWhole(a.kind, a.merger.Whole())
	if err == nil && len(w.Choices) > 0 {
		first := &w.Choices[0]
		first.Text, first.Null = slices.Concat(a.text, first.Text), first.Null && len(a.text) == 0
	}
	return w, err
}
