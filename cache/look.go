package cache

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/lookup"
	"github.com/foregate/foregate/internal/redis/script"
)

// Found is the result of a look-up.
type Found string

// What a look may find.
const (
	FoundHit    Found = "hit"    // an entry
	FoundLead   Found = "lead"   // nothing, and this replica must generate the answer
	FoundFollow Found = "follow" // nothing, and another replica generates the answer
	FoundNone   Found = "none"   // nothing, and no lease: none was requested, or Redis is too full for one
	FoundAway   Found = "away"   // Redis was not asked, because of earlier failures
	FoundLate   Found = "late"   // no reply within the budget, or too many look-ups in progress
	FoundError  Found = "error"  // Redis failed
)

const (
	// maxMends bounds the look-ups in progress that replace a value that cannot be opened.
	maxMends = 4
	// crowdWait is how much longer than the budget a look-up may take if other requests here wait for the
	// same answer: then knowing who leads is worth a generation. The client's own timeout ends it, too.
	crowdWait = 250 * time.Millisecond
	// maxHolder bounds a lease's holder, in bytes: several times a token.
	maxHolder = 128
)

// keyProbe is the key for testing a recovery: no entry has it.
const keyProbe = keyPrefix + "{probe}"

var (
	//go:embed look.lua
	lookText   string
	lookScript = script.New(lookText)
)

// errReply is a reply that the script cannot have sent: another Redis, or a proxy.
var errReply = errors.New("cache: the script's reply has another shape")

// replied reports whether an error is a reply of a working Redis.
func replied(err error) bool {
	return errors.Is(err, errReply) || script.Unknown(err)
}

// sight is the result of a look-up.
type sight struct {
	found  Found
	entry  *Entry // of a hit
	holder string // of the lease, if another replica has it
}

// look is what a look-up asks Redis.
type look struct {
	name  string // the entry's key
	lease *Lease // to take; nil for none. Nobody changes it before the reply

	// What the command's arguments refer to, and the arguments: a look-up is one allocation with them.
	chunks  string
	maxSize int
	args    [9]any
}

// looks are the look-ups of a store.
type looks = lookup.Batches[look, reply]

// newLooks makes look-ups by the scripts and the time budget of a store.
func (s *Store) newLooks() *looks {
	return lookup.NewBatches(s.asker, lookup.BatchOptions[look, reply]{
		Send: s.sendLooks,
		Lane: func(l *look) any { return s.scripts.Node(l.name) },
	})
}

// Look reads an entry from Redis, in one round trip and at most for the budget. Requests that look at the same
// time share the round trip. If there is no entry and lease is not nil, it takes the lease. If another replica
// has the lease, lease.Holder is that replica's token. If other requests here wait for the same answer (see
// [Leader.Lease]), the wait is crowdWait longer. A value that cannot be opened is deleted and counted, and is
// treated as absent. The lease's Leader receives a result that comes even later; a lease that was taken and is
// useless by then is returned.
func (s *Store) Look(ctx context.Context, k Key, lease *Lease) (*Entry, Found) {
	if s.redis == nil {
		return nil, FoundNone
	}
	var own *Lease // a late reply may still read it
	if lease != nil {
		own = &Lease{Name: lease.Name, Token: lease.Token}
	}
	began := s.now()
	got, err := s.look(ctx, look{name: k.Name(), lease: own}, k, lease)
	if errors.Is(err, lookup.ErrAway) {
		return nil, FoundAway
	}
	s.metrics.lookup.Observe(s.now().Sub(began).Seconds())
	switch {
	case errors.Is(err, lookup.ErrLate), errors.Is(err, lookup.ErrBusy):
		return nil, FoundLate
	case err != nil:
		return nil, FoundError
	}
	if lease != nil {
		lease.Holder, lease.taken = got.holder, got.found == FoundLead
	}
	return got.entry, got.found
}

