package openai

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// judgeQuestion is the question to the judge after an answer. Beside an answer of its own the judge is asked to compare both.
const (
	judgeQuestion = "Is the previous answer correct, complete and in the requested format? Answer yes or no."
	judgeBeside   = "Another answer to the same request is:\n\n"
	judgeCompares = "\n\nDo both answers say the same? Answer yes or no."
)

// judgeTop is how many of the judge's alternatives are read: "Yes", "yes", "No", "no" and one more.
const judgeTop = "5"

// judged are the fields of a request that say how its messages become a prompt. No other field is sent to the
// judge, because it could change the judge's single token: stop strings, tools, formats and penalties.
var judged = []string{"chat_template", "chat_template_kwargs", "documents", "media_io_kwargs", "mm_processor_kwargs"}

// JudgeQuestion asks a model whether the answer to a request is good.
type JudgeQuestion struct {
	Terms
	Request  *Request
	Answer   []byte
	Own      []byte // its own answer, to compare with; empty is none
	Set      []Edit // members in place of the request's: how an engine is told not to think first
	Plain    bool   // the request's arguments of the chat template are not sent
	Stream   bool   // as a stream with its usage
	Unscored bool   // without logprobs: its word alone counts
}

// Body appends the question as a chat: the request's messages, the answer, and the question, for [Chat]'s path; read the
// answer with [ParseJudge]. A completion's prompt is the chat's only message.
func (q *JudgeQuestion) Body(dst []byte) []byte {
	r := q.Request
	messages := r.Extended(q.Answer)
	if r.Kind != Chat {
		said := func(role string, text []byte) []byte {
			return Object(nil, SetText("role", role), SetText("content", text))
		}
		messages = slices.Concat([]byte{'['}, said("user", r.Text()), []byte{','}, said("assistant", q.Answer), []byte{']'})
	}
	question := []byte(judgeQuestion)
	if len(q.Own) > 0 {
		question = slices.Concat([]byte(judgeBeside), q.Own, []byte(judgeCompares))
	}
	messages = append(messages[:len(messages)-1], `,{"role":"user","content":`...)
	messages = append(append(messages, Quote(question)...), "}]"...)
	members := []Edit{SetText("model", q.Model), {"messages", messages}}
	for _, name := range judged {
		if value := r.Sent(name); value != nil && !q.Plain && r.Kind == Chat && !edited(q.Set, name) {
			members = append(members, Edit{name, value})
		}
	}
	members = append(append(members, q.Set...), Set("max_tokens", "1"), Set("temperature", "0"))
	if !q.Unscored {
		members = append(members, Set("logprobs", "true"), Set("top_logprobs", judgeTop))
	}
	if members = append(members, Set("stream", strconv.FormatBool(q.Stream))); q.Stream {
		members = append(members, Set("stream_options", `{"include_usage":true}`))
	}
	return Object(dst, append(members, q.Scheduling("cache_salt")...)...)
}

// Judgement is what a judge has said.
type Judgement struct {
	Odds  float64 // log-odds that the answer is good, in nats; without logprobs ± [wordOdds]
	Usage Usage   // as it was told
}

// wordOdds are the log-odds of a judge that gives its word without logprobs.
const wordOdds = 1

// judgeAnswer is a chat answer with the alternatives of its first token.
type judgeAnswer struct {
	Usage   ReplyUsage `json:"usage"`
	Choices []struct {
		Message struct {
			Content jsontext.Value `json:"content"`
		} `json:"message"`
		Logprobs struct {
			Content []struct {
				Top []struct {
					Token   string         `json:"token"`
					Logprob jsontext.Value `json:"logprob"`
				} `json:"top_logprobs"`
			} `json:"content"`
		} `json:"logprobs"`
	} `json:"choices"`
}

// ParseJudge reads what a judge says of an answer, from the alternatives of its single token: the log-odds of yes against no,
// in nats, summed over their spellings. If one of the two is not listed, the lowest listed logprob is its upper bound and is
// used. Without logprobs its word counts. An error matches [ErrScores], also if it is neither.
func ParseJudge(body []byte) (j Judgement, err error) {
	var a judgeAnswer
	if err := json.Unmarshal(body, &a, lenient); err != nil {
		return j, fmt.Errorf("judge: %w: %w", ErrScores, err)
	}
	a.Usage.AddTo(&j.Usage)
	yes, no, lowest := math.Inf(-1), math.Inf(-1), 0.0
	if len(a.Choices) > 0 && len(a.Choices[0].Logprobs.Content) > 0 {
		for _, t := range a.Choices[0].Logprobs.Content[0].Top {
			nats, err := scoreNats(t.Logprob)
			if err != nil {
				return j, fmt.Errorf("judge: %w", err)
			}
			lowest = min(lowest, nats)
			switch verdict([]byte(t.Token)) {
			case "yes":
				yes = logAdd(yes, nats)
			case "no":
				no = logAdd(no, nats)
			}
		}
	} else if len(a.Choices) > 0 {
		var word string
		_ = json.Unmarshal(a.Choices[0].Message.Content, &word) // what is no text is no verdict
		switch verdict([]byte(word)) {
		case "yes":
			yes, no = wordOdds, 0
		case "no":
			yes, no = 0, wordOdds
		}
	}
	switch {
	case math.IsInf(yes, -1) && math.IsInf(no, -1):
		return j, fmt.Errorf("judge: %w: it says neither yes nor no", ErrScores)
	case math.IsInf(yes, -1):
		yes = lowest
	case math.IsInf(no, -1):
		no = lowest
	}
	j.Odds = yes - no
	return j, nil
}

// verdict is the token without case, white space and quotes, if it is yes or no.
func verdict(token []byte) string {
	switch token = bytes.Trim(token, " \t\r\n\"'`*“”‘’«».,!"); {
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
