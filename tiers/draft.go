package tiers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// errNoDraft says that the draft gave nothing to carry on from and nothing was
// sent: the request goes to the target as if it had never been drafted.
var errNoDraft = errors.New("no draft to build on")

const (
	reasonLost  = "draft_lost"        // it broke off
	reasonBlock = "block_unusable"    // mode verify in turns: of a block there are no ids of plain text, or its text is another
	reasonShape = "not_plain_text"    // it holds more than text
	reasonNone  = "draft_unavailable" // no backend gave one
	reasonFull  = "draft_full"        // the draft pool has no room for its class
)

// draft is a draft in the making.
type draft struct {
	job    *job
	x      *exchange
	course accept.Course
	reply  *reply

	promptIDs []int32
	ids       []int32
	finish    string
	stopped   []byte // stop_reason as raw JSON
	usage     openai.Usage
	guessed   bool // tokens were counted by their chunks, of which one may hold several
	past      int  // tokens that came with a stop string, behind it
	started   time.Time

	json    accept.JSONState // of the text, where JSON was asked for
	loops   accept.Loops
	asked   []byte      // see prompt
	marked  int         // tokens at which the score was last written into the receipt
	warm    string      // backend of the target that has just computed prompt and draft
	own     *resumption // what the target stood by, where it was asked in tokens of its own
	exact   bool        // promptIDs and ids are the target's
	after   *pool.Pool  // that carries on; nil is the target
	left    []string    // its backends that were lost
	twin    *twin       // that is audited; nil is none
	free    func()      // lets what is audited go on without the request
	shown   bool        // of a twin: the other may be with the client already
	patient bool        // it waits for room although the answer has begun: engines that are lost in a row may be short of memory

	counting time.Duration // spent on counts since a backend was last lost
}

// resumption is a part of a draft in the target's own tokens.
type resumption struct {
	prompt, ids []int32
	text        int // bytes of the answer that the ids are
}

// heir is the pool that carries on.
func (d *draft) heir() *pool.Pool {
	if d.after != nil {
		return d.after
	}
	return d.job.route.Target
}

// speculate drafts, judges while the tokens come, and either finishes with the
// draft or hands what was accepted of it to the target.
func (j *job) speculate(ctx context.Context) error {
	d := j.newDraft()
	own := ctx // of the draft: one that is audited goes on without the request
	if j.audited() {
		d.twin = j.newTwin()
		own, d.free = apart(ctx)
		defer d.free()
	}
	k := j.call(j.route.Draft, j.ask.Request.Kind.Path(), j.draftBody())
	k.stream, k.judged = true, true
	k.turn.Now = true // the target may have room
	k.firstByte = j.firstByte(j.cfg.Timeouts.DraftFirstByte)
	once := j.cfg
	once.RetryAttempts = min(once.RetryAttempts, 1) // a draft is not worth more: the target answers anyway
	x, err := j.cascade.dispatch(own, k, once, j.receipt)
	if err != nil {
		return j.undrafted(ctx, err)
	}
	d.x = x
	defer func() {
		if d.x != nil {
			d.x.drop()
		}
	}()
	cause, err := d.stream(ctx)
	f, _ := errors.AsType[*engine.Failure](cause)
	d.part(ctx, f, err)
	d.mark()
	j.receipt.Draft = j.cascade.now().Sub(d.started) - j.receipt.Verify
	switch {
	case err != nil: // the client's side failed
		return err
	case ctx.Err() != nil:
		return d.interrupted(ctx, cause)
	}
	return d.settle(ctx, f)
}

// newDraft begins the book of one draft.
func (j *job) newDraft() *draft {
	p := j.receipt.Plan
	d := &draft{job: j, reply: j.newReply(), started: j.cascade.now()}
	d.course = accept.NewCourse(j.cfg.Accept, accept.Course{
		Holdback: j.cfg.HoldbackTokens, Whole: p.Whole, Resumes: p.Resumes(), Ask: p.Ask,
		Unscored: j.unscored().Reason(), Stays: !j.cfg.Takeover, Pressed: p.Pressed, PressedAt: j.cfg.Risk.PressedAt,
		Warmup: j.trial != nil && j.trial.Warmup,
	})
	j.receipt.Needed, j.receipt.Tie = j.cfg.Accept.Threshold, j.cfg.Tie
	if p.Ask != accept.AskNever {
		j.receipt.Band = j.cfg.Accept.Band
	}
	return d
}

// unscored says what becomes of a draft without logprobs: in the audited modes it is none.
func (j *job) unscored() plan.Unscored {
	if j.cfg.Mode.Audited() {
		return plan.UnscoredEscalate
	}
	return j.cfg.Unscored
}

