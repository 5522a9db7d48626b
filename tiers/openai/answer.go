package openai

import "fmt"

// Answer is the data that the gateway needs from a whole JSON answer.
type Answer struct {
	Model   Span // the value of "model", quotes included
	End     int  // offset of the object's last brace
	Choices int
	Finish  string // of the last choice
	Aborted bool   // the engine aborted one of the choices
	Usage   Usage
	Counts  [3]Span // as in [Chunk]
	Size    int     // bytes of its text; with more than text, of all of it
	Fault   *Fault
}

// ParseAnswer reads a non-streamed answer. Duplicate names are errors: two readers could read two answers. It writes over
// numbers of the usage that can be no counts.
func ParseAnswer(body []byte) (Answer, error) {
	p := BorrowChunkParser(false)
	defer p.Release()
	c, err := p.parse(body, true)
	if err != nil {
		return Answer{}, fmt.Errorf("answer: %w", err)
	}
	return Answer{Counts: c.Counts, Size: c.Size(), Model: c.Model, End: c.Close, Choices: c.Choices, Finish: string(c.Finish), Aborted: c.Aborted, Usage: c.Usage, Fault: c.Fault}, nil
}

// Size is how many bytes a chunk says: of its text, or with more than text of all of it.
func (c *Chunk) Size() int {
	if c.Plain {
		return len(c.Text)
	}
	return len(c.Raw)
}
