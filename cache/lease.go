package cache

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

// Lease is the claim to generate a request's answer, unique among replicas: for identical requests of the
// same class and the same kind of answer (streamed or not).
type Lease struct {
	Name   string // its Redis key, in the slot of the entry's
	Token  string // of this replica, for this request
	Holder string // the holder's token, if another replica has it

	taken  bool    // this replica has it
	leader *Leader // for which it is requested; nil: a late result is useless
}

// crowded reports whether other requests here wait for the same answer.
func (l *Lease) crowded() bool { return l != nil && l.leader != nil && l.leader.crowded() }

// notifyLeader tells the leader a result that came after its look-up. It reports whether that is useful.
func (l *Lease) notifyLeader(late *Lease) bool {
	return l != nil && l.leader != nil && l.leader.elected(late)
}

const (
	// leaseTTL is how long a lease lasts without a renewal, in ms: a dead holder is replaced within 2 s.
	leaseTTL = 1500
	// endTTL is how long the end of an answer can still be read, in ms.
	endTTL = 5000
	// maxPieces bounds a stream of pieces; the bound of an answer and the minimum time publishEvery between
	// pieces keep it far below.
	maxPieces = 1 << 14
)

// newLease makes a lease for a generation; nobody has it yet.
func newLease(id GenerationID) *Lease {
	var token [12]byte
	_, _ = rand.Read(token[:]) // never fails (crypto/rand)
	name := id.Key.Name()
	how := "json"
	if id.Stream {
		how = "sse"
	}
	return &Lease{
		Name:  "foregate:cache:lead:" + name[strings.IndexByte(name, '{'):] + ":" + strconv.Itoa(int(id.Class)) + how,
		Token: hex.EncodeToString(token[:]),
	}
}

// chunks is the Redis key of the stream that the holder writes and the followers read.
func (l *Lease) chunks() string { return l.Name + ":chunks" }

// pieceLabel is the label that a piece is sealed with, besides the entry's key.
func (l *Lease) pieceLabel(holder string, n int) string { return holder + ":" + strconv.Itoa(n) }

var (
	//go:embed beat.lua
	beatText string
	//go:embed publish.lua
	publishText string
	//go:embed end.lua
	endText string

	beatScript    = script.New(beatText)
	publishScript = script.New(publishText)
	endScript     = script.New(endText)
)

// leaseScripts runs the scripts of leases.
func leaseScripts(c redis.UniversalClient) *script.Runner {
	return script.NewRunner(c, beatScript, publishScript, endScript)
}

// beat renews a lease. Its reply: −1 another replica has it, 0 it is ours, 1 it is ours and is followed.
func (l *Lease) beat(ctx context.Context, c redis.Scripter) *redis.Cmd {
	return beatScript.EvalSha(ctx, c, []string{l.Name, l.chunks()}, l.Token, leaseTTL)
}

// publish adds a sealed piece. Its reply: 0 the lease is lost, 1, or unfollowed.
func (l *Lease) publish(ctx context.Context, c redis.Scripter, n int, piece []byte) *redis.Cmd {
	return publishScript.EvalSha(ctx, c, []string{l.Name, l.chunks()}, l.Token, n, piece, maxPieces)
}

// end returns the lease, with the sealed entry for followers; nil: there is none.
func (l *Lease) end(ctx context.Context, c redis.Scripter, n int, entry []byte) *redis.Cmd {
	return endScript.EvalSha(ctx, c, []string{l.Name, l.chunks()}, l.Token, endTTL, n, entry)
}

// piece is one element of the stream.
type piece struct {
	n     int
	text  []byte // sealed
	entry []byte // sealed; of the last one
	last  bool
}

// delivery is the result of a follower's read.
type delivery struct {
	pieces     []piece
	cursor     string // of the last element
	leaseValid bool   // the holder still has the lease, and its stream exists
}

// maxRead is the maximum number of elements per read.
const maxRead = 256

// unfollowed is the reply of publish if nobody follows any more.
const unfollowed = 2

// read reads the elements after the cursor ("" is the beginning). The lease is checked first: if it is gone
// and no end follows, its holder is dead. If the stream is gone, the holder's pieces are lost.
func (l *Lease) read(ctx context.Context, c redis.UniversalClient, cursor string) (delivery, error) {
	from := "-"
	if cursor != "" {
		from = "(" + cursor
	}
	pipe := c.Pipeline()
	held := pipe.Get(ctx, l.Name)
	exists := pipe.PExpire(ctx, l.chunks(), leaseTTL*time.Millisecond) // tells the holder that it is followed
	stream := pipe.XRangeN(ctx, l.chunks(), from, "+", maxRead)
	_, _ = pipe.Exec(ctx) // each has its own error
	if err := held.Err(); err != nil && err != redis.Nil {
		return delivery{}, err
	}
	if err := cmp.Or(exists.Err(), stream.Err()); err != nil {
		return delivery{}, err
	}
	return l.deliveryOf(cursor, held.Val() == l.Holder && exists.Val(), stream.Val()), nil
}

// deliveryOf parses the elements after the cursor.
func (l *Lease) deliveryOf(cursor string, held bool, stream []redis.XMessage) delivery {
	out := delivery{cursor: cursor, leaseValid: held || len(stream) == maxRead} // there may be more to read first
	for _, m := range stream {
		out.cursor = m.ID
		if p, ok := l.pieceOf(m.Values); ok {
			out.pieces = append(out.pieces, p)
		}
	}
	return out
}

// pieceOf parses an element. Elements of other holders are ignored.
func (l *Lease) pieceOf(v map[string]any) (p piece, ok bool) {
	if t, _ := v["t"].(string); t != l.Holder {
		return piece{}, false
	}
	n, _ := v["n"].(string)
	var err error
	if p.n, err = strconv.Atoi(n); err != nil {
		return piece{}, false
	}
	if d, ok := v["d"].(string); ok {
		p.text = []byte(d)
		return p, true
	}
	e, last := v["e"].(string)
	p.entry, p.last = []byte(e), last
	return p, last
}

// How often a holder and its followers use Redis. On average a follower sees text after half of the sum of
// beatEvery, publishEvery and readEvery.
const (
	publishEvery = 50 * time.Millisecond
	beatEvery    = 250 * time.Millisecond
	readEvery    = 40 * time.Millisecond
	// talkTime bounds one round trip in the background.
	talkTime = 250 * time.Millisecond
	// silence is how long a follower waits for a Redis that does not answer.
	silence = time.Second
)
