package vllmsim

import (
	"net/http"
	"strconv"
)

// streamer writes one event stream. What never changes in a chunk is built once; a token costs appends and one write.
type streamer struct {
	*call
	rc      *http.ResponseController
	buf     []byte
	pre     []byte // a chunk up to its choice's index
	n       []int  // tokens so far per choice
	offset  []int  // characters so far per choice, for completion logprobs
	prompt  int    // prompt tokens, all prompts
	cached  int    // of the first sequence to answer
	started []bool
	waiting []chunk // per choice: what the next chunk will say
	open    int
	total   int
	sent    bool // the headers are out
}

// stream serves a request as events. The headers go out before the request is queued, as vLLM's do.
func (c *call) stream() {
	st := &streamer{call: c, rc: http.NewResponseController(c.w)}
	if c.s.face == nil {
		st.head200("text/event-stream; charset=utf-8")
		if st.rc.Flush() != nil {
			return
		}
	}
	if c.req.lazy != nil {
		st.fail(c.req.lazy)
		return
	}
	if c.fault.Hang == "stream" && c.fault.AfterTokens == 0 {
		c.stalled()
	}
	if err := c.submit(); err != nil {
		st.fail(err)
		return
	}
	defer c.abort()
	st.prepare()
	var events []event
	for st.open > 0 {
		var ok bool
		if events, ok = c.wait(events); !ok {
			return
		}
		st.buf = st.buf[:0]
		for i := range events {
			if st.dies(&events[i]) {
				return
			}
			st.event(&events[i])
			if st.strikes() {
				return
			}
		}
		if !st.flush() {
			return
		}
	}
	st.buf = st.buf[:0]
	st.end()
	st.flush()
}

// head200 sends the headers of a stream, once.
func (st *streamer) head200(contentType string) {
	if st.sent {
		return
	}
	st.sent = true
	st.w.Header().Set("Content-Type", contentType)
	st.w.WriteHeader(http.StatusOK)
}

func (st *streamer) prepare() {
	k := len(st.jobs)
	st.n, st.offset, st.started, st.open = make([]int, k), make([]int, k), make([]bool, k), k
	st.waiting = make([]chunk, k)
	for _, p := range st.req.prompts {
		st.prompt += len(p)
	}
	object := "text_completion"
	if st.req.chat {
		object = "chat.completion.chunk"
	}
	st.pre = append([]byte("data: "), st.head(object)...)
	if st.req.tokens {
		st.pre = append(appendQuoted([]byte(`data: {"request_id":`), st.req.id), `,"choices":[`...)
	}
	if st.req.echo && !st.req.chat {
		for i := range st.offset {
			st.offset[i] = len([]rune(st.req.texts[i/st.req.n]))
		}
	}
}

func (st *streamer) flush() bool {
	if len(st.buf) == 0 {
		return true
	}
	st.head200("text/event-stream")
	if _, err := st.w.Write(st.buf); err != nil {
		st.gone = true
		return false
	}
	st.gone = st.rc.Flush() != nil
	return !st.gone
}

// strikes plays the faults that come after some tokens; it reports that the stream is over.
func (st *streamer) strikes() bool {
	f := &st.fault
	switch {
	case f.Hang == "stream" && st.total >= f.AfterTokens:
		st.flush()
		st.abort()
		st.stalled()
	case f.CleanEOFAfterTokens > 0 && st.total >= f.CleanEOFAfterTokens:
		st.flush()
		return true
	case f.ErrorEventAfterTokens > 0 && st.total >= f.ErrorEventAfterTokens:
		st.flush()
		st.fail(errEngine)
		return true
	}
	return false
}

// dies ends the stream as the death of the engine does, if ev is that.
func (st *streamer) dies(ev *event) bool {
	if ev.finish == finishDead {
		st.flush()
		st.fail(errDead)
	}
	return ev.finish == finishDead
}

// fail ends the stream with an error event.
func (st *streamer) fail(err *apiError) {
	if !st.sent { // nothing was said yet
		st.s.writeError(st.w, err)
		return
	}
	st.buf = append(st.buf[:0], "data: "...)
	if st.s.face != nil {
		st.buf = append(append(st.buf, st.s.face.fail(err)...), "\n\n"...)
		st.flush()
		return
	}
	st.buf = append(st.buf, err.body()...)
	st.buf = append(st.buf, "\n\ndata: [DONE]\n\n"...)
	st.flush()
}

