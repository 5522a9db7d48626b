package openai

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ScoreStyle is a way to let an engine score tokens that it did not choose itself.
type ScoreStyle string

// The styles, as in [ScoreQuestion].
const (
	ScoreCompletions ScoreStyle = "completions" // vLLM: POST /v1/completions with prompt_logprobs
	ScoreSGLang      ScoreStyle = "sglang"      // SGLang: POST /generate with logprob_start_len
)

// ScoreQuestion asks an engine to score Draft as the continuation of Prompt.
type ScoreQuestion struct {
	Terms
	Style         ScoreStyle
	Prompt, Draft []int32
	Top           int // alternatives per position, 1..20
}

// Scored is an engine's score of one token.
type Scored struct {
	Logprob float64   // of the token, nats
	TopID   int32     // the first choice
	Top     float64   // logprob of TopID
	Tops    []float64 // of the most likely listed tokens, falling, and the token's own
	Alike   bool      // the first choice differs from the token only in white space or case
}

// Scores are the answer to a ScoreQuestion: one Scored for each token of the draft.
type Scores struct {
	Tokens []Scored
	Told   TokenText // what the engine says of the draft's tokens
	Cached int       // cached prompt tokens; 0 if it is not reported
}

// Errors of an answer to a [ScoreQuestion] or a judge's question.
var (
	ErrShort      = errors.New("fewer tokens were scored than the draft has")
	ErrMisaligned = errors.New("the scores are of other tokens than the draft's")
	ErrScores     = errors.New("the scores cannot be read")
)

// maxTop is the engines' default maximum of alternatives per position (vLLM's --max-logprobs).
const maxTop = 20

func (q *ScoreQuestion) top() int { return min(max(q.Top, 1), maxTop) }

// Path is the path to post the question to.
func (q *ScoreQuestion) Path() string {
	if q.Style == ScoreSGLang {
		return "/generate"
	}
	return Completion.Path()
}

// Body appends the question as JSON. One token is generated, because engines refuse to generate
// none. SGLang is asked from the last token before the draft on, because the first entry that it returns is null; cached
// tokens before it are not computed again. SGLang calls the salt extra_key; its chat endpoint derives it from cache_salt.
func (q *ScoreQuestion) Body(dst []byte) []byte {
	top := int64(q.top())
	if q.Style == ScoreSGLang {
		return Object(dst, append([]Edit{
			SetIDs("input_ids", q.Prompt, q.Draft), Set("sampling_params", `{"max_new_tokens":1,"temperature":0}`), Set("return_logprob", "true"),
			SetInt("logprob_start_len", int64(max(len(q.Prompt)-1, 0))), SetInt("top_logprobs_num", top), Set("return_text_in_logprobs", "true"), Set("stream", "false"),
		}, q.Scheduling("extra_key")...)...)
	}
	return Object(dst, append([]Edit{
		SetText("model", q.Model), SetIDs("prompt", q.Prompt, q.Draft), Set("max_tokens", "1"), Set("temperature", "0"), SetInt("prompt_logprobs", top), Set("stream", "false"),
	}, q.Scheduling("cache_salt")...)...)
}

// Terms are sent to an engine with every call.
type Terms struct {
	Model    string // its pool's
	Salt     string // keeps a tenant's blocks apart in the prefix cache; "" is none
	Priority *int64 // for engines that schedule by it; nil for others
}

// Scheduling are the members for an engine's cache, which calls the salt by a name, and its scheduler.
func (t *Terms) Scheduling(salt string) (members []Edit) {
	if t.Salt != "" {
		members = append(members, SetText(salt, t.Salt))
	}
	if t.Priority != nil {
		members = append(members, SetInt("priority", *t.Priority))
	}
	return members
}

// scoredAnswer is an answer with scores. The large arrays stay raw, because only their ends are read.
type scoredAnswer struct {
	Choices []struct { // vLLM's; the first one has the scores
		Places jsontext.Value `json:"prompt_logprobs"`
	} `json:"choices"`
	Usage  ReplyUsage `json:"usage"`
	SGLang struct {
		Cached count          `json:"cached_tokens"`
		Places jsontext.Value `json:"input_token_logprobs"`
		Lists  jsontext.Value `json:"input_top_logprobs"`
	} `json:"meta_info"`
}

