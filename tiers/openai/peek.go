package openai

import (
	"bytes"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Envelope is everything that the gateway needs of a forwarded request.
type Envelope struct {
	Name string // the model asked for

	body    []byte
	model   Span // position of its value, quotes included
	members []member
	drops   bool // some member must not be forwarded
	own     bool // some member is the gateway's own to serve
	need    Need
}

// Own reports whether a member is one of [Limits.Own]: no engine may get it.
func (e Envelope) Own() bool { return e.own }

// Bytes is the length of the body.
func (e Envelope) Bytes() int { return len(e.body) }

// Peek reads the model of a JSON request to a path strictly and checks the rest like [Scan]: fields that
// control an engine are removed. What is refused in a generation request is refused here, too, including
// anything that a backend would fetch, because it could be an address inside the cluster. The error is always
// a *RequestError.
func Peek(path string, body []byte, lim Limits) (Envelope, error) {
	c := borrowCursor(body)
	defer c.release()
	c.maxDepth = lim.Depth
	w := walker{cur: c, body: body, lim: lim}
	env := Envelope{body: body}
	for w.members(len(env.members)) {
		env.read(&w, path)
	}
	if w.ended(env.Name != ""); c.err == nil {
		w.allowed(env.Name)
		env.needAt(&w, path)
	}
	if err := w.failed(); err != nil {
		return Envelope{}, err
	}
	return env, nil
}

// read reads one top-level member.
func (e *Envelope) read(w *walker, path string) {
	quoted, at := w.cur.value()
	if w.cur.err != nil {
		return
	}
	m := member{name: string(plainName(quoted))}
	switch kind := w.cur.kind(); {
	case m.name == "model" && kind != '"' && kind != 0:
		w.cur.fail(wrongType(m.name, "a string", kind))
	case m.name == "model":
		var raw []byte
		if raw, m.value = w.cur.value(); w.cur.err == nil {
			e.Name, e.model = string(unquote(nil, raw)), m.value
		}
	case strings.EqualFold(m.name, "model"):
		w.bad(clip(m.name, maxName), "duplicate_key", "The field %q must be written \"model\".", clip(m.name, maxName))
	default:
		rule, own := LookupFieldIn(path, m.name), slices.Contains(w.lim.Own, m.name)
		if own {
			rule = Field{}
		}
		m.drop, m.value = w.field(m.name, rule)
		e.own = e.own || own && string(m.value.Of(w.body)) != "null"
	}
	m.whole = Span{at.Start, m.value.End}
	e.members = append(e.members, m)
	e.drops = e.drops || m.drop
}

// Apply appends the body with another model name and further edits. All other bytes are copied, except for
// removed or added members.
func (e Envelope) Apply(dst []byte, model string, more ...Edit) []byte {
	if !e.drops && len(more) == 0 {
		dst = append(dst, e.body[:e.model.Start]...)
		dst = AppendQuote(dst, model)
		return append(dst, e.body[e.model.End:]...)
	}
	r := Request{Body: e.body, members: e.members}
	return r.Apply(dst, append(more, Edit{"model", Quote(model)})...)
}

// Need is the number of tokens that a forwarded request needs of an engine.
type Need struct {
	Bytes     int     // of the text of its prompts
	Prompt    int     // expected for its prompts
	MaxPrompt int     // maximum for its prompts
	Longest   float64 // how much of the prompts the longest one is, 0 … 1: an engine holds each of them on its own
	Answers   int     // that it makes, at least 1; each has the limit
	Answer    int     // expected for one answer, from the request's limit; -1 without a limit
	MaxAnswer int     // maximum for one answer; -1 if only the context bounds it
	Computes  bool    // the prompt is computed by the engine, so that its prefix cache holds it
}

const (
	// maxNumber bounds a client's number of tokens or choices, so that products of two cannot overflow.
	maxNumber = 1 << 24
	// templateTokens is the maximum that a chat template or a tool's description adds to a prompt.
	templateTokens = 4096
	// pairTokens is the maximum that a template adds to one prompt of many.
	pairTokens = 256
	// mediaTokens is the maximum for an image or a clip besides its bytes.
	mediaTokens = 32 << 10
)

// Need is what the request needs of an engine at its path.
func (e Envelope) Need() Need { return e.need }

// needAt determines the limits of the answer that the path's engine reads, and the length of the prompts. It refuses
// a list that is too long.
func (e *Envelope) needAt(w *walker, at string) {
	r := Request{Body: e.body, members: e.members}
	text, input := len(e.body), "input"
	n := Need{Answer: -1, MaxAnswer: -1, Answers: 1, Computes: true}
	var list prompts
	switch kind := path.Base(at); kind {
	case "tokenize", "detokenize", "render", "derender", "count_tokens":
		n.Answer, n.MaxAnswer, n.Computes = 0, 0, false
	case "score", "rerank":
		n.Answer, n.MaxAnswer = 0, 0
		list, text = pairs(&r, text)
	case "embeddings", "embed", "pooling", "classify", "generative_scoring":
		n.Answer, n.MaxAnswer = 0, 0
		list, _ = readPrompts(r.Raw(input))
	case "responses":
		n.limit(r.count("max_output_tokens"), true)
	case "messages":
		n.limit(r.count("max_tokens"), true)
	default: // unknown which of them this path's engine reads
		n.limit(max(r.count("max_tokens"), r.count("max_completion_tokens"), r.count("max_output_tokens")), false)
		list, input = r.promptsOfAnyName()
		n.Answers = max(r.count("n"), r.count("best_of"), 1) * max(list.n, 1)
	}
	switch {
	case n.Answers > w.lim.Answers:
		w.tooMany(input, "answers (those to each of several prompts together)", n.Answers, w.lim.Answers)
	case list.n > w.lim.Inputs:
		w.tooMany(input, "texts", list.n, w.lim.Inputs)
	}
	n.Bytes, n.Prompt, n.Longest = text, EstimateTokens(text), list.share()
	n.MaxPrompt = text + mediaIn(e.body) + templateTokens + pairTokens*max(list.n, 1)
	e.need = n
}

// tooMany refuses a request for more than an engine is asked for at once.
func (w *walker) tooMany(field, what string, n, most int) {
	w.bad(field, "invalid_value", "The request asks for %d %s. One request may ask for %d: send several.", n, what, most)
}

// promptsOfAnyName reads the longest list of prompts under one of the names that engines give it.
func (r *Request) promptsOfAnyName() (most prompts, name string) {
	name = "prompt"
	for _, field := range []string{"prompt", "prompts", "text", "input", "input_ids", "token_ids"} {
		if list, _ := readPrompts(r.Raw(field)); list.n > most.n {
			most, name = list, field
		}
	}
	return most, name
}

// limit applies a limit of the answer, if there is one; sure means that the engine obeys it.
func (n *Need) limit(tokens int, sure bool) {
	if tokens <= 0 {
		return
	}
	if n.Answer = tokens; sure {
		n.MaxAnswer = tokens
	}
}

// MaxPromptTokens is the maximum number of tokens in the prompts of a generation's body: a token has at least
// a byte; a template and media add tokens that are not visible in the bytes.
func MaxPromptTokens(body []byte) int { return len(body) + mediaIn(body) + templateTokens }

// mediaIn is the maximum number of tokens of media in a body, besides its bytes. An escaped letter may be
// part of the name of a type.
func mediaIn(body []byte) int {
	parts := escapedLetters(body)
	for _, mark := range []string{`"image`, `"input_`, `"video`, `"audio`, `"file`} {
		parts += bytes.Count(body, []byte(mark))
	}
	return parts * mediaTokens
}

// escapedLetters counts the letters, and a few more ASCII characters, that a body writes as \u00XX. Client
// libraries never do that; a name that tries to hide contains one.
func escapedLetters(body []byte) (n int) {
	for _, mark := range []string{`\u004`, `\u005`, `\u006`, `\u007`} {
		n += bytes.Count(body, []byte(mark))
	}
	return n
}

// HidesTokens reports whether an answer to a body may lack generated tokens: the request can ask to omit the
// reasoning.
func HidesTokens(body []byte) bool {
	return bytes.Contains(body, []byte(`"include_reasoning"`)) || escapedLetters(body) > 0
}

// pairs returns the prompts of a request for scores, and the bytes of their texts: each document is preceded by the query.
func pairs(r *Request, text int) (list prompts, size int) {
	var query, documents []byte
	for _, name := range []string{"query", "queries", "text_1", "data_1"} {
		if raw := r.Raw(name); raw != nil {
			query = raw
		}
	}
	for _, name := range []string{"documents", "items", "text_2", "data_2"} {
		if raw := r.Raw(name); raw != nil {
			documents = raw
		}
	}
	list = documentsIn(documents)
	if elements(query) <= 1 {
		text += (list.n - 1) * len(query)
		list.longest += len(query)
	}
	list.size = text
	return list, text
}

// documentsIn reads the documents of a value: the elements of a list, for an object, those of its content, else one.
func documentsIn(raw []byte) prompts {
	if len(raw) == 0 || raw[0] != '[' {
		return prompts{n: max(contents(raw), 1), longest: len(raw)}
	}
	var p prompts
	var in cursor
	in.reset(raw)
	for range in.array() {
		document, _ := in.value()
		p.n += max(contents(document), 1)
		p.longest = max(p.longest, len(document))
	}
	p.n = max(p.n, 1)
	return p
}

// contents counts the elements of the list under content of an object; other values have none.
func contents(raw []byte) (n int) {
	if len(raw) <= len(`{"content":[]}`) || raw[0] != '{' {
		return 0
	}
	var in cursor
	in.reset(raw)
	for name := range in.object() {
		content := string(name) == "content"
		if value, _ := in.value(); content {
			n = elements(value)
		}
	}
	return n
}

// elements counts the elements of an array; other values have none.
func elements(raw []byte) (n int) {
	if len(raw) == 0 || raw[0] != '[' {
		return 0
	}
	var in cursor
	in.reset(raw)
	for range in.array() {
		in.skip()
		n++
	}
	return n
}

// count is a number in a top-level field, at most maxNumber; -1 if it is absent or not a number.
func (r *Request) count(name string) int {
	n, err := strconv.Atoi(string(r.Raw(name)))
	if err != nil || n < 0 {
		return -1
	}
	return min(n, maxNumber)
}

// Bound is the maximum number of tokens that one call can have used.
type Bound struct{ Prompt, Answer int }

// Clamp limits the usage that a backend reports to what is possible. A broken or malicious backend must not
// decide a tenant's charge.
func (b Bound) Clamp(u Usage) Usage {
	prompt := min(max(u.Prompt, 0), b.Prompt)
	return Usage{Prompt: prompt, Completion: min(max(u.Completion, 0), b.Answer), Cached: min(max(u.Cached, 0), prompt)}
}