// undrafted is what becomes of a request for which no backend made a draft.
func (j *job) undrafted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	j.receipt.Plan.Reason = reasonNone
	if errors.Is(err, pool.ErrFull) {
		j.receipt.Plan.Reason = reasonFull
	}
	return errNoDraft
}

// interrupted ends a draft whose request was cancelled or timed out.
func (d *draft) interrupted(ctx context.Context, cause error) error {
	if cause == nil {
		cause = &engine.Failure{Kind: transportKind(ctx, ctx, ctx.Err()), Pool: d.job.route.Draft.Name(), Err: context.Cause(ctx)}
	}
	if d.reply.began {
		return &BrokenError{cause}
	}
	return cause
}

func (j *job) newReply() *reply {
	r := j.ask.Request
	return &reply{
		sink: j.sink, tap: j.ask.Tap, receipt: j.receipt, first: j.begun,
		framer: openai.NewFramer(r.Kind, j.ask.ID, j.route.Model, j.cascade.now().Unix()),
		stream: r.Stream, usage: r.IncludeUsage, includeStop: r.IncludeStop,
		lagWord: j.receipt.Plan.Resume == plan.ResumeText,
		bound:   unbounded,
		stops:   newStops(r.Stop),
	}
}

// usageStream asks for the usage at the end of a stream.
const usageStream = `{"include_usage":true}`

// engineEdits name the pool's model, the salt of the request's tenant, and the request's
// priority where the pool's engines schedule by it: others refuse a request that has one.
func (j *job) engineEdits(p *pool.Pool) []openai.Edit {
	edits := append(make([]openai.Edit, 0, 10), openai.Edit{Name: "model", Value: openai.Quote(p.Model())})
	if j.ask.Salt != "" {
		edits = append(edits, openai.Edit{Name: "cache_salt", Value: openai.Quote(j.ask.Salt)})
	}
	if priority := j.enginePriority(p); priority != nil {
		edits = append(edits, openai.Edit{Name: "priority", Value: strconv.AppendInt(nil, *priority, 10)})
	}
	return edits
}

// streamEdits turn a request into one for a stream whose stop strings the gateway
// matches itself.
func (j *job) streamEdits(p *pool.Pool, options string) []openai.Edit {
	return append(j.engineEdits(p),
		openai.Edit{Name: "stream", Value: []byte("true")},
		openai.Edit{Name: "stream_options", Value: []byte(options)},
		openai.Edit{Name: "stop"}, openai.Edit{Name: "include_stop_str_in_output"},
	)
}

// draftBody asks the draft pool for a stream with all that judging and
// continuing need.
func (j *job) draftBody() []byte {
	options := usageStream
	if card := j.cascade.cards(j.route.Draft.Name()); card != nil && !card.TokenIDs {
		options = countedStream // its chunks tell nothing else of how many tokens they hold
	}
	edits := append(j.streamEdits(j.route.Draft, options), openai.Edit{Name: "return_token_ids", Value: []byte("true")})
	if j.ask.Request.Kind == openai.Completion {
		edits = append(edits, openai.Edit{Name: "logprobs", Value: []byte("5")})
	} else {
		edits = append(edits, openai.Edit{Name: "logprobs", Value: []byte("true")}, openai.Edit{Name: "top_logprobs", Value: []byte("5")})
	}
	return j.ask.Request.Apply(make([]byte, 0, len(j.ask.Request.Body)+256), edits...)
}

// stream reads the draft until it ends, is rejected, or breaks (cause). err is a
// failure of the client's side.
func (d *draft) stream(ctx context.Context) (cause, err error) {
	moves := true // while nothing of it was sent, the target may answer afresh
	d.x.moves(moves)
	for {
		d.x.parser.NoTop = !d.course.WantsTop()
		_, chunk, cause := d.x.next()
		if cause == io.EOF {
			return nil, nil
		}
		if cause != nil {
			if d.finish != "" {
				return nil, nil // the answer is whole; only its usage is missing
			}
			return cause, nil
		}
		if d.twin != nil {
			d.twin.see(chunk)
		}
		if done := d.take(chunk); done {
			return nil, nil
		}
		if d.finish != "" {
			continue
		}
		if d.decide(ctx); d.course.Rejected() {
			return nil, nil
		}
		if moves && d.course.Committed() && !d.job.cfg.Takeover {
			moves = false
			d.x.moves(moves)
		}
		if !d.course.Committed() || d.x.buffered() {
			continue
		}
		d.reply.bound = d.course.LastClean(d.course.Tokens()).Text // what is sent, a seam must be able to follow
		if err := d.reply.release(); err != nil {
			return nil, err
		}
	}
}

