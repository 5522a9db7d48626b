package gateway

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/conns"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	sessionCookie = "foregate_session"
	sessionTime   = 12 * time.Hour
	csrfHeader    = "X-Csrf-Token"
	nonceBytes    = 16
)

// spelling64 knows one spelling of a value.
var spelling64 = base64.RawURLEncoding.Strict()

// What the admin listener refuses before it knows what for.
var (
	errNoToken = &problem{status: http.StatusUnauthorized, header: [2]string{"WWW-Authenticate", `Bearer realm="foregate"`}, body: openai.ErrorBody{
		Message: "Show the operators' token (admin_token_file): Authorization: Bearer TOKEN, or sign in at /console/.", Type: "authentication_error", Code: "no_token",
	}}
	errBadToken = &problem{status: http.StatusUnauthorized, header: [2]string{"WWW-Authenticate", `Bearer realm="foregate"`}, body: openai.ErrorBody{
		Message: "This is not the operators' token (admin_token_file).", Type: "authentication_error", Code: "bad_token",
	}}
	errReadOnly = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: "No token is configured here (admin_token_file), so pages only show, and nobody changes settings at this listener.", Type: "permission_error", Code: "read_only",
	}}
	errStrangeHost = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: "This listener is on loopback, and answers whoever shows no token at an IP address or localhost only.", Type: "permission_error", Code: "strange_host",
	}}
	errCSRF = &problem{status: http.StatusForbidden, body: openai.ErrorBody{
		Message: csrfHeader + " is not that of this session, as GET /admin/session tells it.", Type: "permission_error", Code: "bad_csrf",
	}}
)

// guard says who may do what at the admin listener. With a token, whoever changes something
// must show it, and where the listener is not on loopback whoever looks, too. Tools show it as a
// bearer key; a page does so once, for a session: a signed cookie that no other site's page can
// have sent (SameSite) or use (the CSRF key, the Origin). Sessions are kept nowhere, so they are
// good at every replica, and end by their time or with the token.
type guard struct {
	token []byte // nil: none is configured
	key   []byte // signs sessions
	local bool   // the listener is on loopback
	now   func() time.Time
}

func newGuard(token []byte, now func() time.Time) guard {
	if len(token) == 0 {
		return guard{now: now}
	}
	return guard{token: token, key: seal(token, "foregate admin sessions"), now: now}
}

// seal is the HMAC of parts, none of which can be mistaken for two.
func seal(key []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		_, _ = mac.Write(size[:]) // a hash takes all
		_, _ = mac.Write([]byte(p))
	}
	return mac.Sum(nil)
}

// is reports whether a token is the one, in a time that tells nothing of it.
func (a *guard) is(token string) bool {
	return a.token != nil && hmac.Equal(seal(a.key, token), seal(a.key, string(a.token)))
}

// begin makes the value of a session's cookie.
func (a *guard) begin() string {
	said := make([]byte, 8, 8+nonceBytes)
	binary.BigEndian.PutUint64(said, uint64(a.now().Add(sessionTime).Unix()))
	said = said[:8+nonceBytes]
	_, _ = rand.Read(said[8:]) // never fails
	text := spelling64.EncodeToString(said)
	return text + "." + spelling64.EncodeToString(seal(a.key, "session", text))
}

// session is the cookie of a session that is good, or "".
func (a *guard) session(r *http.Request) string {
	if a.token == nil {
		return ""
	}
	for _, c := range r.CookiesNamed(sessionCookie) {
		text, mac, ok := strings.Cut(c.Value, ".")
		said, err := spelling64.DecodeString(text)
		if !ok || err != nil || len(said) != 8+nonceBytes {
			continue
		}
		given, err := spelling64.DecodeString(mac)
		if err == nil && hmac.Equal(given, seal(a.key, "session", text)) && uint64(a.now().Unix()) < binary.BigEndian.Uint64(said) {
			return c.Value
		}
	}
	return ""
}

// csrf is what a page of a session must say to change something.
func (a *guard) csrf(session string) string {
	if session == "" {
		return ""
	}
	return spelling64.EncodeToString(seal(a.key, "csrf", session))
}

// everybodys are paths that tell nothing of anybody.
func everybodys(path string) bool {
	switch path {
	case "/", "/livez", "/readyz", "/admin/session":
		return true
	}
	return strings.HasPrefix(path, "/console/") && path != "/console/live"
}

// admit says why a request to the admin listener is refused, nil where it is not.
func (a *guard) admit(r *http.Request) error {
	scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	tool := strings.EqualFold(scheme, "Bearer")
	switch looks := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case tool && a.token != nil:
		if !a.is(bearer) {
			return errBadToken
		}
		return sameSite(r, true)
	case looks && (everybodys(r.URL.Path) || a.session(r) != ""):
		return nil
	case looks && a.local:
		return ownLook(r)
	case looks:
		return errNoToken
	}
	return a.admitChange(r)
}

