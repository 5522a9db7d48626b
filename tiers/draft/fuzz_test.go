package draft

import (
	"bytes"
	"testing"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// Whatever an engine sends, what the client has is the beginning of the draft's text, and the target can carry on
// behind it.
func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"choices":[{"delta":{"content":"a ST"},"token_ids":[1,2],"logprobs":{"content":[{"logprob":-0.1,"bytes":[97]},{"logprob":-0.1,"bytes":[32,83,84]}]}}]}
{"choices":[{"delta":{"content":"OP é"},"token_ids":[3],"logprobs":{"content":[{"logprob":-3}]}}],"usage":{"completion_tokens":3}}
{"choices":[{"delta":{},"finish_reason":"length"}]}`), byte(0))
	f.Add([]byte(`{"prompt_token_ids":[1],"choices":[{"delta":{"content":"{"}}]}
{"choices":[{"delta":{"content":"\"a\""},"finish_reason":"stop","stop_reason":"a"}]}`), byte(7))
	f.Fuzz(func(t *testing.T, data []byte, kind byte) {
		if len(data) > 4096 {
			return
		}
		o := options(t, []string{"", `,"stop":["STOP","é"]`, `,"response_format":{"type":"json_object"}`, `,"max_tokens":4`}[kind%4])
		o.Decision.Whole, o.Decision.Checked = kind&4 > 0, kind&8 > 0
		if kind&32 > 0 {
			o.Decision.Resume = plan.ResumeText
		}
		o.Config.HoldbackTokens, o.Decision.Accept.Threshold = int(kind>>6), -3
		d, a := New(o), NewAudit(o, -5)
		p := openai.ChunkParser{Judged: true}
		var sent []byte
		for line := range bytes.Lines(data) {
			c, err := p.Parse(line)
			if err != nil {
				break
			}
			a.Observe(c, false)
			if d.Take(c) {
				break
			}
			if d.Finish() == "" {
				d.Commit(false)
			}
			if d.Committed() && d.State() != Rejected {
				sent = append(sent, d.Release()...)
			}
		}
		v := d.End()
		a.Verdict()
		tr := d.Transcript()
		if !bytes.HasPrefix(tr.Text(), sent) || len(sent) != tr.sent {
			t.Fatalf("sent %q of %q", sent, tr.Text())
		}
		if d.State() == Accepted {
			if rest := tr.Rest(); string(tr.Text()) != string(sent)+string(rest) || d.Ending().Finish == "" {
				t.Fatalf("sent %q and %q of %q", sent, rest, tr.Text())
			}
			return
		}
		at := d.CutPoint(v)
		if tr.Rewind(at); at.Text > tr.Len() || len(tr.IDs()) > at.IDs || !tr.Pending() && tr.Len() < len(sent) {
			t.Fatalf("rewound to %+v: %q, sent %q", at, tr.Text(), sent)
		}
	})
}
