package openai

import (
	"bytes"
	"path"
	"strconv"
)

// Need is the number of tokens that a request that [Peek] has read needs of an engine at its path.
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

// measure determines the limits of the answer that the path's engine reads, and the length of the prompts. It refuses
// a list that is too long.
func (s *scanner) measure() {
	r := s.req
	text, input := len(r.Body), "input"
	n := Need{Answer: -1, MaxAnswer: -1, Answers: 1, Computes: true}
	var list prompts
	switch path.Base(s.path) {
	case "tokenize", "detokenize", "render", "derender", "count_tokens":
		n.Answer, n.MaxAnswer, n.Computes = 0, 0, false
	case "score", "rerank":
		n.Answer, n.MaxAnswer = 0, 0
		list = r.pairs()
		text = list.size
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
	case n.Answers > s.lim.Answers:
		s.tooMany(input, "answers (those to each of several prompts together)", n.Answers, s.lim.Answers)
	case list.n > s.lim.Inputs:
		s.tooMany(input, "texts", list.n, s.lim.Inputs)
	}
	n.Bytes, n.Prompt, n.Longest = text, EstimateTokens(text), list.share()
	n.MaxPrompt = text + mediaIn(r.Body) + templateTokens + pairTokens*max(list.n, 1)
	r.Need = n
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

// pairs returns the prompts of a request for scores: each document is preceded by the query.
func (r *Request) pairs() (list prompts) {
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
	list.size = len(r.Body)
	all, isList := Elements(documents)
	if !isList {
		all = append(all, documents)
	}
	for _, document := range all {
		parts, _ := Members(document)
		content, _ := Elements(parts["content"])
		list.n += max(len(content), 1)
		list.longest = max(list.longest, len(document))
	}
	list.n = max(list.n, 1)
	if queries, _ := Elements(query); len(queries) <= 1 {
		list.size += (list.n - 1) * len(query)
		list.longest += len(query)
	}
	return list
}

// count is a number in a top-level field, at most maxNumber; -1 if it is absent or not a number.
func (r *Request) count(name string) int {
	n, err := strconv.Atoi(string(r.Raw(name)))
	if err != nil || n < 0 {
		return -1
	}
	return min(n, maxNumber)
}
