package tiers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// The ways in which an answer comes to have a seam.
const (
	wayLost     = "the draft is lost"
	wayDoubted  = "the draft is doubted"
	wayGuarded  = "the draft is doubted after it was released"
	wayTwice    = "the draft is lost, and who carries on with it"
	wayStraight = "the target's own answer is lost"
	wayText     = "by text, the draft is lost"
	wayTextBad  = "by text, the draft is doubted"
	wayTextTwo  = "by text, the draft is lost, and who carries on with it"
)

var ways = []string{wayLost, wayDoubted, wayGuarded, wayTwice, wayStraight, wayText, wayTextBad, wayTextTwo}

// seams is a theatre with gateways before it: pools of one draft and two targets, with one
// tokenizer and without.
type seams struct {
	theatre
	same, other *Cascade
	numbers     atomic.Int64
}

func newStage(t *testing.T) *seams {
	s := &seams{}
	draft, targets := s.engine(t, false), []string{s.engine(t, true), s.engine(t, true)}
	for _, same := range []bool{true, false} {
		c := newTestCascade(t, Route{
			Model: "m", Draft: testPool(t, "drafts", "small", draft), Target: testPool(t, "targets", "big", targets...),
			SameTokenizer: same, Config: testConfig,
		})
		c.ContextWindow = func(string) int { return 100_000 }
		c.Dispatch.Window = c.ContextWindow
		if s.other = c; same {
			s.same = c
		}
	}
	return s
}

// seam is one answer with a seam: what was asked for, and what happens.
type seam struct {
	*show
	way   string
	form  form
	rules speech // what ends the answer
	hold  int
}

// seamAt draws the answer that has its seam, made in such a way, behind the first cut tokens
// of a tale.
func (s *seams) seamAt(tl *tale, way string, cut int) *seam {
	number := int(s.numbers.Add(1))
	h := uint64(number) * 0x9e3779b97f4a7c15 >> 7
	p := &seam{way: way, form: form{kind: []openai.Kind{openai.Chat, openai.Completion}[h&1], stream: h>>1&7 > 0}, hold: 1 + int(h>>4&15)}
	p.show = &show{tale: tl, number: number, lost: cut, doubt: -1, grain: 1}
	if h>>8&3 == 0 {
		p.grain = 3
	}
	switch way {
	case wayDoubted:
		p.lost, p.doubt, p.hold = -1, cut, 1000
	case wayGuarded:
		p.lost, p.doubt, p.hold, p.form.stream = -1, cut, 1+int(h>>4&3), true
	case wayTwice:
		p.again, p.hold, p.form.stream = cut+1+int(h>>10&7), 1, true
	case wayStraight:
		p.grain, p.form.stream = 0, true
	case wayText:
		p.loud, p.grain = true, 1
	case wayTextBad:
		p.loud, p.grain, p.lost, p.doubt = true, 1, -1, cut
	case wayTextTwo:
		p.again, p.grain, p.hold, p.form.stream = cut+1+int(h>>10&7), 1, 1, true
	}
	p.rules = p.ending(int(h>>14%3), h>>20, cut)
	s.shows.Store(number, p.show)
	return p
}

// ending draws what ends the answer: the tale's own end; a stop string that begins before the
// seam and ends behind it; a limit at the seam.
func (s *seam) ending(kind int, h uint64, cut int) (rules speech) {
	switch kind {
	case 1:
		at := len(strings.Join(s.tokens[:min(cut, len(s.tokens))], ""))
		from, to := at, at
		for range 1 + h&3 {
			for from--; from > 0 && !utf8.RuneStart(s.text[from]); from-- {
			}
		}
		for range 1 + h>>2&3 {
			for to++; to < len(s.text) && !utf8.RuneStart(s.text[to]); to++ {
			}
		}
		rules.stop, rules.include = []string{s.text[max(from, 0):min(to, len(s.text))], "zebra"}, h>>4&1 == 0
	case 2:
		rules.limit = max(cut-1+int(h%3), 1)
	}
	return rules
}

// body is the request.
func (s *seam) body() string {
	more := ""
	if s.rules.limit > 0 {
		more = fmt.Sprintf(`,"max_tokens":%d`, s.rules.limit)
	} else if s.form.kind == openai.Completion {
		more = `,"max_tokens":1000`
	}
	if len(s.rules.stop) > 0 {
		stop, _ := json.Marshal(s.rules.stop)
		more += fmt.Sprintf(`,"stop":%s,"include_stop_str_in_output":%t`, stop, s.rules.include)
	}
	return s.form.body(fmt.Sprintf("show %d:", s.number), more)
}

// result is what came of it.
type result struct {
	reply
	rc     *Receipt
	writes [][]byte
}

// ask has the answer made.
func (s *seams) ask(t *testing.T, p *seam) (result, error) {
	req, err := openai.Scan(p.form.kind, []byte(p.body()), openai.DefaultLimits())
	if err != nil {
		return result{}, err
	}
	cfg := testConfig()
	cfg.Accept.Threshold, cfg.HoldbackTokens = -2, p.hold
	a := arrival{Body: req, ID: "test", Config: &cfg}
	c := s.same
	switch p.way {
	case wayStraight:
		a.Tier = plan.Target
	case wayText, wayTextBad, wayTextTwo:
		c = s.other
	}
	var out collector
	rc, err := answerBy(t.Context(), c, a, &out)
	if err != nil {
		return result{rc: rc}, err
	}
	return result{reply: read(t, p.form.stream, bytes.Join(out.writes, nil)), rc: rc, writes: out.writes}, nil
}