// ownLook refuses looks at a listener on loopback that a browser sends for others: for a page of
// another site, and for one whose name was made to point here (DNS rebinding), which names itself
// in Host. Links from elsewhere may lead here.
func ownLook(r *http.Request) error {
	if !plainHost(r.Host) {
		return errStrangeHost
	}
	switch h := r.Header; h.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return nil
	default:
		if h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document" {
			return nil
		}
	}
	return errCrossSite
}

// admitChange is admit for what is no question, by somebody who shows no token.
func (a *guard) admitChange(r *http.Request) error {
	session := a.session(r)
	if err := sameSite(r, a.token != nil); err != nil {
		return err
	}
	switch {
	case r.URL.Path == "/admin/session" && session == "":
		return nil
	case session != "":
		if !hmac.Equal([]byte(r.Header.Get(csrfHeader)), []byte(a.csrf(session))) {
			return errCSRF
		}
		return nil
	case a.token != nil:
		return errNoToken
	case !privateHost(r.Host): // whatever else it leaves out, a browser names the page's host
		return errStrangeHost
	case fromPage(r):
		return errReadOnly
	}
	return nil
}

// guarded lets through what admit does.
func (g *Gateway) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.guard.admit(r); err != nil {
			g.log.Warn().Str("remote", r.RemoteAddr).Str("origin", clip(r.Header.Get("Origin"))).Str("method", clip(r.Method)).Str("path", clip(r.URL.Path)).
				Str("error", problemOf(err).body.Code).Msg("refused at the admin listener")
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(leftoverTime)) // the refusal must not wait for a body that may never come
			conns.Close(w, r)                                                               // whoever may not enter holds no place
			writeProblem(w, problemOf(err))
			return
		}
		if !everybodys(r.URL.Path) {
			conns.Know(r)
		}
		next.ServeHTTP(w, r)
	})
}

// Session is what GET /admin/session tells a page of itself.
type Session struct {
	Writable bool   `json:"writable"` // a token is configured
	SignedIn bool   `json:"signed_in"`
	CSRF     string `json:"csrf"` // for X-Csrf-Token; "" without a session
}

func (g *Gateway) session(w http.ResponseWriter, r *http.Request) {
	s := g.guard.session(r)
	writeJSON(w, Session{Writable: g.guard.token != nil, SignedIn: s != "", CSRF: g.guard.csrf(s)})
}

// signIn answers POST /admin/session {"token":"…"} with a session.
func (g *Gateway) signIn(w http.ResponseWriter, r *http.Request) {
	if g.guard.token == nil {
		writeProblem(w, errReadOnly)
		return
	}
	body, err := bodyReader{max: orderBody, timeouts: DefaultTimeouts()}.take(w, r)
	if err != nil {
		writeProblem(w, g.orderProblem(err))
		return
	}
	var said struct{ Token string }
	if json.Unmarshal(body, &said) != nil || !g.guard.is(said.Token) {
		g.log.Warn().Str("remote", r.RemoteAddr).Msg("sign-in at the console refused")
		conns.Close(w, r)
		writeProblem(w, errBadToken)
		return
	}
	g.log.Info().Str("remote", r.RemoteAddr).Msg("signed in at the console")
	value := g.guard.begin()
	http.SetCookie(w, cookie(r, value, int(sessionTime.Seconds())))
	writeJSON(w, Session{Writable: true, SignedIn: true, CSRF: g.guard.csrf(value)})
}

// signOut answers DELETE /admin/session: the browser forgets the session.
func (g *Gateway) signOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, cookie(r, "", -1))
	writeJSON(w, Session{Writable: g.guard.token != nil})
}

func cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{Name: sessionCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
}

// fromPage reports whether a browser sends this for a page.
func fromPage(r *http.Request) bool {
	return len(r.Header.Values("Origin")) > 0 || r.Header.Get("Sec-Fetch-Site") != ""
}

// sameSite refuses what a browser sends on behalf of another site's page. A page
// whose name was made to point here (DNS rebinding) looks like one of our own, so where none
// has to show anything they are believed on an IP address or localhost only; tools send no Origin.
func sameSite(r *http.Request, token bool) error {
	if !fromPage(r) {
		return nil
	}
	for _, raw := range r.Header.Values("Origin") {
		if o, err := url.Parse(raw); err != nil || !strings.EqualFold(o.Host, r.Host) {
			return errCrossSite
		}
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil || (!token && !plainHost(r.Host)) {
		return errCrossSite
	}
	return nil
}

// onLoopback reports whether only this machine reaches an address.
func onLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