// Parse reads the answer to the question. Positions are counted from the end, because an engine may omit a
// cached beginning of the prompt; entries of the prompt are skipped. An error matches [ErrShort],
// [ErrMisaligned] or, for all others, [ErrScores].
func (q *ScoreQuestion) Parse(body []byte) (s Scores, err error) {
	var a *scoredAnswer
	if err := json.Unmarshal(body, &a, lenient); err != nil {
		return Scores{}, fmt.Errorf("%w: %w", ErrScores, err)
	}
	if a == nil {
		return Scores{}, fmt.Errorf("%w: the answer is null", ErrScores)
	}
	cached, places := a.Usage.Details.Cached, jsontext.Value(nil)
	if q.Style == ScoreSGLang {
		cached, places = a.SGLang.Cached, a.SGLang.Places
	} else if len(a.Choices) > 0 {
		places = a.Choices[0].Places
	}
	cached.set(&s.Cached)
	at, err := q.last(places)
	if err != nil {
		return Scores{}, err
	}
	tops := at
	if q.Style == ScoreSGLang {
		if tops, err = q.last(a.SGLang.Lists); err != nil {
			return Scores{}, err
		}
	}
	s.Tokens = make([]Scored, len(q.Draft))
	for i := range q.Draft {
		if s.Tokens[i], err = q.token(i, at[i], tops[i], &s.Told); err != nil {
			return Scores{}, fmt.Errorf("token %d of %d, id %d: %w", i+1, len(q.Draft), q.Draft[i], err)
		}
	}
	return s, nil
}

// last returns the elements of an array that belong to the draft, the last ones. Another value, such as null, is as an empty
// array.
func (q *ScoreQuestion) last(array []byte) ([]stdjson.RawMessage, error) {
	elements, _ := Elements(array)
	switch all, most := len(elements), len(q.Prompt)+len(q.Draft); {
	case all < len(q.Draft):
		return nil, fmt.Errorf("%w: %d places for %d tokens", ErrShort, all, len(q.Draft))
	case all > most && len(q.Draft) > 0:
		return nil, fmt.Errorf("%w: %d places for a prompt and a draft of %d tokens", ErrMisaligned, all, most)
	}
	return elements[len(elements)-len(q.Draft):], nil
}

// token reads the score of a token of the draft from what is listed at its position: vLLM's object, or SGLang's own token and
// the most likely ones. An engine that ignores the requested number and lists only the draft's own token would make it the
// first choice everywhere. If one alternative was requested, the rank reveals this: it must be 1, or with vLLM's counting of
// ties rarely more.
func (q *ScoreQuestion) token(i int, entry, likeliest []byte, told *TokenText) (s Scored, err error) {
	own := listing{id: -1}
	var listed []listing
	if q.Style == ScoreSGLang {
		own, listed, err = byTuples(q.Draft[i], entry, likeliest)
	} else {
		listed, err = byID(entry)
	}
	at := slices.IndexFunc(listed, func(l listing) bool { return l.id == q.Draft[i] })
	if at >= 0 && own.id < 0 {
		own = listed[at]
	}
	const tied = 2
	switch n := len(listed); {
	case err != nil:
		return s, err
	case own.id < 0:
		return s, fmt.Errorf("%w: it is not among the %d listed", ErrMisaligned, n)
	case n < q.top():
		return s, fmt.Errorf("%w: %d alternatives are listed, not %d", ErrScores, n, q.top())
	case n == 1 && listed[0].id == own.id && own.rank > tied:
		return s, fmt.Errorf("%w: of rank %d, but no other is listed", ErrScores, own.rank)
	}
	told.add(own.text)
	if at < 0 { // vLLM lists it in any case
		listed = append(listed, own)
	}
	slices.SortFunc(listed, func(a, b listing) int { return cmp.Or(cmp.Compare(b.nats, a.nats), cmp.Compare(a.id, b.id)) })
	top := listed[0]
	if own.nats >= top.nats { // the order of equals has no meaning
		top = own
	}
	s = Scored{Logprob: own.nats, TopID: top.id, Top: top.nats, Alike: own.id == top.id || alike(own.text, top.text)}
	for _, l := range listed[:min(len(listed), q.top()+1)] {
		s.Tops = append(s.Tops, l.nats)
	}
	return s, nil
}

// tokenID reads an id in the engines' notation. It accepts no other one, because text may look like a number.
func tokenID(raw []byte) (int32, bool) {
	id, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil || id < 0 || raw[0] == '+' || raw[0] == '-' || raw[0] == '0' && len(raw) > 1 {
		return 0, false
	}
	return int32(id), true
}

