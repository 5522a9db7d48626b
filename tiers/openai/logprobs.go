package openai

import (
	"strconv"
)

// logprobs reads the logprobs of a choice in either shape: chat's
// {"content":[{"logprob":…,"top_logprobs":[…]}]} or completions'
// {"token_logprobs":[…],"top_logprobs":[{…}]}.
func (p *ChunkParser) logprobs() {
	if !p.Judged {
		p.cur.skip()
		return
	}
	for name := range p.cur.object() {
		switch string(name) {
		case "content":
			for range p.cur.array() {
				p.contentToken()
			}
		case "token_logprobs":
			for range p.cur.array() {
				p.chunk.Logprobs = append(p.chunk.Logprobs, p.nats())
			}
		case "tokens":
			for range p.cur.array() {
				raw, _ := p.cur.value()
				p.chunk.Told.add(raw)
			}
		case "top_logprobs":
			if p.NoTop {
				p.cur.skip()
				continue
			}
			p.topMaps()
		default:
			p.cur.skip()
		}
	}
	for len(p.chunk.topEnd) < len(p.chunk.Logprobs) {
		p.chunk.topEnd = append(p.chunk.topEnd, len(p.chunk.tops))
	}
}

func (p *ChunkParser) contentToken() {
	p.expectObject()
	size, from := 0, len(p.chunk.Told.Text)
	for name := range p.cur.object() {
		switch string(name) {
		case "token":
			raw, _ := p.cur.value()
			if size == 0 {
				p.chunk.Told.Text = appendToken(p.chunk.Told.Text[:from], raw)
			}
		case "bytes":
			if p.cur.kind() != '[' {
				p.cur.skip()
				continue
			}
			told := p.chunk.Told.Text[:from]
			for range p.cur.array() {
				raw, _ := p.cur.value()
				b, _ := strconv.ParseUint(string(raw), 10, 8) // what is no byte agrees with no text
				told = append(told, byte(b))
			}
			if size = len(told) - from; size > 0 { // they are more exact than the token
				p.chunk.Told.Text = told
			}
		case "logprob":
			p.chunk.Logprobs = append(p.chunk.Logprobs, p.nats())
		case "id":
			raw, _ := p.cur.value()
			if p.LogprobIDs && len(raw) > 0 && kindOf[raw[0]] == '0' {
				p.chunk.IDs = p.addID(p.chunk.IDs, raw)
			}
		case "top_logprobs":
			if p.NoTop {
				p.cur.skip()
				continue
			}
			for range p.cur.array() {
				p.alternative()
			}
		default:
			p.cur.skip()
		}
	}
	p.chunk.Told.end(from)
	p.chunk.endToken(size)
}

func (p *ChunkParser) alternative() {
	p.expectObject()
	for name := range p.cur.object() {
		if string(name) == "logprob" {
			p.chunk.tops = append(p.chunk.tops, p.nats())
		} else {
			p.cur.skip()
		}
	}
}

// topMaps reads completions' list of {token text: logprob}.
func (p *ChunkParser) topMaps() {
	for range p.cur.array() {
		for range p.cur.object() {
			p.chunk.tops = append(p.chunk.tops, p.nats())
		}
		p.chunk.topEnd = append(p.chunk.topEnd, len(p.chunk.tops))
	}
}

// noLogprob replaces a logprob that is missing or not a number: vLLM's own value for minus infinity.
// tiers/accept treats it as a token without one.
const noLogprob = -9999

func (p *ChunkParser) nats() float64 {
	raw, _ := p.cur.value()
	return nats(raw)
}

func nats(raw []byte) float64 {
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || v > 0 || v < noLogprob {
		if err == nil && v > 0 && v < 1e-3 {
			return 0 // rounding
		}
		return noLogprob
	}
	return v
}
