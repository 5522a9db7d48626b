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
	Stream   bool   // as a stream with its usage
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
	messages = append(messages[:len(messages)-1], `,{"role":"user","content":"`+judgeQuestion+`"}]`...)
	members := []Edit{SetText("model", q.Model), {"messages", messages}}
	for _, name := range judged {
		if m, ok := r.member(name); ok && !m.drop && !q.Plain && r.Kind == Chat && !edited(q.Set, name) {
			members = append(members, Edit{name, m.value.Of(r.Body)})
		}
	}
	members = append(append(members, q.Set...), Set("max_tokens", "1"), Set("temperature", "0"), Set("logprobs", "true"), Set("top_logprobs", judgeTop),
		Set("stream", strconv.FormatBool(q.Stream)))
	if q.Stream {
		members = append(members, Set("stream_options", `{"include_usage":true}`))
	}
	return Object(dst, append(members, scheduling("cache_salt", q.Salt, q.Priority)...)...)
}

// judgeAnswer is a chat answer with the alternatives of its first token.
type judgeAnswer struct {
	Choices []struct {
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

// ParseJudge reads the judge's confidence that an answer is good, from the alternatives of its single token:
// the log-odds of yes against no, in nats, summed over their spellings. If one of the two is not listed, the
// lowest listed logprob is its upper bound and is used. An error matches [ErrScores], also if neither is
// listed.
func ParseJudge(body []byte) (logOdds float64, err error) {
	var a judgeAnswer
	if err := json.Unmarshal(body, &a, lenient); err != nil {
		return 0, fmt.Errorf("judge: %w: %w", ErrScores, err)
	}
	yes, no, lowest := math.Inf(-1), math.Inf(-1), 0.0
	if len(a.Choices) > 0 && len(a.Choices[0].Logprobs.Content) > 0 {
		for _, t := range a.Choices[0].Logprobs.Content[0].Top {
			nats, err := scoreNats(t.Logprob)
			if err != nil {
				return 0, fmt.Errorf("judge: %w", err)
			}
			lowest = min(lowest, nats)
			switch verdict([]byte(t.Token)) {
			case "yes":
				yes = logAdd(yes, nats)
			case "no":
				no = logAdd(no, nats)
			}
		}
	}
	switch {
	case math.IsInf(yes, -1) && math.IsInf(no, -1):
		return 0, fmt.Errorf("judge: %w: neither yes nor no is listed", ErrScores)
	case math.IsInf(yes, -1):
		yes = lowest
	case math.IsInf(no, -1):
		no = lowest
	}
	return yes - no, nil
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
