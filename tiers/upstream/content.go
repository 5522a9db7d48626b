package upstream

import (
	"bytes"
	"io"

	"github.com/foregate/foregate/tiers/openai"
)

// maxCopied is the size up to which the pieces of a body are joined, in bytes. net/http sends the head of a request
// together with a body in one piece, and alone before another one: that costs a write more than to copy a small body.
const maxCopied = 64 << 10

// content is the body of a request.
type content struct {
	joined []byte
	pieces [][]byte // instead of joined
}

// newContent returns the content of a body. It shares the memory of a large one, so that is not held twice.
func newContent(body *openai.Pieces) content {
	if body.Len() <= maxCopied {
		return content{joined: body.Bytes()}
	}
	return content{pieces: body.Append(nil)}
}

// reader returns a reader of the whole content. net/http may still read it after the response was closed.
func (c *content) reader() io.Reader {
	if c.pieces == nil {
		return bytes.NewReader(c.joined)
	}
	readers := make([]io.Reader, len(c.pieces))
	for i, p := range c.pieces {
		readers[i] = bytes.NewReader(p)
	}
	return io.MultiReader(readers...)
}
