package openai

import (
	"bytes"
	"fmt"
	"strconv"
)

// logprobs reads the logprobs of a choice in either shape: chat's
// {"content":[{"logprob":…,"top_logprobs":[…]}]} or completions'
// {"token_logprobs":[…],"top_logprobs":[{…}]}.
func (p *ChunkParser) logprobs() {
	if !p.Judged {
		p.skipOther()
		return
	}
	for name := range p.cur.object() {
		switch string(name) {
		case "content":
			list, from := p.cur.kind() == '[', p.cur.at
			for range p.cur.array() {
				p.contentToken()
			}
			if list {
				p.alike.hole(holeTokens, Span{from, p.cur.last})
			}
		case "token_logprobs":
			for range p.cur.array() {
				p.chunk.Logprobs = append(p.chunk.Logprobs, p.nats())
			}
			p.alike.odd = true
		case "top_logprobs":
			p.alike.odd = true
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
	p.token.begin(p.cur.at)
	size := 0
	for name := range p.cur.object() {
		switch string(name) {
		case "bytes":
			raw, at := p.cur.value()
			if len(raw) > len("[]") && raw[0] == '[' {
				size = bytes.Count(raw, []byte{','}) + 1
			}
			p.token.list(holeSize, raw, at)
		case "logprob":
			raw, at := p.cur.value()
			p.chunk.Logprobs = append(p.chunk.Logprobs, nats(raw))
			p.token.number(holeLogprob, raw, at)
		case "id":
			raw, at := p.cur.value()
			if !p.LogprobIDs || len(raw) == 0 || kindOf[raw[0]] != '0' {
				p.token.other(raw, at)
				continue
			}
			if p.token.hole(holeID, at); !p.addID(raw) && p.cur.err == nil {
				p.cur.fail(fmt.Errorf("token id %s: %w", clip(string(raw), longestNumber), errNotChunk))
			}
		case "top_logprobs":
			list, from := p.cur.kind() == '[', p.cur.at
			p.alternativesOf()
			if list {
				p.token.hole(holeAlternatives, Span{from, p.cur.last})
			}
		default:
			p.token.string(p.cur.value())
		}
	}
	p.token.end(&p.cur)
	p.chunk.endToken(size)
}

// alternativesOf reads the alternatives of a token, if they are wanted.
func (p *ChunkParser) alternativesOf() {
	if p.NoTop {
		p.cur.skip()
		return
	}
	for range p.cur.array() {
		p.alternative()
	}
}

func (p *ChunkParser) alternative() {
	p.expectObject()
	p.alternatives.begin(p.cur.at)
	for name := range p.cur.object() {
		switch string(name) {
		case "logprob":
			raw, at := p.cur.value()
			p.chunk.tops = append(p.chunk.tops, nats(raw))
			p.alternatives.number(holeTop, raw, at)
		case "bytes":
			raw, at := p.cur.value()
			p.alternatives.list(holeInts, raw, at)
		default:
			p.alternatives.other(p.cur.value())
		}
	}
	p.alternatives.end(&p.cur)
}

// addID adds the id of a token. It reports whether it is one.
func (p *ChunkParser) addID(raw []byte) bool {
	id, err := strconv.ParseInt(string(raw), 10, 32)
	if err == nil {
		p.chunk.IDs = append(p.chunk.IDs, int32(id))
	}
	return err == nil
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