// look asks, and asks a second time if the value could not be opened. The copy in this process is stored even
// if nobody waits for the reply any more.
func (s *Store) look(ctx context.Context, ask look, k Key, lease *Lease) (sight, error) {
	extend := func() time.Duration {
		if lease.crowded() {
			return s.crowdWait
		}
		return 0
	}
	t := s.local.reserve(k, s.now())
	reply, err := s.looks.Do(ctx, ask, lookup.Late[reply]{Extend: extend, OnLate: func(ctx context.Context, late reply) {
		if got, ok := s.open(t, late); ok {
			s.lateLook(ctx, got, lease, ask.lease)
		}
	}})
	if err != nil {
		return sight{}, err
	}
	got, ok := s.open(t, reply)
	if ok {
		return got, nil
	}
	return lookup.DoWith(ctx, s.asker,
		func(ctx context.Context) (sight, error) { return s.mend(ctx, k, ask) },
		lookup.Late[sight]{Extend: extend, OnLate: func(ctx context.Context, late sight) { s.lateLook(ctx, late, lease, ask.lease) }})
}

// lateLook gives the lease's Leader a result that nobody waited for.
func (s *Store) lateLook(ctx context.Context, got sight, lease, own *Lease) {
	if own != nil {
		own.Holder, own.taken = got.holder, got.found == FoundLead
	}
	if !lease.notifyLeader(own) && got.found == FoundLead {
		_ = own.end(ctx, s.redis, 0, nil).Err() // otherwise it expires
	}
}

// sendLooks makes the round trip of several look-ups.
func (s *Store) sendLooks(ctx context.Context, questions []*lookup.Question[look, reply]) {
	cmds := make([]redis.Cmder, len(questions))
	for i, q := range questions {
		cmds[i] = s.command(ctx, &q.Ask)
	}
	loaded := s.scripts.Send(ctx, cmds, 0) // each command has its own error
	for i, q := range questions {
		cmd := cmds[i].(*redis.Cmd)
		if err := cmd.Err(); script.Unknown(err) && loaded != nil {
			cmd.SetErr(loaded)
		}
		q.Reply(replyTo(&q.Ask, cmd))
	}
}

// open opens the value of a reply, and stores the copy in this process. It reports false for a value that
// cannot be opened.
func (s *Store) open(t ticket, r reply) (got sight, ok bool) {
	if r.odd != "" {
		s.refuse(t.key.Name(), r.odd)
	}
	if r.found != FoundHit {
		return sight{found: r.found, holder: r.holder}, true
	}
	s.metrics.read.Add(float64(len(r.value)))
	e, err := s.sealer.Open(t.key, []byte(r.value), s.maxAnswer())
	if err != nil {
		s.refuse(t.key.Name(), refusedFor(err))
		return sight{}, false
	}
	s.local.fill(t, e, t.requestedAt.Add(r.ttl))
	return sight{found: FoundHit, entry: e}, true
}

// mend deletes a value that could not be opened, and asks again: there may be a lease to take. A good value that
// was written in between is deleted, too. That costs one generation; sending the value back for comparison
// would cost more.
func (s *Store) mend(ctx context.Context, k Key, ask look) (sight, error) {
	if err := s.redis.Unlink(ctx, ask.name).Err(); err != nil {
		return sight{}, err
	}
	t := s.local.reserve(k, s.now())
	reply, err := s.eval(ctx, ask)
	if err != nil {
		return sight{}, err
	}
	if got, ok := s.open(t, reply); ok {
		return got, nil
	}
	return sight{found: FoundNone}, s.redis.Unlink(ctx, ask.name).Err() // bad values are written faster than they are deleted
}

// maxAnswer bounds the answers that are served, in bytes: an answer that was stored under a slightly larger
// cache.max_entry_bytes is still served.
func (s *Store) maxAnswer() int { return 2 * s.maxEntry() }

// sealOverhead bounds the bytes of a value besides its answer.
const sealOverhead = headerLen + maxID + sealedBy + minPlain + maxHead

