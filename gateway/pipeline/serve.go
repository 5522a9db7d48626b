package pipeline

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
)

// serve sends a cached answer. served is false if the answer cannot be read: then it counts as missing.
func (q *request) serve(e *cache.Entry, result cache.Result) (served bool, err error) {
	whole, err := openai.ParseWhole(e.Answer)
	if err != nil || !q.share.allows(e) {
		return false, nil
	}
	q.count(result, e)
	q.record.Entry = e
	now := q.p.o.World.Now()
	h := ResponseHead{
		Stream: q.Body.Stream, Tier: e.Tier, Acceptance: e.Acceptance, FromCache: true, Age: max(now.Sub(e.Created), 0),
		Timing: Timing{Cache: q.record.Lookup, Total: now.Sub(q.Began)},
	}
	whole.Usage.Cached = whole.Usage.Prompt
	extra := extraOf(e, result, h.Age)
	f := openai.NewFramer(q.Body.Kind, q.ID, q.Route.Model, e.Created.Unix()).WithNulls(q.Route.Target.WritesNulls()) // with this request's own id
	room, _ := bodies.Get().(*[]byte)
	defer bodies.Put(room)
	body := (*room)[:0]
	if q.Body.Stream {
		body = f.WholeStream(body, whole, extra, q.Body.IncludeUsage)
	} else {
		body = f.Whole(body, whole, extra)
		h.Length = int64(len(body))
	}
	if cap(body) <= maxBody {
		*room = body
	}
	if err := q.client.Begin(h); err != nil {
		return true, err
	}
	return true, q.client.Write(body)
}

// bodies is a pool of buffers for answers: they would be half of the bytes that a hit allocates
// (BenchmarkCost).
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// maxBody is the largest buffer that is reused, in bytes.
const maxBody = 64 << 10

// extraOf is the object "foregate" of an answer that was not made for this request.
func extraOf(e *cache.Entry, result cache.Result, age time.Duration) []byte {
	word, rest, _ := strings.Cut(e.Acceptance, ";")
	b := openai.AppendQuote(append(make([]byte, 0, 192), `{"tier":`...), e.Tier)
	b = appendField(b, "accepted_tokens", int64(e.Accepted))
	b = appendField(b, "target_tokens", int64(e.Target))
	b = openai.AppendQuote(append(b, `,"acceptance":`...), word)
	for part := range strings.SplitSeq(rest, ";") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "phase":
			b = openai.AppendQuote(append(b, `,"phase":`...), value)
		case "reason":
			b = openai.AppendQuote(append(b, `,"reason":`...), value)
		case "score":
			if nats, err := strconv.ParseFloat(value, 64); err == nil {
				b = strconv.AppendFloat(append(b, `,"score":`...), nats, 'f', 3, 64)
			}
		}
	}
	b = openai.AppendQuote(append(b, `,"cache":`...), string(result))
	return append(appendField(b, "age_s", int64(age/time.Second)), '}')
}

func appendField(b []byte, name string, v int64) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, v, 10)
}
