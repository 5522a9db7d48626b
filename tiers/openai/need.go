package openai

import (
	"bytes"
	"path"
	"strconv"
)

// Need is what a request that passes through asks of an engine, in tokens.
type Need struct {
	Prompt    int  // expected of its prompts
	MaxPrompt int  // that its prompts can have
	Answer    int  // expected of its answer, as the request limits it; -1 where it does not
	MaxAnswer int  // that its answer can have; -1 where only the context bounds it
	Computes  bool // an engine computes on the prompt, so that its prefix cache holds it
}

const (
	// maxNumber bounds a number of tokens or choices that a client names, so that products of
	// two stay far from overflow.
	maxNumber = 1 << 24
	// templateTokens is what a chat template or a tool's description may add to a prompt.
	templateTokens = 4096
	// pairTokens is what a template may add to one prompt of many.
	pairTokens = 256
	// mediaTokens is what an image or a clip may come to beyond its bytes.
	mediaTokens = 32 << 10
)

// Need reads what the path's engine reads of the answer's length, and the length of the prompts.
func (e Envelope) Need(at string) Need {
	r := Request{Body: e.body, members: e.members}
	prompts, text := 1, len(e.body)
	n := Need{Answer: -1, MaxAnswer: -1, Computes: true}
	switch kind := path.Base(at); kind {
	case "tokenize", "detokenize", "render", "derender", "count_tokens":
		n.Answer, n.MaxAnswer, n.Computes = 0, 0, false
	case "score", "rerank":
		n.Answer, n.MaxAnswer = 0, 0
		prompts, text = pairs(&r, text)
	case "embeddings", "embed", "pooling", "classify", "generative_scoring":
		n.Answer, n.MaxAnswer = 0, 0
		prompts = max(elements(r.Raw("input")), 1)
	case "responses":
		n.limit(r.count("max_output_tokens"), true)
	case "messages":
		n.limit(r.count("max_tokens"), true)
	default: // which of them this path's engine reads is not known
		most := max(r.count("max_tokens"), r.count("max_completion_tokens"), r.count("max_output_tokens"))
		if choices := r.count("n"); most > 0 && choices > 1 {
			most *= choices
		}
		n.limit(most, false)
	}
	n.Prompt = EstimateTokens(text)
	n.MaxPrompt = text + mediaIn(e.body) + templateTokens + pairTokens*prompts
	return n
}

// limit takes a limit of the answer up, where there is one; sure says that the engine obeys it.
func (n *Need) limit(tokens int, sure bool) {
	if tokens <= 0 {
		return
	}
	if n.Answer = tokens; sure {
		n.MaxAnswer = tokens
	}
}

// MaxPromptTokens is how many tokens the prompts of a generation's body can have: a token has a
// byte at least, and a template and media add what bytes do not show.
func MaxPromptTokens(body []byte) int { return len(body) + mediaIn(body) + templateTokens }

// mediaIn is what media in a body may come to in tokens, beyond its bytes. A letter that is escaped may stand in
// the name of a type.
func mediaIn(body []byte) int {
	parts := escapedLetters(body)
	for _, mark := range []string{`"image`, `"input_`, `"video`, `"audio`, `"file`} {
		parts += bytes.Count(body, []byte(mark))
	}
	return parts * mediaTokens
}

// escapedLetters are the letters, and a few more of ASCII, that a body writes as \u00XX. Clients' libraries write none
// so; a name that is to be overlooked has one.
func escapedLetters(body []byte) (n int) {
	for _, mark := range []string{`\u004`, `\u005`, `\u006`, `\u007`} {
		n += bytes.Count(body, []byte(mark))
	}
	return n
}

// HidesTokens reports whether an answer to a body may lack tokens that were made: the request can ask that what was
// thought is left out.
func HidesTokens(body []byte) bool {
	return bytes.Contains(body, []byte(`"include_reasoning"`)) || escapedLetters(body) > 0
}

// pairs are the prompts of a request for scores, and the bytes of their texts: one query stands
// before each document.
func pairs(r *Request, text int) (prompts, size int) {
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
	prompts = max(documentsIn(documents), 1)
	if elements(query) <= 1 {
		text += (prompts - 1) * len(query)
	}
	return prompts, text
}

// documentsIn are the documents of a value: the elements of a list, and where one is an object those of its content.
func documentsIn(raw []byte) (n int) {
	if len(raw) == 0 || raw[0] != '[' {
		return contents(raw)
	}
	var in cursor
	in.reset(raw)
	for range in.array() {
		document, _ := in.value()
		n += max(contents(document), 1)
	}
	return n
}

// contents are the elements of the list under content of an object; any other value has none.
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

// elements are those of an array; any other value has none.
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

// count is a number of a top-level field, at most maxNumber; -1 where it is absent or no number.
func (r *Request) count(name string) int {
	n, err := strconv.Atoi(string(r.Raw(name)))
	if err != nil || n < 0 {
		return -1
	}
	return min(n, maxNumber)
}

// Bound is the most tokens that one call can have used.
type Bound struct{ Prompt, Answer int }

// Clamp cuts what a backend says that it has used to what can be. A broken backend, or one that
// means harm, must not decide what a tenant owes.
func (b Bound) Clamp(u Usage) Usage {
	prompt := min(max(u.Prompt, 0), b.Prompt)
	return Usage{Prompt: prompt, Completion: min(max(u.Completion, 0), b.Answer), Cached: min(max(u.Cached, 0), prompt)}
}