// command is a look-up as a command for Redis, which refers to it.
func (s *Store) command(ctx context.Context, ask *look) *redis.Cmd {
	ask.maxSize = s.maxAnswer() + sealOverhead
	if ask.lease == nil {
		return redis.NewCmd(ctx, append(lookScript.AppendCall(ask.args[:0], 1), &ask.name, &ask.maxSize)...)
	}
	ask.chunks = ask.lease.chunks()
	args := append(lookScript.AppendCall(ask.args[:0], 3), &ask.name, &ask.lease.Name, &ask.chunks)
	return redis.NewCmd(ctx, append(args, &ask.maxSize, &ask.lease.Token, leaseTTL)...)
}

// eval makes one round trip for one look-up; two more if Redis does not know the script.
func (s *Store) eval(ctx context.Context, ask look) (reply, error) {
	cmd := s.command(ctx, &ask)
	if err := s.scripts.Send(ctx, []redis.Cmder{cmd}, 0); err != nil {
		return reply{}, err
	}
	return replyTo(&ask, cmd)
}

// replyTo parses the script's reply to a look-up.
func replyTo(ask *look, cmd *redis.Cmd) (reply, error) {
	got, err := cmd.Result()
	if err != nil {
		return reply{}, err
	}
	r, err := parseReply(got)
	if ask.lease == nil && (r.found == FoundLead || r.found == FoundFollow) {
		return reply{}, fmt.Errorf("%w: a lease that nobody asked for", errReply)
	}
	return r, err
}

// reply is the script's reply.
type reply struct {
	found  Found
	value  string
	ttl    time.Duration // remaining lifetime of the value
	holder string
	odd    string // why an existing value was ignored
}

// parseReply parses it.
func parseReply(got any) (reply, error) {
	if n, ok := got.(int64); ok {
		r := reply{found: FoundNone}
		r.ignored(n)
		return r, nil
	}
	list, _ := got.([]any)
	if len(list) != 3 {
		return reply{}, fmt.Errorf("%w: %T with %d elements", errReply, got, len(list))
	}
	kind, isKind := list[0].(string)
	text, isText := list[1].(string)
	n, isNumber := list[2].(int64)
	if !isKind || !isText || !isNumber {
		return reply{}, fmt.Errorf("%w: other types", errReply)
	}
	r := reply{found: Found(kind)}
	switch r.found {
	case FoundHit:
		r.value = text
		r.ttl = copyFor // without an expiry, which we never write
		if n >= 0 {
			r.ttl = time.Duration(min(n, maxTTL.Milliseconds())) * time.Millisecond
		}
		return r, nil
	case FoundFollow:
		if text == "" || len(text) > maxHolder {
			return reply{}, fmt.Errorf("%w: a holder of %d bytes", errReply, len(text))
		}
		r.holder = text
	case FoundLead:
	default:
		return reply{}, fmt.Errorf("%w: %.16q", errReply, kind)
	}
	r.ignored(n)
	return r, nil
}

// ignored records why the script ignored an existing value; 0 is none.
func (r *reply) ignored(why int64) {
	switch why {
	case 1:
		r.odd = refusedLarge
	case 2:
		r.odd = refusedType
	}
}

// maxTTL is longer than any entry's lifetime.
const maxTTL = 48 * time.Hour

// refusalLogInterval is the minimum time between log lines about foreign values.
const refusalLogInterval = time.Minute

// refuse counts a value that is ignored. It is logged at most once a minute, because there may be many.
func (s *Store) refuse(key, why string) {
	s.metrics.refused.add(why)
	now, last := s.now().UnixNano(), s.refusalLoggedAt.Load()
	if now-last < int64(refusalLogInterval) || !s.refusalLoggedAt.CompareAndSwap(last, now) {
		return
	}
	s.log.Warn().Str("key", key).Str("reason", why).
		Msg("a value in the Redis of answers is not ours, so it is deleted, and a miss: somebody changed or forged it, or it was sealed with another key or by another release (told once a minute)")
}

// refusedFor is the reason in the metrics why a value could not be opened.
func refusedFor(err error) string {
	if errors.Is(err, ErrForeign) {
		return refusedForeign
	}
	return refusedDamaged
}

// load loads the script into Redis before the first request.
func (s *Store) load(ctx context.Context) error { return s.scripts.Load(ctx, keyProbe) }
