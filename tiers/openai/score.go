package openai

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"
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
	Style         ScoreStyle
	Model         string
	Prompt, Draft []int32
	Top           int // alternatives per position, 1..20
	Salt          string
	Priority      *int64 // nil: the pool's engines do not schedule by priority
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
		}, scheduling("extra_key", q.Salt, q.Priority)...)...)
	}
	return Object(dst, append([]Edit{
		SetText("model", q.Model), SetIDs("prompt", q.Prompt, q.Draft), Set("max_tokens", "1"), Set("temperature", "0"), SetInt("prompt_logprobs", top), Set("stream", "false"),
	}, scheduling("cache_salt", q.Salt, q.Priority)...)...)
}

// scheduling are the members for an engine's cache and its scheduler.
func scheduling(saltName, salt string, priority *int64) (members []Edit) {
	if salt != "" {
		members = append(members, SetText(saltName, salt))
	}
	if priority != nil {
		members = append(members, SetInt("priority", *priority))
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
// the most likely ones.
func (q *ScoreQuestion) token(i int, entry, likeliest []byte, told *TokenText) (s Scored, err error) {
	in := borrowCursor(nil)
	defer in.release()
	at := place{own: q.Draft[i], tops: make([]float64, 0, q.top()+1)} // the alternatives, and the draft's own token
	if q.Style == ScoreSGLang {
		err = at.lists(in, entry, likeliest)
	} else {
		err = at.byID(in, entry)
	}
	if err == nil && in.err != nil {
		err = fmt.Errorf("%w: %w", ErrScores, in.err)
	}
	if err == nil {
		err = at.check(q.top())
	}
	if err != nil {
		return s, err
	}
	told.add(at.ownText)
	at.settle()
	return Scored{Logprob: at.ownNats, TopID: at.top.id, Top: at.top.nats, Tops: at.tops, Alike: at.alike()}, nil
}

// tokenID reads an id in the engines' notation. It accepts no other one, because text may look like a number.
func tokenID(raw []byte) (int32, bool) {
	id, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil || id < 0 || raw[0] == '+' || raw[0] == '-' || raw[0] == '0' && len(raw) > 1 {
		return 0, false
	}
	return int32(id), true
}

// scoreNats reads a logprob: a number at most 0, apart from rounding, and at least vLLM's value for minus
// infinity.
func scoreNats(raw []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsNaN(v) || v > roundedUp {
		return 0, fmt.Errorf("%w: a logprob is %s", ErrScores, clip(string(raw), longestNumber))
	}
	return max(min(v, 0), noLogprob), nil
}

// roundedUp is the largest accepted rounding error above 0, in nats.
const roundedUp = 1e-3

// place is an engine's list at one position of the draft.
type place struct {
	own     int32 // the draft's id there
	found   bool
	ownNats float64
	ownText []byte // raw JSON
	rank    int    // of the draft's own token; 0 if it is not reported

	listed int
	top    listing   // the most likely listed token, the first of equals
	tops   []float64 // falling
}

// listing is one token of a place.
type listing struct {
	id   int32
	nats float64
	text []byte // raw JSON
	rank int
}

// list adds a listed token. The highest logprobs that fit are kept.
func (a *place) list(l listing) {
	if a.listed == 0 || l.nats > a.top.nats {
		a.top = l
	}
	a.listed++
	i := len(a.tops)
	switch {
	case i < cap(a.tops):
		a.tops = a.tops[:i+1]
	case i > 0 && a.tops[i-1] < l.nats:
		i--
	default:
		return
	}
	for ; i > 0 && a.tops[i-1] < l.nats; i-- {
		a.tops[i] = a.tops[i-1]
	}
	a.tops[i] = l.nats
}

// byID reads vLLM's form of a place: an object with a member for each listed token, named by its id.
func (a *place) byID(in *cursor, entry []byte) error {
	in.resetLenient(entry)
	switch in.kind() {
	case 'n':
		return fmt.Errorf("%w: it was not scored", ErrShort)
	case '{':
	default:
		return fmt.Errorf("%w: its scores are %s", ErrScores, kindWord(in.kind()))
	}
	for name := range in.object() {
		id, isID := tokenID(name)
		if in.kind() != '{' {
			return fmt.Errorf("%w: they are named by text, not by id, as vLLM's Rust frontend does", ErrMisaligned)
		}
		l, err := readListing(in, entry)
		if err != nil {
			return err
		}
		if !isID {
			continue
		}
		if l.id = id; id == a.own {
			if a.found {
				return fmt.Errorf("%w: it is listed twice", ErrScores)
			}
			a.found, a.ownNats, a.ownText, a.rank = true, l.nats, l.text, l.rank
		}
		a.list(l)
	}
	return nil
}

// readListing reads {"logprob":…,"rank":…,"decoded_token":…}, a part of the entry.
func readListing(in *cursor, entry []byte) (l listing, err error) {
	reported := false
	for name := range in.object() {
		switch string(name) {
		case "logprob":
			raw, _ := in.value()
			if l.nats, err = scoreNats(raw); err != nil {
				return l, err
			}
			reported = true
		case "rank":
			raw, _ := in.value()
			l.rank, _ = strconv.Atoi(string(raw)) // null means not reported
		case "decoded_token":
			_, at := in.value()
			l.text = at.Of(entry)
		default:
			in.skip()
		}
	}
	if !reported {
		return l, fmt.Errorf("%w: a token has no logprob", ErrScores)
	}
	return l, nil
}

// lists reads SGLang's form: [logprob, id, text] of the draft's own token, and a list of these of the most
// likely tokens.
func (a *place) lists(in *cursor, own, likeliest []byte) error {
	in.resetLenient(own)
	l, scored, err := readTuple(in, own)
	switch {
	case err != nil:
		return err
	case !scored:
		return fmt.Errorf("%w: it was not scored", ErrShort)
	case l.id != a.own:
		return fmt.Errorf("%w: the scored one is %d", ErrMisaligned, l.id)
	}
	a.found, a.ownNats, a.ownText = true, l.nats, l.text
	in.resetLenient(likeliest)
	among := false
	for range in.array() {
		l, scored, err := readTuple(in, likeliest)
		if err == nil && !scored {
			err = fmt.Errorf("%w: a token has no logprob", ErrScores)
		}
		if err != nil {
			return err
		}
		if a.list(l); l.id == a.own {
			among = true
			a.ownNats = max(a.ownNats, l.nats) // they differ by rounding at most
		}
	}
	if n := a.listed; n > 0 && !among { // vLLM lists it in any case
		a.list(l)
		a.listed = n
	}
	return nil
}

// readTuple reads [logprob, id, text], a part of the entry; scored is false if the logprob is null.
func readTuple(in *cursor, entry []byte) (l listing, scored bool, err error) {
	if in.kind() != '[' {
		return l, false, fmt.Errorf("%w: a token is %s", ErrScores, kindWord(in.kind()))
	}
	isID := false
	for i := range in.array() {
		raw, span := in.value()
		switch i {
		case 0:
			if scored = string(raw) != "null"; scored {
				l.nats, err = scoreNats(raw)
			}
		case 1:
			l.id, isID = tokenID(raw)
		case 2:
			l.text = span.Of(entry)
		}
		if err != nil {
			return l, false, err
		}
	}
	if !isID {
		return l, false, fmt.Errorf("%w: a token has no id", ErrScores)
	}
	return l, scored, nil
}

// check checks that the place has what was requested: the draft's own token and the most likely ones. An
// engine that ignores the requested number and lists only the draft's own token would make it the first
// choice everywhere. If one alternative was requested, the rank reveals this: it must be 1, or with vLLM's
// counting of ties rarely more.
func (a *place) check(requested int) error {
	const tied = 2
	switch {
	case !a.found:
		return fmt.Errorf("%w: it is not among the %d listed", ErrMisaligned, a.listed)
	case a.listed < requested:
		return fmt.Errorf("%w: %d alternatives are listed, not %d", ErrScores, a.listed, requested)
	case a.listed == 1 && a.top.id == a.own && a.rank > tied:
		return fmt.Errorf("%w: of rank %d, but no other is listed", ErrScores, a.rank)
	}
	return nil
}

// settle makes the draft's own token the first choice if none is more likely: the order of equals has no
// meaning.
func (a *place) settle() {
	if a.ownNats >= a.top.nats {
		a.top = listing{id: a.own, nats: a.ownNats, text: a.ownText}
	}
}

// alike reports whether the first choice and the draft's own token differ only in white space and case. A
// text that is empty or has replacement characters belongs to a part of a character, and proves nothing.
func (a *place) alike() bool {
	if a.top.id == a.own {
		return true
	}
	if len(a.ownText) <= len(`""`) || len(a.top.text) <= len(`""`) || a.ownText[0] != '"' || a.top.text[0] != '"' {
		return false
	}
	own, top := unquote(nil, a.ownText), unquote(nil, a.top.text)
	if bytes.ContainsRune(own, '\uFFFD') || bytes.ContainsRune(top, '\uFFFD') {
		return false
	}
	return bytes.EqualFold(bytes.TrimSpace(own), bytes.TrimSpace(top))
}
