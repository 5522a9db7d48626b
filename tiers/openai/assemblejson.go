package openai

import (
	"bytes"
	"strconv"
)

// read parses the JSON of a chunk or of a whole answer.
func (a *Assembler) read(raw []byte) {
	if a.err != nil {
		return
	}
	a.data, a.cur = raw, borrowCursor(raw)
	defer func() {
		a.cur.release()
		a.data, a.cur = nil, nil
	}()
	if a.cur.kind() != '{' {
		a.foreign("no object")
	}
	for name := range a.cur.object() {
		if a.member(name); a.err != nil {
			break
		}
	}
	if a.err == nil {
		a.cur.end()
	}
	if a.cur.err != nil {
		a.foreign("no JSON")
	}
}

// member reads a top-level member.
func (a *Assembler) member(name []byte) {
	switch string(name) {
	case "choices":
		if a.cur.kind() != '[' {
			a.foreign("choices")
		}
		for range a.cur.array() {
			if a.choice(); a.err != nil {
				return
			}
		}
	case "usage":
		a.readUsage()
	default:
		if ofNoAccount(name) {
			a.cur.skip()
		} else {
			a.null(name)
		}
	}
}

// null skips a value that may only be null: other values are not understood.
func (a *Assembler) null(name []byte) {
	if k := a.cur.kind(); k != 'n' && k != 0 {
		a.foreign(string(name))
		return
	}
	a.cur.skip()
}

// readUsage reads the counts; an invalid count is ignored.
func (a *Assembler) readUsage() {
	for name := range a.cur.object() {
		switch string(name) {
		case "prompt_tokens":
			a.count(&a.usage.Prompt)
		case "completion_tokens":
			a.count(&a.usage.Completion)
		case "prompt_tokens_details":
			for name := range a.cur.object() {
				if string(name) == "cached_tokens" {
					a.count(&a.usage.Cached)
				} else {
					a.cur.skip()
				}
			}
		default:
			a.cur.skip()
		}
	}
}

// maxTokens bounds an accepted count.
const maxTokens = 1 << 40

func (a *Assembler) count(into *int) {
	raw, _ := a.cur.value()
	if n, err := strconv.Atoi(string(raw)); err == nil && n >= 0 && n <= maxTokens {
		*into = n
	}
}

// choice reads one element of the choices. Its index may follow the other members, so their spans are found
// first.
func (a *Assembler) choice() {
	if a.cur.kind() != '{' {
		a.foreign("a choice")
		return
	}
	inner := a.inner()
	index := -1
	var content, finish, stop Span
	for name := range a.cur.object() {
		switch string(name) {
		case "index":
			index = a.index(a.cur)
		case inner:
			_, content = a.cur.value()
		case "finish_reason":
			_, finish = a.cur.value()
		case "stop_reason":
			_, stop = a.cur.value()
		case "matched_stop": // SGLang: a number may also be the id of an ordinary end
			if a.cur.kind() == '0' {
				a.cur.skip()
				continue
			}
			_, stop = a.cur.value()
		default:
			a.null(name)
		}
		if a.err != nil {
			return
		}
	}
	if a.cur.err != nil {
		return // the caller reports the error
	}
	c := a.choiceAt(index)
	if c == nil {
		return
	}
	if c.finish != "" || a.whole && c.seen {
		a.foreign("more of a choice that had ended")
		return
	}
	c.seen = true
	a.content(c, content.Of(a.data))
	if a.err == nil {
		a.ending(c, finish.Of(a.data), stop.Of(a.data))
	}
}

// inner is the member of a choice that holds its content.
func (a *Assembler) inner() string {
	switch {
	case a.kind == Completion:
		return "text"
	case a.whole:
		return "message"
	}
	return "delta"
}

// index reads a small number, or -1.
func (a *Assembler) index(in *cursor) int {
	raw, _ := in.value()
	n, err := strconv.ParseUint(string(raw), 10, 16)
	if err != nil {
		return -1
	}
	return int(n)
}

func (a *Assembler) content(c *growing, raw []byte) {
	switch {
	case a.kind == Completion:
		a.grow(&c.text, raw, "text")
	case len(raw) == 0 || raw[0] != '{':
		a.foreign(a.inner())
	default:
		a.delta(c, raw)
	}
}

// grow appends the text of a JSON string.
func (a *Assembler) grow(into *[]byte, raw []byte, name string) {
	if len(raw) == 0 || raw[0] != '"' {
		a.foreign(name)
		return
	}
	before := len(*into)
	*into = unquote(*into, raw)
	a.spend(len(*into) - before)
}

// ending records how a choice ended, if it has.
func (a *Assembler) ending(c *growing, finish, stop []byte) {
	if len(finish) > 0 && finish[0] == '"' {
		c.finish = finishName(finish)
		if !finishes(c.finish) {
			a.foreign("finish_reason")
			return
		}
	} else if len(finish) > 0 && finish[0] != 'n' {
		a.foreign("finish_reason")
		return
	}
	if a.stop(c, stop); c.finish == "" && c.stop != nil {
		a.foreign("stop_reason")
	}
}

// finishName returns the text of a finish_reason.
func finishName(quoted []byte) string {
	name := plainName(quoted)
	for _, known := range ends {
		if known == string(name) {
			return known
		}
	}
	return string(name)
}

