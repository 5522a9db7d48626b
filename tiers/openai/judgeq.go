package openai

import (
	"bytes"
	"fmt"
	"math"
)

// judgeQuestion is the question to the judge after an answer.
const judgeQuestion = "Is the previous answer correct, complete and in the requested format? Answer yes or no."

// judgeTop is how many of the judge's alternatives are read: "Yes", "yes", "No", "no" and one more.
const judgeTop = "5"

// judged are the fields of a request that say how its messages become a prompt. No other field is sent to the
// judge, because it could change the judge's single token: stop strings, tools, formats and penalties.
var judged = []string{"chat_template", "chat_template_kwargs", "documents", "media_io_kwargs", "mm_processor_kwargs"}

// JudgeQuestion asks a model whether the answer to a request is good.
type JudgeQuestion struct {
	Model    string
	Request  *Request
	Answer   []byte
	Salt     string // "" is not sent
	Priority *int64 // nil is not sent
	Set      []Edit // members in place of the request's: how an engine is told not to think first
	Plain    bool   // the request's arguments of the chat template are not sent
}

// Body appends the question as a chat: the request's messages, the answer, and the question, for [Chat]'s path; read the
// answer with [ParseJudge]. A completion's prompt is the chat's only message.
func (q *JudgeQuestion) Body(dst []byte) []byte {
	r := q.Request
	dst = append(dst, `{"model":`...)
	dst = quote(dst, q.Model)
	dst = append(dst, `,"messages":`...)
	if r.Kind == Chat {
		with := r.Extended(q.Answer)
		dst = append(dst, with[:len(with)-1]...)
	} else {
		dst = append(dst, `[{"role":"user","content":`...)
		dst = quote(dst, r.Text())
		dst = append(dst, `},{"role":"assistant","content":`...)
		dst = quote(dst, q.Answer)
		dst = append(dst, '}')
	}
	dst = append(dst, `,{"role":"user","content":"`+judgeQuestion+`"}]`...)
	for _, name := range judged {
		if m, ok := r.member(name); ok && !m.drop && !q.Plain && r.Kind == Chat && !edited(q.Set, name) {
			dst = append(dst, ',')
			dst = append(dst, m.whole.Of(r.Body)...)
		}
	}
	for _, e := range q.Set {
		dst = append(quote(append(dst, ','), e.Name), ':')
		dst = append(dst, e.Value...)
	}
	dst = append(dst, `,"max_tokens":1,"temperature":0,"logprobs":true,"top_logprobs":`+judgeTop+`,"stream":false`...)
	return appendScheduling(dst, "cache_salt", q.Salt, q.Priority)
}

// ParseJudge reads the judge's confidence that an answer is good, from the alternatives of its single token:
// the log-odds of yes against no, in nats, summed over their spellings. If one of the two is not listed, the
// lowest listed logprob is its upper bound and is used. An error matches [ErrScores], also if neither is
// listed.
func ParseJudge(body []byte) (logOdds float64, err error) {
	p := judgeParser{cur: borrowCursor(nil), yes: math.Inf(-1), no: math.Inf(-1)}
	defer p.cur.release()
	p.cur.resetLenient(body)
	if p.cur.kind() != '{' {
		p.cur.token() // reports a syntax error, if it is one
		p.cur.fail(errNotObject)
	}
	p.at("choices", func() {
		p.firstOf(func() {
			p.at("logprobs", func() {
				p.at("content", func() {
					p.firstOf(func() { p.at("top_logprobs", p.alternatives) })
				})
			})
		})
	})
	p.cur.end()
	switch {
	case p.err != nil:
		return 0, fmt.Errorf("judge: %w", p.err)
	case p.cur.err != nil:
		return 0, fmt.Errorf("judge: %w: %w", ErrScores, p.cur.err)
	case math.IsInf(p.yes, -1) && math.IsInf(p.no, -1):
		return 0, fmt.Errorf("judge: %w: neither yes nor no is listed", ErrScores)
	case math.IsInf(p.yes, -1):
		p.yes = p.minLogprob
	case math.IsInf(p.no, -1):
		p.no = p.minLogprob
	}
	return p.yes - p.no, nil
}

// judgeParser parses a chat answer.
type judgeParser struct {
	cur        *cursor
	err        error // the first error
	yes, no    float64
	minLogprob float64 // of the listed logprobs
}

// at reads the members of an object: the named one with read, the others are skipped.
func (p *judgeParser) at(name string, read func()) {
	for n := range p.cur.object() {
		if string(n) == name {
			read()
			continue
		}
		p.cur.skip()
	}
}

// firstOf reads the first element of an array with read, the others are skipped.
func (p *judgeParser) firstOf(read func()) {
	for i := range p.cur.array() {
		if i == 0 {
			read()
			continue
		}
		p.cur.skip()
	}
}

// alternatives reads the judge's alternatives. If there are two such lists, the last one counts.
func (p *judgeParser) alternatives() {
	p.yes, p.no, p.minLogprob = math.Inf(-1), math.Inf(-1), 0
	var word []byte
	for range p.cur.array() {
		nats, reported := 0.0, false
		word = word[:0]
		for name := range p.cur.object() {
			switch string(name) {
			case "token":
				if raw, _ := p.cur.value(); len(raw) > 0 && raw[0] == '"' {
					word = unquote(word[:0], raw)
				}
			case "logprob":
				raw, _ := p.cur.value()
				v, err := scoreNats(raw)
				if nats, reported = v, true; err != nil && p.err == nil {
					p.err = err
				}
			default:
				p.cur.skip()
			}
		}
		if !reported && p.err == nil {
			p.err = fmt.Errorf("%w: a token has no logprob", ErrScores)
		}
		p.minLogprob = min(p.minLogprob, nats)
		switch verdict(word) {
		case "yes":
			p.yes = logAdd(p.yes, nats)
		case "no":
			p.no = logAdd(p.no, nats)
		}
	}
}

// verdict is the token without case, white space and quotes, if it is yes or no.
func verdict(token []byte) string {
	switch token = bytes.Trim(token, " \t\r\n\"'`*“”‘’«»"); {
	case bytes.EqualFold(token, []byte("yes")):
		return "yes"
	case bytes.EqualFold(token, []byte("no")):
		return "no"
	}
	return ""
}

// logAdd is the logarithm of the sum of two probabilities, whose logarithms are given.
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}
