package vllmsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Answer is an answer that the model was given before: a text, the call of a tool, or one after the other. See [Options.Answers].
type Answer struct {
	Text      string          `json:"text"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // an object; default {}
}

// ParseAnswers reads a JSON list of answers.
func ParseAnswers(raw []byte) ([]Answer, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var list []Answer
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("vllmsim: these are no answers: %w", err)
	}
	if d.More() {
		return nil, errors.New("vllmsim: these are no answers: something follows the list")
	}
	return list, checkAnswers(list)
}

func checkAnswers(list []Answer) error {
	for i, a := range list {
		var object map[string]json.RawMessage
		switch {
		case a.Text == "" && a.Tool == "":
			return fmt.Errorf("vllmsim: answer %d has neither text nor tool", i)
		case a.Tool == "" && a.Arguments != nil:
			return fmt.Errorf("vllmsim: answer %d has arguments and no tool", i)
		case a.Arguments != nil && json.Unmarshal(a.Arguments, &object) != nil:
			return fmt.Errorf("vllmsim: the arguments of answer %d are no object", i)
		}
	}
	return nil
}

// given is the form of the answer that was given for this place of a conversation, nil if there is none.
func (s *shape) given(t *Tokenizer) *form {
	if s == nil || s.answer == nil {
		return nil
	}
	tools := t.toolsIn(s.prompt)
	if len(tools) > 0 && s.answer.Tool == "" {
		return &form{given: s.answer}
	}
	for i := range tools {
		if tools[i].Function.Name == s.answer.Tool {
			return &form{tool: &tools[i], given: s.answer}
		}
	}
	return nil
}