// event takes in one output and writes the chunks that are due.
func (st *streamer) event(ev *event) {
	st.total++
	if st.total == 1 {
		st.cached = ev.cached
	}
	if st.s.face != nil && st.total == 1 {
		st.values(st.s.face.first(st.call))
	}
	if st.s.face == nil && st.req.chat && !st.started[0] {
		// The role chunks of all choices come with the very first output.
		for i := range st.jobs {
			st.roleChunk(i)
		}
		if st.req.echoText != "" {
			for i := range st.jobs {
				st.echoChunk(i)
			}
		}
	}
	if ev.id >= 0 {
		st.n[ev.choice]++
	}
	c := &st.waiting[ev.choice]
	c.add(ev)
	if due := st.n[ev.choice] <= 1 || c.outputs >= st.s.opts.StreamInterval; !due && ev.finish == "" && ev.part == partText {
		return
	}
	switch {
	case st.s.face != nil:
		st.values(st.s.face.chunk(st.call, c, st.n[ev.choice]))
	case st.req.chat:
		st.chatChunk(c)
	case st.req.tokens:
		st.tokensChunk(c)
	default:
		st.completionChunk(c)
	}
	c.clear()
	st.started[ev.choice] = true
	if ev.finish != "" {
		st.open--
	}
}

// values writes what an engine's face makes of an output.
func (st *streamer) values(list []any) {
	for _, v := range list {
		st.buf = append(st.buf, "data: "...)
		st.buf = append(append(st.buf, st.s.face.encode(v)...), "\n\n"...)
	}
}

// chunk is what one chunk says of a choice: the last output, with the texts, ids and logprobs of all.
type chunk struct {
	event
	outputs int
	ids     []int32
	lps     []*tokenLogprob
}

func (c *chunk) add(ev *event) {
	text := c.text + ev.text
	c.event, c.text = *ev, text
	c.outputs++
	if ev.id >= 0 {
		c.ids = append(c.ids, ev.id)
	}
	if ev.lp != nil {
		c.lps = append(c.lps, ev.lp)
	}
}

func (c *chunk) clear() { *c = chunk{ids: c.ids[:0], lps: c.lps[:0]} }

// begin starts a chunk with its choice's index and returns the buffer; who appends to it puts it back.
func (st *streamer) begin(i int) []byte {
	st.buf = append(st.buf, st.pre...)
	st.buf = append(st.buf, `{"index":`...)
	st.buf = strconv.AppendInt(st.buf, int64(i), 10)
	return st.buf
}

func (st *streamer) roleChunk(i int) {
	st.started[i] = true
	b := st.begin(i)
	b = append(b, `,"delta":{"role":`...)
	b = appendQuoted(b, st.req.role)
	b = append(b, `,"content":""},"logprobs":null,"finish_reason":null}]`...)
	if st.req.continuous {
		b = append(appendUsage(append(b, `,"usage":`...), st.prompt, 0), '}')
	}
	b = append(b, `,"prompt_token_ids":`...)
	b = st.appendPromptIf(b, st.req.prompts[0])
	b = append(b, `,"prompt_text":null}`+"\n\n"...)
	st.buf = b
}

