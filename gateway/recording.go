package gateway

import (
	"strconv"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/receipt"
)

// recording takes down an answer while it goes to the client, for the cache and for whoever waits for the same.
type recording struct {
	made *openai.Assembler
	lead *cache.Lead // nil: nobody can follow
	most int         // bytes
	told int         // bytes of text
	now  func() time.Time
}

var _ tiers.Tap = (*recording)(nil)

func newRecording(x *exchange, lead *cache.Lead) *recording {
	most := max(x.cfg.MaxEntry, cache.LeastTold)
	r := &recording{made: openai.NewAssembler(x.req.Kind, most), lead: lead, most: most, now: x.g.now}
	r.made.Want(x.req.Choices())
	return r
}

// Text implements tiers.Tap.
func (r *recording) Text(text []byte) {
	r.made.Text(text)
	if r.lead == nil || len(text) == 0 {
		return
	}
	if r.told += len(text); r.told > r.most {
		r.lead.Opaque() // nobody holds more than that for others
		return
	}
	r.lead.Append(text)
}

// Chunk implements tiers.Tap.
func (r *recording) Chunk(chunk []byte) {
	r.made.Chunk(chunk)
	if r.lead != nil {
		r.lead.Opaque()
	}
}

// Body implements tiers.Tap.
func (r *recording) Body(answer []byte) { r.made.Body(answer) }

// End implements tiers.Tap.
func (r *recording) End(e openai.Ending) { r.made.End(e) }

// entry is the answer that was taken down, once the cascade has said that it is whole, as it is kept and as it is
// read. Both are nil where it is not understood, or too large.
func (r *recording) entry(rc *receipt.Receipt) (*cache.Entry, *openai.Whole) {
	whole, err := r.made.Whole()
	if err != nil || rc == nil {
		return nil, nil
	}
	return &cache.Entry{
		Created: r.now().Truncate(time.Millisecond), Tier: string(rc.Tier), Acceptance: rc.Acceptance(), Finish: rc.Finish,
		Prompt: rc.PromptTokens, Accepted: rc.AcceptedTokens, Target: rc.TargetTokens, USD: rc.USD, Answer: whole.Append(nil),
	}, whole
}

// noClient takes what nobody reads.
type noClient struct{}

func (noClient) Begin(tiers.Head) error { return nil }
func (noClient) Write([]byte) error     { return nil }

// wholeAgeOf is the value of Age.
func wholeAgeOf(age time.Duration) string { return strconv.FormatInt(int64(age/time.Second), 10) }

func appendField(b []byte, name string, v int64) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, v, 10)
}
