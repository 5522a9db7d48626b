package openai

import (
	"fmt"
	"sync"
)

// Answer is what the gateway needs to know of a whole JSON answer.
type Answer struct {
	Model   Span // the value of "model", quotes included
	End     int  // offset of the object's last brace
	Choices int
	Finish  string // of the last choice
	Aborted bool   // the engine gave one of the choices up
	Usage   Usage
	Fault   *Fault
}

// keptText bounds what a kept parser may hold on to, in bytes.
const keptText = 64 << 10

// parsers are kept for the next answer, like cursors.
var parsers = sync.Pool{New: func() any { return new(ChunkParser) }}

// ParseAnswer reads a non-streamed answer.
func ParseAnswer(body []byte) (Answer, error) {
	p, _ := parsers.Get().(*ChunkParser)
	defer func() {
		p.cur.reset(nil)
		if cap(p.chunk.Text) <= keptText {
			parsers.Put(p)
		}
	}()
	c, err := p.Parse(body)
	if err != nil {
		return Answer{}, fmt.Errorf("answer: %w", err)
	}
	return Answer{Model: c.Model, End: c.Close, Choices: c.Choices, Finish: string(c.Finish), Aborted: c.Aborted, Usage: c.Usage, Fault: c.Fault}, nil
}