// take judges a chunk and appends it; it reports whether the draft is over.
func (d *draft) take(c *openai.Chunk) bool {
	d.promptIDs = append(d.promptIDs, c.PromptIDs...)
	if c.HasUsage {
		d.usage = c.Usage
	}
	switch {
	case !c.Plain:
		d.course.Refuse(reasonShape)
		return true
	case int64(len(d.reply.text)+len(c.Text)) > d.job.cascade.mostBody:
		d.course.Refuse(accept.ReasonLong)
		return true
	}
	for i, lp := range c.Logprobs {
		if !d.course.Add(lp, c.Top(i)) {
			return true // the crossing chunk is not part of what was accepted
		}
	}
	d.unscored(c)
	d.ids = append(d.ids, c.IDs...)
	if d.hopeless(c) {
		return true
	}
	if before := len(d.reply.text); d.reply.add(c.Text) {
		d.finish, d.past = "stop", tokensPast(c, d.reply.ended-before)
		d.course.Shorten(len(d.reply.text))
		return true
	}
	d.seam(c)
	if d.course.Tokens() >= nextMark(d.marked) {
		d.mark()
	}
	if len(c.Finish) > 0 {
		d.finish = string(c.Finish)
		d.stopped = append(d.stopped[:0], c.Stop...)
	}
	return false
}

// unscored counts the tokens of a chunk that came without logprobs. Where all but the last have
// one, and that ended the answer, none is missing.
func (d *draft) unscored(c *openai.Chunk) {
	missing := len(c.IDs) - len(c.Logprobs)
	switch {
	case missing > 0 && d.endsIn(c):
		d.course.End()
		missing--
	case len(c.Logprobs) == 0 && len(c.IDs) == 0:
		n, told := came(c, d.course.Tokens())
		missing, d.guessed = n, d.guessed || !told
	}
	d.course.Missing(missing)
}

// endsIn reports whether the last id of a chunk is the token that ended the answer: the chunk says
// so itself, or the engine is known to end answers with it and was not told to go on behind it.
func (d *draft) endsIn(c *openai.Chunk) bool {
	if len(c.Finish) > 0 {
		return string(c.Finish) == "stop" && !bytes.HasPrefix(c.Stop, []byte{'"'})
	}
	if d.job.ask.Request.IgnoresEOS() {
		return false
	}
	card := d.job.cascade.cards(d.job.route.Draft.Name())
	return card != nil && slices.Contains(card.EOS, c.IDs[len(c.IDs)-1])
}

// hopeless refuses what will not hold at the end, as soon as that shows and while nothing was
// sent: text that no JSON begins with, and running in circles.
func (d *draft) hopeless(c *openai.Chunk) bool {
	if d.course.Committed() || d.shown {
		return false
	}
	if d.job.ask.Request.JSON && !d.json.Write(c.Text) {
		d.course.Refuse(accept.ReasonInvalid)
		return true
	}
	for _, id := range c.IDs {
		if d.loops.Add(id) {
			d.course.Refuse(accept.ReasonRepetition)
			return true
		}
	}
	return false
}

// tokensPast counts the tokens of a chunk that begin behind so many bytes of its text, as far as
// it tells: an engine that had seen a stop string end there would not have made them.
func tokensPast(c *openai.Chunk, at int) (n int) {
	from := len(c.Text)
	for i := len(c.TokenBytes) - 1; i > 0; i-- {
		if from -= c.TokenBytes[i]; from >= at {
			n++
		}
	}
	if len(c.TokenBytes) == 0 || from != c.TokenBytes[0] {
		return 0 // tokens whose bytes are not the text's
	}
	return n
}

// seam notes where the chunk ends, as a place where the draft may be cut.
func (d *draft) seam(c *openai.Chunk) {
	if len(c.IDs) == 0 && len(c.Text) == 0 {
		return
	}
	told := d.seamsWithin(c)
	// An engine sends a character only when it has all of its bytes, so the text of
	// a one-token chunk ends where the token does. A chunk of several may hold half
	// a character that it does not show; the tokens' own bytes would tell. The last
	// chunk also holds the token that ended the answer, which a continuation must
	// not see.
	whole := len(c.IDs) <= 1 || told || d.job.receipt.Plan.Resume != plan.ResumeIDs
	clean := len(c.Text) > 0 && len(c.Finish) == 0 && whole
	d.course.Mark(accept.Step{
		Tokens: d.course.Tokens(), Text: len(d.reply.text), IDs: len(d.ids), Clean: clean, Rests: accept.Rests(d.reply.text),
	})
}