// logprob reads a number at most 0, apart from rounding, and at least vLLM's value for minus infinity.
func logprob(raw []byte) (nats float64, is bool) {
	v, err := strconv.ParseFloat(string(raw), 64)
	return max(min(v, 0), noLogprob), err == nil && v <= roundedUp // which NaN is not
}

// scoreNats reads the logprob of a score.
func scoreNats(raw []byte) (float64, error) {
	v, is := logprob(raw)
	if !is {
		return 0, fmt.Errorf("%w: a logprob is %s", ErrScores, clip(string(raw), longestNumber))
	}
	return v, nil
}

// roundedUp is the largest accepted rounding error above 0, in nats.
const roundedUp = 1e-3

// listing is one token of an engine's list at one position of the draft.
type listing struct {
	id   int32
	nats float64
	text []byte // raw JSON
	rank int    // 0 if it is not reported
}

// byID reads vLLM's form of a list: an object with a member for each token, named by its id.
func byID(entry []byte) (listed []listing, err error) {
	switch kind := jsontext.Value(entry).Kind(); kind {
	case 'n':
		return nil, fmt.Errorf("%w: it was not scored", ErrShort)
	case '{':
	default:
		return nil, fmt.Errorf("%w: its scores are %s", ErrScores, kindWord(kind))
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(entry, &members); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScores, err)
	}
	for name, value := range members {
		if value.Kind() != '{' {
			return nil, fmt.Errorf("%w: they are named by text, not by id, as vLLM's Rust frontend does", ErrMisaligned)
		}
		var told struct {
			Logprob jsontext.Value `json:"logprob"`
			Rank    jsontext.Value `json:"rank"`
			Text    jsontext.Value `json:"decoded_token"`
		}
		l := listing{}
		if err = json.Unmarshal(value, &told, lenient); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrScores, err)
		}
		if l.nats, err = scoreNats(told.Logprob); err != nil {
			return nil, err
		}
		l.text = told.Text
		l.rank, _ = strconv.Atoi(string(told.Rank)) // null means not reported
		if id, isID := tokenID([]byte(name)); isID {
			l.id = id
			listed = append(listed, l)
		}
	}
	return listed, nil
}

// byTuples reads SGLang's form: [logprob, id, text] of the draft's own token, and a list of these of the most likely tokens.
func byTuples(id int32, entry, likeliest []byte) (own listing, listed []listing, err error) {
	if own, err = readTuple(entry); err != nil {
		return own, nil, err
	}
	if own.id != id {
		return own, nil, fmt.Errorf("%w: the scored one is %d", ErrMisaligned, own.id)
	}
	tuples, _ := Elements(likeliest)
	for _, tuple := range tuples {
		l, err := readTuple(tuple)
		if err != nil {
			return own, nil, fmt.Errorf("%w: among the most likely: %w", ErrScores, err)
		}
		if listed = append(listed, l); l.id == id {
			own.nats = max(own.nats, l.nats) // they differ by rounding at most
		}
	}
	return own, listed, nil
}

// readTuple reads [logprob, id, text].
func readTuple(entry []byte) (l listing, err error) {
	parts, _ := Elements(entry)
	if len(parts) < 2 {
		return l, fmt.Errorf("%w: a token is %s", ErrScores, clip(string(entry), longestNumber))
	}
	id, isID := tokenID(parts[1])
	if l.id = id; !isID {
		return l, fmt.Errorf("%w: a token has no id", ErrScores)
	}
	if string(parts[0]) == "null" {
		return l, fmt.Errorf("%w: it was not scored", ErrShort)
	}
	if len(parts) > 2 {
		l.text = parts[2]
	}
	l.nats, err = scoreNats(parts[0])
	return l, err
}

// alike reports whether the first choice and the draft's own token differ only in white space and case. A
// text that is empty or has replacement characters belongs to a part of a character, and proves nothing.
func alike(ownText, topText []byte) bool {
	if len(ownText) <= len(`""`) || len(topText) <= len(`""`) || ownText[0] != '"' || topText[0] != '"' {
		return false
	}
	own, top := unquote(nil, ownText), unquote(nil, topText)
	if bytes.ContainsRune(own, '\uFFFD') || bytes.ContainsRune(top, '\uFFFD') {
		return false
	}
	return bytes.EqualFold(bytes.TrimSpace(own), bytes.TrimSpace(top))
}
