package openai

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// NewAssembler assembles an answer of the given kind, of at most maximum bytes.
func NewAssembler(kind Kind, maximum int) *Assembler {
	return &Assembler{kind: kind, maxBytes: maximum}
}

// Want sets the number of choices that the answer must have. An answer with fewer may look complete: engines
// have lost choices.
func (a *Assembler) Want(choices int) { a.numChoices = choices }

// Text appends text of a plain answer: one choice that consists of text.
func (a *Assembler) Text(b []byte) {
	if a.chunks || a.whole || a.ended {
		a.foreign("text behind chunks")
	}
	if a.err != nil {
		return
	}
	a.plain = true
	if c := a.choiceAt(0); c != nil && a.spend(len(b)) {
		c.seen = true
		c.text = append(c.text, b...)
	}
}

// Chunk adds the JSON of a chunk that may contain more than text. After the first one, all chunks must come
// here.
func (a *Assembler) Chunk(raw []byte) {
	if a.whole || a.ended {
		a.foreign("a chunk behind the end")
	}
	a.chunks = true
	a.read(raw)
}

// Body adds a whole JSON answer.
func (a *Assembler) Body(raw []byte) {
	if a.plain || a.chunks || a.whole || a.ended {
		a.foreign("a body behind another answer")
	}
	a.whole, a.ended = true, true
	a.read(raw)
}

// End reports the end of the answer: an answer that is not a body is incomplete without it. It gives the
// finish reason of a plain answer, and the usage; without a usage, that of the chunks is kept.
func (a *Assembler) End(e Ending) {
	a.ended = true
	if e.Usage != (Usage{}) {
		a.usage = e.Usage
	}
	if a.err != nil || a.chunks || a.whole {
		return
	}
	if !finishes(e.Finish) {
		a.foreign("finish_reason")
		return
	}
	if c := a.choiceAt(0); c != nil {
		c.seen, c.finish = true, e.Finish
		a.stop(c, e.Stop)
	}
}

// Whole returns the answer, or why there is none: [ErrIncomplete], [ErrTooLong] or [ErrForeign]. It shares
// the assembler's memory.
func (a *Assembler) Whole() (*Whole, error) {
	if a.err != nil {
		return nil, a.err
	}
	if !a.ended || len(a.choices) == 0 || len(a.choices) < a.numChoices {
		return nil, ErrIncomplete
	}
	if a.numChoices > 0 && len(a.choices) > a.numChoices {
		return nil, fmt.Errorf("%w: more choices than asked for", ErrForeign)
	}
	w := &Whole{Kind: a.kind, Usage: a.usage, Choices: make([]Choice, len(a.choices))}
	for i := range a.choices {
		if err := a.choices[i].finished(&w.Choices[i]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// finished builds the final choice.
func (c *growing) finished(out *Choice) error {
	switch {
	case !c.seen || c.finish == "":
		return ErrIncomplete
	case !utf8.Valid(c.text):
		return fmt.Errorf("%w: text that is not UTF-8", ErrForeign)
	case c.finish == finishTools && len(c.calls) == 0:
		return fmt.Errorf("%w: tool_calls without any", ErrForeign)
	}
	for _, k := range c.calls {
		switch {
		case k.id == "" || k.name == "":
			return fmt.Errorf("%w: a call without id or name", ErrForeign)
		case c.finish != "length" && !jsontext.Value(k.arguments).IsValid():
			return fmt.Errorf("%w: arguments that are not JSON", ErrForeign)
		}
		out.Calls = append(out.Calls, Call{ID: k.id, Type: k.kind, Name: k.name, Arguments: string(k.arguments)})
	}
	out.Text, out.Reasoning, out.As = c.text, c.reasoning, c.as
	out.Null = len(c.text) == 0 && (len(c.calls) > 0 || len(c.reasoning) > 0)
	out.Finish, out.Stop = c.finish, c.stop
	return nil
}