// expected is the answer as one engine gives it when nothing happens; where the target goes on
// by text in a voice of its own, that behind what it was given.
func (s *seam) expected() (want speech, kept int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want = s.rules
	if !s.loud || len(s.heard) == 0 {
		return want.tell(s.tokens), 0
	}
	behind := s.heard[0]
	kept = len(tokensOf(behind))
	for _, token := range append(tokensOf(behind), tokensOf(s.rest(behind))...) {
		if want.hear(token); want.finish != "" {
			return want, kept
		}
	}
	want.hear("")
	return want, kept
}

// problems says what is wrong with an answer.
func (s *seam) problems(got result) (out []string) {
	wrong := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	want, kept := s.expected()
	if got.text != want.text {
		wrong("text %q, want %q", got.text, want.text)
	}
	if got.finish != want.finish {
		wrong("finish %s, want %s", got.finish, want.finish)
	}
	stop := "null"
	if want.hit != "" {
		hit, _ := json.Marshal(want.hit)
		stop = string(hit)
	}
	if got.stop != stop {
		wrong("stop_reason %s, want %s", got.stop, stop)
	}
	past := got.usage.Completion - want.n
	if s.grain > 1 && want.hit != "" && past > 0 && past < s.grain {
		past = 0 // tokens of a chunk that the stop string ended in: which, only chats tell, and not of all characters
	}
	if len(s.heard) > 1 && len(s.rules.stop) > 0 && past > 0 && past <= utf8.UTFMax {
		past = 0 // what a stop string let be sent may end within a token, which is then written again
	}
	if got.usage.Prompt != 2 || past != 0 {
		wrong("usage %+v, want %d", got.usage, want.n)
	}
	if s.loud && kept > 0 && s.rules.limit > 0 && s.limits[0] != s.rules.limit-kept {
		wrong("%d tokens asked for behind %d, of %d", s.limits[0], kept, s.rules.limit)
	}
	inChunk := s.grain > 1 && want.hit != "" // tokens behind the stop string in its chunk are judged, and neither sent nor wasted
	if rc := got.rc; rc.Decision.Judged && !inChunk && rc.AcceptedTokens+rc.WastedTokens != rc.Verdict.Tokens {
		wrong("%d accepted and %d wasted of %d", rc.AcceptedTokens, rc.WastedTokens, rc.Verdict.Tokens)
	}
	if s.form.stream {
		if roles := map[openai.Kind]int{openai.Chat: 1}[s.form.kind]; got.roles != roles {
			wrong("%d roles", got.roles)
		}
		if all := bytes.Join(got.writes, nil); !bytes.HasSuffix(all, []byte("data: [DONE]\n\n")) || bytes.Count(all, []byte("data: [DONE]")) != 1 {
			wrong("[DONE] is not once at the end")
		}
	}
	for _, w := range got.writes {
		if !utf8.Valid(w) || bytes.Contains(w, []byte("\uFFFD")) || bytes.Contains(w, []byte(`\ufffd`)) {
			wrong("a write is no UTF-8 of whole characters: %q", w)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(out, s.faults...)
}

// eachPrompt runs prove for so many prompts on all cores.
func eachPrompt(n int, prove func(i int)) {
	var wg sync.WaitGroup
	var at atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(at.Add(1)) - 1; i < n; i = int(at.Add(1)) - 1 {
				prove(i)
			}
		})
	}
	wg.Wait()
}

// TestSeamsAreSeenByNobody: an answer may change hands behind any of its tokens. What the
// client gets is one answer all the same: to the letter, the token and the reason why it ended.
func TestSeamsAreSeenByNobody(t *testing.T) {
	s := newStage(t)
	var runs, switched, byIDs, byText, failed atomic.Int64
	n := proofSize(sample(4, 8), 60, 1000)
	eachPrompt(n, func(i int) {
		tl := newTale(uint64(i))
		for cut := range len(tl.tokens) + 2 {
			for w, way := range ways {
				if n < 1000 && (i+cut+w)%8 > 0 {
					continue // of a sample, every eighth
				}
				p := s.seamAt(tl, way, cut)
				got, err := s.ask(t, p)
				runs.Add(1)
				var wrong []string
				if err != nil {
					wrong = []string{err.Error()}
				} else {
					wrong = p.problems(got)
				}
				if len(wrong) > 0 && failed.Add(1) <= 20 {
					t.Errorf("tale %d, %s; behind %d of %d tokens, in chunks of %d, hold-back %d: %s\n%s\n%s", i, way, cut, len(tl.tokens), p.grain, p.hold, p.body(), strings.Join(wrong, "\n"), got.receipt())
				}
				if p.byIDs > 0 {
					byIDs.Add(1)
				}
				if len(p.heard) > 0 {
					byText.Add(1)
				}
				if p.byIDs+len(p.heard) > 0 {
					switched.Add(1)
				}
				s.shows.Delete(p.number)
			}
		}
	})
	t.Logf("%d answers, %d with a seam: %d by ids, %d by text; %d wrong", runs.Load(), switched.Load(), byIDs.Load(), byText.Load(), failed.Load())
	if switched.Load() < runs.Load()/3 {
		t.Error("few answers were switched: the test shows nothing")
	}
}

// receipt words what happened.
func (r result) receipt() string {
	if r.rc == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s, over %+v, %d accepted, %d target", r.rc.Tier, r.rc.Acceptance(), r.rc.Failovers, r.rc.AcceptedTokens, r.rc.TargetTokens)
}