// delta reads what a chunk adds to a choice, or the message of a whole answer. Null counts as absent.
func (a *Assembler) delta(c *growing, raw []byte) {
	a.message, a.sub = raw, borrowCursor(raw)
	defer func() {
		a.sub.release()
		a.message, a.sub = nil, nil
	}()
	var newer, older Span // of the reasoning
	for name := range a.sub.object() {
		if a.sub.kind() == 'n' {
			a.sub.skip()
			continue
		}
		switch string(name) {
		case "role":
			if v, _ := a.sub.value(); string(v) != `"assistant"` {
				a.foreign("role")
			}
		case "content":
			v, _ := a.sub.value()
			a.grow(&c.text, v, "content")
		case asReasoning:
			_, newer = a.sub.value()
		case asReasoningContent:
			_, older = a.sub.value()
		case "tool_calls":
			a.calls(c)
		default:
			a.foreign(string(name))
		}
		if a.err != nil {
			return
		}
	}
	a.reason(c, newer.Of(raw), older.Of(raw))
}

// reason appends reasoning. It may come under both names at once, from engine versions between the two; then
// both are written again. Different texts, or names that change, are not supported.
func (a *Assembler) reason(c *growing, newer, older []byte) {
	before, as := len(c.reasoning), asReasoning
	if len(newer) > 0 {
		a.grow(&c.reasoning, newer, asReasoning)
	}
	if n := len(c.reasoning); a.err == nil && len(older) > 0 && string(older) != `""` {
		as = asReasoningContent
		if n == before {
			a.grow(&c.reasoning, older, as)
		} else if as = asBoth; !bytes.Equal(newer, older) && !says(older, c.reasoning[before:]) {
			a.foreign("reasoning of two texts")
		}
	}
	if a.err != nil || len(c.reasoning) == before {
		return
	}
	if c.as == "" {
		c.as = as
	}
	if c.as != as {
		a.foreign("reasoning of another name")
	}
}

// says reports whether raw JSON is a string with this text.
func says(raw, text []byte) bool {
	return raw[0] == '"' && bytes.Equal(unquote(nil, raw), text)
}

func (a *Assembler) calls(c *growing) {
	if a.sub.kind() != '[' {
		a.foreign("tool_calls")
	}
	for range a.sub.array() {
		if a.call(c); a.err != nil {
			return
		}
	}
}

// callPiece is what a delta adds to a call.
type callPiece struct {
	index          int
	id, kind, name string
	arguments      []byte // quoted
}

// call reads one element of tool_calls.
func (a *Assembler) call(c *growing) {
	if a.sub.kind() != '{' {
		a.foreign("tool_calls")
		return
	}
	p := callPiece{index: -1}
	if a.whole {
		p.index = len(c.calls) // they are in order, and have no index
	}
	for quoted := range a.sub.object() {
		if a.sub.kind() == 'n' {
			a.sub.skip()
			continue
		}
		switch name := string(quoted); name {
		case "index":
			p.index = a.index(a.sub)
		case "id":
			p.id = a.word(name)
		case "type":
			if p.kind = a.word(name); p.kind != "function" && a.err == nil {
				a.foreign(name)
			}
		case "function":
			a.function(&p)
		default:
			a.foreign(name)
		}
		if a.err != nil {
			return
		}
	}
	a.addCall(c, &p)
}

func (a *Assembler) function(p *callPiece) {
	if a.sub.kind() != '{' {
		a.foreign("function")
		return
	}
	for quoted := range a.sub.object() {
		if a.sub.kind() == 'n' {
			a.sub.skip()
			continue
		}
		switch name := string(quoted); name {
		case "name":
			p.name = a.word(name)
		case "arguments":
			_, at := a.sub.value()
			if p.arguments = at.Of(a.message); len(p.arguments) == 0 || p.arguments[0] != '"' {
				a.foreign(name)
			}
		default:
			a.foreign(name)
		}
		if a.err != nil {
			return
		}
	}
}

// word reads a string.
func (a *Assembler) word(name string) string {
	raw, _ := a.sub.value()
	if len(raw) == 0 || raw[0] != '"' {
		a.foreign(name)
		return ""
	}
	return string(unquote(nil, raw))
}

// addCall adds a piece to its call, an existing one or the next.
func (a *Assembler) addCall(c *growing, p *callPiece) {
	if p.index < 0 || p.index > len(c.calls) || p.index >= maxCalls || a.whole && p.index != len(c.calls) {
		a.foreign("a call's index")
		return
	}
	if p.index == len(c.calls) {
		if !a.spend(callSize) {
			return
		}
		c.calls = append(c.calls, growingCall{kind: "function"})
	}
	k := &c.calls[p.index]
	if !a.once(&k.id, p.id) || !a.once(&k.name, p.name) || p.arguments == nil {
		return
	}
	a.grow(&k.arguments, p.arguments, "arguments")
}

// once stores a text that comes once, or is repeated unchanged.
func (a *Assembler) once(into *string, text string) bool {
	switch {
	case text == "" || text == *into:
		return true
	case *into != "":
		a.foreign("a call that changed")
		return false
	}
	*into = text
	return a.spend(len(text))
}
