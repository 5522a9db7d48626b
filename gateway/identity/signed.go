package identity

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HeaderIdentity has the identity that a load balancer signed, mode Signed. The package comment describes its
// format.
const HeaderIdentity = "X-Identity"

const (
	maxValidity  = 300 * time.Second // longest validity of a signature
	maxClockSkew = 30 * time.Second  // allowed between two machines' clocks

	maxAssertion = 512 // bytes of X-Identity
	minSecret    = 32  // bytes, as many as the HMAC
)

// oneSpelling decodes base64url without padding, and accepts only the canonical encoding of a value.
var oneSpelling = base64.RawURLEncoding.Strict()

// SigningKey is a secret that X-Identity may be signed with, mode Signed.
type SigningKey struct {
	ID     string // kid in the header
	Secret []byte // the characters of its line
}

// secretsOf checks keys and returns them by id.
func secretsOf(keys []SigningKey) (map[string][]byte, error) {
	if len(keys) == 0 {
		return nil, errors.New("mode signed needs a key")
	}
	secrets := make(map[string][]byte, len(keys))
	for _, k := range keys {
		if !valid(k.ID, maxIdentity) {
			return nil, errors.New("a key's id is 1–64 of A-Z a-z 0-9 . _ : -")
		}
		if secrets[k.ID] != nil {
			return nil, fmt.Errorf("key %s is given twice", k.ID)
		}
		if len(k.Secret) < minSecret {
			return nil, fmt.Errorf("the secret of key %s has %d bytes; want %d at least", k.ID, len(k.Secret), minSecret)
		}
		for other, s := range secrets {
			if bytes.Equal(s, k.Secret) {
				return nil, fmt.Errorf("keys %s and %s are the same secret; a key that is to replace another must differ", other, k.ID)
			}
		}
		secrets[k.ID] = bytes.Clone(k.Secret)
	}
	return secrets, nil
}

// assertion is a parsed X-Identity.
type assertion struct {
	tenant     string
	priority   Priority
	expires    int64 // Unix seconds
	keyID      string
	signedPart string // the value before ";sig="
	mac        [sha256.Size]byte
}

// parseAssertion parses the value of X-Identity. Nothing in it may be trusted before the HMAC was compared.
func parseAssertion(value string) (a assertion, ok bool) {
	signedPart, mac, ok := strings.Cut(value, ";sig=")
	if !ok || len(mac) != oneSpelling.EncodedLen(sha256.Size) {
		return a, false
	}
	a.signedPart = signedPart
	var buf [sha256.Size]byte
	if n, err := oneSpelling.Decode(buf[:], []byte(mac)); err != nil || n != sha256.Size {
		return a, false
	}
	a.mac = buf
	tenant, rest, ok := field(signedPart, "v1;t=")
	if !ok || !valid(tenant, maxIdentity) {
		return a, false
	}
	a.tenant = tenant
	class, rest, ok := field(rest, "p=")
	if !ok {
		return a, false
	}
	var err error
	if a.priority, err = ParsePriority(class); err != nil {
		return a, false
	}
	expires, rest, ok := field(rest, "exp=")
	if !ok {
		return a, false
	}
	if a.expires, err = strconv.ParseInt(expires, 10, 64); err != nil || a.expires < 0 {
		return a, false
	}
	a.keyID, ok = strings.CutPrefix(rest, "kid=")
	return a, ok && valid(a.keyID, maxIdentity)
}

// field splits the field with this name, and its semicolon, off the start of text.
func field(text, name string) (value, rest string, ok bool) {
	if text, ok = strings.CutPrefix(text, name); !ok {
		return "", "", false
	}
	return strings.Cut(text, ";")
}

// bySignature returns the tenant that X-Identity names for this request.
func (r *Resolver) bySignature(t *table, req *http.Request, name string) (claim, error) {
	value, err := assertionHeader(req.Header)
	if err != nil {
		return claim{}, err
	}
	a, ok := parseAssertion(value)
	if !ok {
		return claim{}, unsigned("want v1;t=TENANT;p=PRIORITY;exp=UNIX;kid=KEYID;sig=SIGNATURE")
	}
	secret := t.secrets[a.keyID]
	if secret == nil {
		return claim{}, unsigned("the key is not known")
	}
	mac := sign(secret, a.signedPart, req.Method, req.URL.EscapedPath())
	if !hmac.Equal(mac, a.mac[:]) {
		return claim{}, unsigned("the signature does not fit this request")
	}
	switch left := time.Unix(a.expires, 0).Sub(r.now()); {
	case left < -maxClockSkew:
		return claim{}, unsigned("the signature is no longer valid")
	case left > maxValidity+maxClockSkew:
		return claim{}, unsigned("the signature holds for longer than 300 s")
	}
	if err := sameTenant(name, a.tenant); err != nil {
		return claim{}, err
	}
	return r.named(t, a.tenant, a.priority, a.priority)
}

// assertionHeader returns the value of X-Identity, which must occur once. A header that a proxy may have read
// differently is refused.
func assertionHeader(h http.Header) (string, error) {
	values := h[HeaderIdentity]
	switch {
	case len(values) == 0:
		return "", unsigned("missing; requests come through a load balancer that signs them")
	case len(values) > 1:
		return "", &Error{Kind: BadHeader, Header: HeaderIdentity, Reason: "is given more than once"}
	case values[0] == "" || len(values[0]) > maxAssertion || strings.ContainsFunc(values[0], notAssertion):
		return "", &Error{Kind: BadHeader, Header: HeaderIdentity, Reason: fmt.Sprintf("want 1–%d of A-Z a-z 0-9 . _ : - ; =", maxAssertion)}
	}
	return values[0], nil
}

// notAssertion reports whether c cannot occur in X-Identity.
func notAssertion(c rune) bool { return c != ';' && c != '=' && !harmless(c) }

// sign returns the HMAC of an assertion about a request.
func sign(secret []byte, signedPart, method, path string) []byte {
	text := make([]byte, 0, 256)
	text = append(text, signedPart...)
	text = append(text, '\n')
	text = append(text, method...)
	text = append(text, '\n')
	text = append(text, path...)
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write(text) // a hash never fails
	return mac.Sum(nil)
}

// unsigned is the error for a request without a valid signature.
func unsigned(reason string) *Error {
	return &Error{Kind: Unauthorized, Header: HeaderIdentity, Reason: reason}
}
