package openai

import "fmt"

// Answer is what the gateway needs to know of a whole JSON answer.
type Answer struct {
	Model   Span // the value of "model", quotes included
	End     int  // offset of the object's last brace
	Choices int
	Finish  string // of the last choice
	Usage   Usage
	Fault   *Fault
}

// ParseAnswer reads a non-streamed answer.
func ParseAnswer(body []byte) (Answer, error) {
	var p ChunkParser
	c, err := p.Parse(body)
	if err != nil {
		return Answer{}, fmt.Errorf("answer: %w", err)
	}
	return Answer{Model: c.Model, End: c.Close, Choices: c.Choices, Finish: string(c.Finish), Usage: c.Usage, Fault: c.Fault}, nil
}
