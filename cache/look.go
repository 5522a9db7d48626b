package cache

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"runtime"
	"time"

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
	// maxLooks bounds the look-ups in progress; others wait. The client has 32 connections, and writers must
	// find one.
	maxLooks = 32 - writers
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

// sight is the raw result of a look-up.
type sight struct {
	found  Found
	entry  *Entry // of a hit
	holder string // of the lease, if another replica has it
}

// Look reads an entry from Redis, in one round trip and at most for the budget. If there is none and lease is
// not nil, it takes the lease. If another replica has the lease, lease.Holder is that replica's token. If
// other requests here wait for the same answer (see [Leader.Lease]), the wait is crowdWait longer. A value
// that cannot be opened is deleted and counted, and is treated as absent. The lease's Leader receives a
// result that comes even later; a lease that was taken and is useless by then is returned.
func (s *Store) Look(ctx context.Context, k Key, lease *Lease) (*Entry, Found) {
	if s.redis == nil {
		return nil, FoundNone
	}
	var own *Lease // a late reply may still read it
	if lease != nil {
		own = &Lease{Name: lease.Name, Token: lease.Token}
	}
	began := s.now()
	got, err := lookup.DoWith(ctx, s.asker,
		func(ctx context.Context) (sight, error) {
			makeRoom()
			return s.lookUp(ctx, k, own)
		},
		lookup.Late[sight]{
			Extend: func() time.Duration {
				if lease.crowded() {
					return s.crowdWait
				}
				return 0
			},
			OnLate: func(ctx context.Context, late sight) {
				if own != nil {
					own.Holder, own.taken = late.holder, late.found == FoundLead
				}
				if !lease.notifyLeader(own) && late.found == FoundLead {
					_ = own.end(ctx, s.redis, 0, nil).Err() // otherwise it expires
				}
			},
		})
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

// makeRoom grows the stack of a new goroutine at once to the size that a round trip needs. Otherwise it would
// be copied at every doubling.
//
//go:noinline
func makeRoom() {
	var room [8 << 10]byte
	runtime.KeepAlive(&room)
}

// lookUp is a look-up without a time limit. It asks a second time if the value could not be opened: that was
// deleted, and there may be a lease to take. The copy in this process is stored even if nobody waits any
// more.
func (s *Store) lookUp(ctx context.Context, k Key, lease *Lease) (sight, error) {
	name := k.Name()
	for range 2 {
		requestedAt := s.now()
		t := s.local.reserve(k, requestedAt)
		reply, err := s.eval(ctx, name, lease)
		if err != nil {
			return sight{}, err
		}
		if reply.odd != "" {
			s.refuse(name, reply.odd)
		}
		if reply.found != FoundHit {
			return sight{found: reply.found, holder: reply.holder}, nil
		}
		s.metrics.read.Add(float64(len(reply.value)))
		e, err := s.sealer.Open(k, []byte(reply.value), s.maxAnswer())
		if err == nil {
			s.local.fill(t, e, requestedAt.Add(reply.ttl))
			return sight{found: FoundHit, entry: e}, nil
		}
		// A good value that was written in between is deleted, too. That costs one generation; sending the
		// value back for comparison would cost more.
		s.refuse(name, refusedFor(err))
		if err := s.redis.Unlink(ctx, name).Err(); err != nil {
			return sight{}, err
		}
	}
	return sight{found: FoundNone}, nil // bad values are written faster than they are deleted
}

// maxAnswer bounds the answers that are served, in bytes: an answer that was stored under a slightly larger
// cache.max_entry_bytes is still served.
func (s *Store) maxAnswer() int { return 2 * s.maxEntry() }

// sealOverhead bounds the bytes of a value besides its answer.
const sealOverhead = headerLen + maxID + sealedBy + minPlain + maxHead

// eval makes one round trip; two more if Redis does not know the script.
func (s *Store) eval(ctx context.Context, name string, lease *Lease) (reply, error) {
	keys, args := []string{name}, []any{s.maxAnswer() + sealOverhead}
	if lease != nil {
		keys, args = append(keys, lease.Name, lease.chunks()), append(args, lease.Token, leaseTTL)
	}
	got, err := s.scripts.Run(ctx, lookScript, keys, args...).Slice()
	if err != nil {
		return reply{}, err
	}
	r, err := parseReply(got)
	if lease == nil && (r.found == FoundLead || r.found == FoundFollow) {
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
func parseReply(list []any) (reply, error) {
	if len(list) != 3 {
		return reply{}, fmt.Errorf("%w: %d elements", errReply, len(list))
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
	case FoundLead, FoundNone:
	default:
		return reply{}, fmt.Errorf("%w: %.16q", errReply, kind)
	}
	switch n {
	case 1:
		r.odd = refusedLarge
	case 2:
		r.odd = refusedType
	}
	return r, nil
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