// seamsWithin notes where the tokens inside a chunk of several end, so that a cut by
// text can count what it keeps; a seam by ids falls between chunks only. It reports
// whether the tokens' own bytes are told and are the chunk's text.
func (d *draft) seamsWithin(c *openai.Chunk) bool {
	size := 0
	for _, n := range c.TokenBytes {
		size += n
	}
	n := len(c.TokenBytes)
	if size != len(c.Text) || n != len(c.IDs) || n != len(c.Logprobs) {
		return false
	}
	at := accept.Step{Tokens: d.course.Tokens() - n, Text: len(d.reply.text) - size, IDs: len(d.ids) - n}
	for i := range n - 1 {
		at.Tokens, at.Text, at.IDs = at.Tokens+1, at.Text+c.TokenBytes[i], at.IDs+1
		d.course.Mark(at)
	}
	return true
}

// decide commits to the draft when its time has come, or asks the target first.
func (d *draft) decide(ctx context.Context) {
	waited := d.job.cascade.now().Sub(d.started)-d.job.receipt.Verify >= d.job.cfg.Holdback
	switch d.course.Decide(waited) {
	case accept.Wait:
		return
	case accept.Doubt:
		d.mark()
		d.twin.decided()
		if d.course.Heard(d.promised(d.ask(ctx))); !d.course.Committed() {
			return
		}
	case accept.Commit:
		d.mark()
	}
	d.job.ruled(d.course.Early())
	d.job.receipt.Tier = plan.Draft
	d.job.receipt.Committed = d.course.Tokens()
}

// settle turns a draft that is over into an answer.
func (d *draft) settle(ctx context.Context, lost *engine.Failure) error {
	rc := d.job.receipt
	rc.DraftedTokens = d.course.Tokens()
	d.unlimited()
	v := d.final()
	if v.Reason == accept.ReasonDoubtful && !d.course.Committed() {
		d.course.Heard(d.ask(ctx))
		v = d.final()
	}
	if lost != nil && v.Reason == accept.ReasonCut {
		v.Reason = reasonLost
	}
	d.job.ruled(v)
	switch {
	case ctx.Err() != nil:
		return d.interrupted(ctx, nil)
	case d.course.Keeps(v, d.finish != ""):
		return d.keep()
	}
	return d.escalate(ctx)
}

// unlimited forgets an end that the draft's own context made, not the client's limit.
func (d *draft) unlimited() {
	if most := d.job.ask.Request.Limit(); d.finish == "length" && (most == 0 || max(d.course.Tokens(), d.usage.Completion) < most) {
		d.finish = ""
	}
}

// final is the verdict on what there is of the draft.
func (d *draft) final() accept.Verdict {
	if d.job.ask.Request.Structured && d.finish == "stop" && !d.course.Rejected() {
		if reason := d.job.misshapen(d.reply.text); reason != "" {
			d.course.Refuse(reason)
		}
	}
	return d.finalOf(0)
}

// finalOf is the verdict on what there is of a draft with so many calls of tools.
func (d *draft) finalOf(calls int) accept.Verdict {
	r := d.job.ask.Request
	return d.course.Final(accept.Draft{
		Text: d.reply.text, IDs: d.ids, Finish: d.finish, WantJSON: r.JSON, Calls: calls,
		Stopped: d.reply.stop != nil, Refusals: d.job.cfg.Refusals, PromptText: d.prompt(),
	})
}

const (
	mostEcho   = 16 << 10 // bytes of a prompt that an answer is compared with: its end
	mostEchoed = 64 << 10 // bytes of a prompt that is still taken out of its JSON for that
)

// prompt is the text that an answer is compared with.
func (d *draft) prompt() []byte {
	if r := d.job.ask.Request; d.asked == nil && r.PromptBytes <= mostEchoed {
		d.asked = r.PromptText(mostEcho)
	}
	return d.asked
}

// keep finishes the answer with the draft.
func (d *draft) keep() error {
	rc := d.job.receipt
	if d.usage.Completion == 0 || d.reply.stop != nil {
		d.usage.Completion = d.course.Tokens() - d.past
	}
	d.usage.Prompt = d.promptTokens()
	rc.Tier, rc.Finish = plan.Draft, d.finish
	rc.AcceptedTokens, rc.PromptTokens = d.usage.Completion, d.usage.Prompt
	return d.reply.finish(openai.Ending{Finish: d.finish, Stop: d.stopped, Usage: d.usage, Extra: rc.Extra()})
}
