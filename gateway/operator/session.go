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

// SessionTime is how long a session lasts that nobody ends.
const SessionTime = 12 * time.Hour

const (
	nonceBytes = 16
	headBytes  = 8 + nonceBytes // the second at which the session is over, and a random id
)

// spelling knows one spelling of a value.
var spelling = base64.RawURLEncoding.Strict()

// Session is that of an operator who signed in. It is a signed value and kept nowhere, so that all replicas know
// it; only that it was ended is kept. The value is that of its cookie, whose holder has the session.
type Session struct {
	Operator *Operator
	Value    string

	id   string // tells sessions apart, and gives nobody the session
	over int64  // Unix seconds
}

// Begin makes a session.
func (s *Set) Begin(o *Operator) Session {
	head := binary.BigEndian.AppendUint64(nil, uint64(s.now().Add(SessionTime).Unix()))
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	text := spelling.EncodeToString(append(append(head, nonce...), o.Name...))
	found, _ := s.Session(text + "." + spelling.EncodeToString(mac(o.key, "session", text)))
	return found
}

// Session is the session of a cookie's value; ok is false where it is not good, or not any more.
func (s *Set) Session(value string) (found Session, ok bool) {
	text, sum, _ := strings.Cut(value, ".")
	said, err := spelling.DecodeString(text)
	if err != nil || len(said) < headBytes {
		return Session{}, false
	}
	o := s.named(string(said[headBytes:]))
	given, err := spelling.DecodeString(sum)
	if err != nil || o == nil || !hmac.Equal(given, mac(o.key, "session", text)) {
		return Session{}, false
	}
	found = Session{Operator: o, Value: value, id: spelling.EncodeToString(said[8:headBytes]), over: int64(binary.BigEndian.Uint64(said))}
	if s.now().Unix() >= found.over || s.ended.has(found) {
		return Session{}, false
	}
	return found, true
}

// CSRF is what a page must say beside the cookie to change something.
func (x Session) CSRF() string {
	return spelling.EncodeToString(mac(x.Operator.key, "csrf", x.Value))
}

// End ends a session, also that of a copied cookie. It is over here at once. An error says that the other replicas
// could not be told; they are when Redis is back, unless this one ends before.
func (s *Set) End(ctx context.Context, x Session) error {
	s.ended.add(map[string]int64{x.id: x.over}, s.now())
	return s.ended.exchange(ctx, s.now)
}

// Run tells the other replicas which sessions were ended here, and hears of theirs, every second until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	tick := time.NewTicker(exchangeEvery)
	defer tick.Stop()
	for {
		s.ended.tell(ctx, s.now)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
