package openai

import "encoding/json"

// Members returns the members of a JSON object by their names. The values are parts of raw, not copies. ok is false if raw is
// anything else. Of a name that comes twice the last member counts.
func Members(raw []byte) (members map[string]json.RawMessage, ok bool) {
	c := borrowCursor(nil)
	defer c.release()
	c.resetLenient(raw)
	if c.kind() != '{' {
		return nil, false
	}
	members = map[string]json.RawMessage{}
	for name := range c.object() {
		key := string(name) // it is valid until the next read
		value, _ := c.value()
		members[key] = value
	}
	c.end()
	return members, c.err == nil
}

// Elements returns the elements of a JSON array. They are parts of raw, not copies. ok is false if raw is anything else.
func Elements(raw []byte) (elements []json.RawMessage, ok bool) {
	c := borrowCursor(nil)
	defer c.release()
	c.resetLenient(raw)
	if c.kind() != '[' {
		return nil, false
	}
	for range c.array() {
		value, _ := c.value()
		elements = append(elements, value)
	}
	c.end()
	return elements, c.err == nil
}
