package openai

// Tokens is how many tokens a chunk adds to an answer that already has before tokens: the listed ones, or the
// growth of the engine's own count. If an engine reports neither, a chunk with text counts as one token,
// which is never too many, and told is false.
func (c *Chunk) Tokens(before int) (n int, reported bool) {
	if n = max(len(c.IDs), len(c.Logprobs)); n > 0 {
		return n, true
	}
	if grown := c.Usage.Completion - before; c.HasUsage && c.Choices > 0 && grown > 0 {
		return min(grown, len(c.Text)+1), true // a token has at least a byte, except the one that ends the answer
	}
	if len(c.Text) > 0 {
		return 1, false
	}
	return 0, true
}

// TokensPast counts the tokens of a chunk that begin after this many bytes of its text, if the bytes are
// reported: an engine that had detected a stop string there would not have made them.
func (c *Chunk) TokensPast(text int) (n int) {
	from := len(c.Text)
	for i := len(c.TokenBytes) - 1; i > 0; i-- {
		if from -= c.TokenBytes[i]; from >= text {
			n++
		}
	}
	if len(c.TokenBytes) == 0 || from != c.TokenBytes[0] {
		return 0 // the tokens' bytes differ from the text
	}
	return n
}

// BytesReported reports whether each of a chunk's tokens has its bytes, an id and a logprob, and the bytes
// together are the chunk's text.
func (c *Chunk) BytesReported() bool {
	size := 0
	for _, n := range c.TokenBytes {
		size += n
	}
	n := len(c.TokenBytes)
	return size == len(c.Text) && n == len(c.IDs) && n == len(c.Logprobs)
}
