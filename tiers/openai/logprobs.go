package openai

import "strconv"

// logprobs reads the logprobs of a choice in either shape: chat's
// {"content":[{"logprob":…,"top_logprobs":[…]}]} or completions'
// {"token_logprobs":[…],"top_logprobs":[{…}]}.
func (p *ChunkParser) logprobs() {
	if !p.Judged {
		p.cur.skip()
		return
	}
	if !p.cur.open('{') {
		return
	}
	for p.cur.more() {
		name, _ := p.cur.name()
		if p.cur.err != nil {
			return
		}
		switch string(plainName(name)) {
		case "content":
			for ok := p.cur.open('['); ok && p.cur.more(); {
				p.contentToken()
			}
		case "token_logprobs":
			for ok := p.cur.open('['); ok && p.cur.more(); {
				p.chunk.Logprobs = append(p.chunk.Logprobs, p.nats())
			}
		case "top_logprobs":
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
	if !p.cur.enter('{') {
		p.refuse()
		return
	}
	for p.cur.more() {
		name, _ := p.cur.name()
		if p.cur.err != nil {
			return
		}
		switch string(plainName(name)) {
		case "logprob":
			p.chunk.Logprobs = append(p.chunk.Logprobs, p.nats())
		case "top_logprobs":
			for ok := p.cur.open('['); ok && p.cur.more(); {
				p.alternative()
			}
		default:
			p.cur.skip()
		}
	}
	p.chunk.topEnd = append(p.chunk.topEnd, len(p.chunk.tops))
}

func (p *ChunkParser) alternative() {
	if !p.cur.enter('{') {
		p.refuse()
		return
	}
	for p.cur.more() {
		name, _ := p.cur.name()
		if p.cur.err != nil {
			return
		}
		if string(plainName(name)) == "logprob" {
			p.chunk.tops = append(p.chunk.tops, p.nats())
			continue
		}
		p.cur.skip()
	}
}

// topMaps reads completions' list of {token text: logprob}.
func (p *ChunkParser) topMaps() {
	if !p.cur.open('[') {
		return
	}
	for p.cur.more() {
		for ok := p.cur.open('{'); ok && p.cur.more(); {
			p.cur.name()
			p.chunk.tops = append(p.chunk.tops, p.nats())
		}
		p.chunk.topEnd = append(p.chunk.topEnd, len(p.chunk.tops))
	}
}

// noLogprob stands for a logprob that is missing or no number: vLLM's own
// stand-in for minus infinity.
const noLogprob = -9999

func (p *ChunkParser) nats() float64 {
	raw, _ := p.cur.value()
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || v > 0 || v < noLogprob {
		if err == nil && v > 0 && v < 1e-3 {
			return 0 // rounding
		}
		return noLogprob
	}
	return v
}
