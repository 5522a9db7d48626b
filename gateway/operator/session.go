package operator

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

// SessionLifetime is how long a session lasts if it is not ended earlier.
const SessionLifetime = 12 * time.Hour

const (
	nonceBytes = 16
	headBytes  = 8 + nonceBytes // the second at which the session expires, and a random id
)

// encoding accepts only the canonical encoding of a value.
var encoding = base64.RawURLEncoding.Strict()

// Session is the session of an operator who signed in. It is a signed value that is not stored, so that all
// replicas know it; only its early end is stored. The value is the cookie's: whoever has the cookie has the
// session.
type Session struct {
	Operator *Operator
	Value    string

	id      string // identifies the session, but does not grant it
	expires int64  // Unix seconds
}

// BeginSession makes a session.
func (s *Set) BeginSession(o *Operator) Session {
	head := binary.BigEndian.AppendUint64(nil, uint64(s.now().Add(SessionLifetime).Unix()))
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	text := encoding.EncodeToString(append(append(head, nonce...), o.Name...))
	found, _ := s.Session(text + "." + encoding.EncodeToString(mac(o.key, "session", text)))
	return found
}

// Session returns the session of a cookie's value; ok is false if it is invalid or has ended.
func (s *Set) Session(value string) (found Session, ok bool) {
	text, sum, _ := strings.Cut(value, ".")
	decoded, err := encoding.DecodeString(text)
	if err != nil || len(decoded) < headBytes {
		return Session{}, false
	}
	o := s.named(string(decoded[headBytes:]))
	signature, err := encoding.DecodeString(sum)
	if err != nil || o == nil || !hmac.Equal(signature, mac(o.key, "session", text)) {
		return Session{}, false
	}
	found = Session{Operator: o, Value: value, id: encoding.EncodeToString(decoded[8:headBytes]), expires: int64(binary.BigEndian.Uint64(decoded))}
	if s.now().Unix() >= found.expires || s.revocations.has(found) {
		return Session{}, false
	}
	return found, true
}

// CSRF is what a page must send besides the cookie to change something.
func (x Session) CSRF() string {
	return encoding.EncodeToString(mac(x.Operator.key, "csrf", x.Value))
}

// EndSession ends a session, including copies of its cookie. On this replica it ends at once. An error means
// that the other replicas could not be told. They are told when Redis is back, unless this replica stops
// before.
func (s *Set) EndSession(ctx context.Context, x Session) error {
	s.revocations.add(map[string]int64{x.id: x.expires}, s.now())
	return s.revocations.exchange(ctx, s.now)
}

// Run shares ended sessions with the other replicas, every second until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	tick := time.NewTicker(exchangeInterval)
	defer tick.Stop()
	for {
		s.revocations.exchangeAndLog(ctx, s.now)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