// echoChunk repeats the last message in front of what continues it.
func (st *streamer) echoChunk(i int) {
	b := st.begin(i)
	b = appendQuoted(append(b, `,"delta":{"content":`...), st.req.echoText)
	b = append(b, `},"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
	st.buf = b
}

// chatChunk writes one output of the chat route. Parts of a tool call that a parser swallows give no chunk.
func (st *streamer) chatChunk(ev *chunk) {
	if ev.part == partHidden && ev.finish == "" {
		return
	}
	b := st.begin(ev.choice)
	b = append(b, `,"delta":{`...)
	b = st.appendDelta(b, &ev.event)
	b = append(b, `},"logprobs":`...)
	if len(ev.lps) == 0 {
		b = append(b, "null"...)
	} else {
		b = append(b, `{"content":[`...)
		for i, lp := range ev.lps {
			b = lp.appendChat(appendComma(b, i), st.req.asIDs)
		}
		b = append(b, "]}"...)
	}
	if ev.finish == "" {
		b = append(b, `,"finish_reason":null`...)
	} else {
		b = appendFinish(b, st.finishOf(ev.finish), ev.stop)
	}
	b = append(b, `,"token_ids":`...)
	b = st.appendTokenIDs(b, ev.ids)
	st.chunkTail(append(b, "}]"...), ev)
}

func (st *streamer) appendDelta(b []byte, ev *event) []byte {
	switch ev.part {
	case partName:
		b = append(b, `"tool_calls":[{"id":`...)
		b = appendQuoted(b, st.req.tool.id)
		b = append(b, `,"type":"function","index":0,"function":{"name":`...)
		b = appendQuoted(b, st.req.tool.name)
		return append(b, `,"arguments":""}}]`...)
	case partArgs:
		b = append(b, `"tool_calls":[{"index":0,"function":{"arguments":`...)
		b = appendQuoted(b, ev.text)
		return append(b, `}}]`...)
	case partText, partHidden:
	}
	b = append(b, `"content":`...)
	if ev.part == partHidden {
		return append(b, `""`...)
	}
	return appendQuoted(b, ev.text)
}

func (st *streamer) appendTokenIDs(b []byte, ids []int32) []byte {
	if !st.req.returnIDs {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, id := range ids {
		b = strconv.AppendInt(appendComma(b, i), int64(id), 10)
	}
	return append(b, ']')
}

// chunkTail ends a chunk after its choices.
func (st *streamer) chunkTail(b []byte, ev *chunk) {
	if st.req.continuous {
		i := ev.choice
		b = append(appendUsage(append(b, `,"usage":`...), len(st.req.prompts[i/st.req.n]), st.n[i]), '}')
	}
	if ev.finish != "" && !st.req.usage {
		b = append(b, `,"system_fingerprint":"`+fingerprint+`"`...)
	}
	b = append(b, "}\n\n"...)
	st.buf = b
}

func (st *streamer) completionChunk(ev *chunk) {
	i := ev.choice
	first := !st.started[i]
	text := ev.text
	if st.req.hideGenerated {
		text = ""
	}
	if first && st.req.echo {
		text = st.req.texts[i/st.req.n] + text
	}
	b := st.begin(i)
	b = append(b, `,"text":`...)
	b = appendQuoted(b, text)
	b = append(b, `,"logprobs":`...)
	if len(ev.lps) == 0 {
		b = append(b, "null"...)
	} else {
		lp := completionLogprobs{asIDs: st.req.asIDs, offset: st.offset[i]}
		lp.addAll(ev.lps)
		for _, l := range ev.lps {
			st.offset[i] += len([]rune(l.text))
		}
		b = lp.append(b)
	}
	if ev.finish == "" {
		b = append(b, `,"finish_reason":null,"stop_reason":null`...)
	} else {
		b = appendFinish(b, ev.finish, ev.stop)
	}
	b = append(b, `,"prompt_token_ids":`...)
	if first {
		b = st.appendPromptIf(b, st.req.prompts[i/st.req.n])
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"token_ids":`...)
	b = st.appendTokenIDs(b, ev.ids)
	st.chunkTail(append(b, "}]"...), ev)
}

// end writes the usage chunk, if it was asked for, and the terminator.
func (st *streamer) end() {
	if st.s.face != nil {
		t := spend{prompt: st.prompt, cached: st.cached}
		for _, n := range st.n {
			t.generated += n
		}
		st.values(st.s.face.last(st.call, t))
		st.buf = append(st.buf, "data: [DONE]\n\n"...)
		return
	}
	if st.req.usage {
		tokens := 0
		for _, n := range st.n {
			tokens += n
		}
		st.buf = append(st.buf, st.pre...)
		b := appendUsage(append(st.buf, `],"usage":`...), st.prompt, tokens)
		if st.s.opts.PromptTokensDetails && (st.cached > 0 || st.req.chat) {
			b = st.appendDetails(append(b, `,"prompt_tokens_details":`...), st.cached)
		}
		if !st.req.tokens {
			b = append(b, `},"system_fingerprint":"`+fingerprint+`"`...)
		} else {
			b = append(b, '}')
		}
		b = append(b, "}\n\n"...)
		st.buf = b
	}
	st.buf = append(st.buf, "data: [DONE]\n\n"...)
}
