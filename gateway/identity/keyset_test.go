package identity

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/rs/zerolog"
)

// keySetText is a key set of these keys.
func keySetText(t testing.TB, keys ...jose.JSONWebKey) string {
	t.Helper()
	data, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAKeySetOfNoUseIsRefused(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	ed := issuer()["ed"]
	for name, tc := range map[string]struct{ text, want string }{
		"empty":               {"", "is no JSON Web Key Set"},
		"not JSON":            {"canary-" + secretOne, "is no JSON Web Key Set"},
		"a private key":       {"-----BEGIN PRIVATE KEY-----\ncanary", "is no JSON Web Key Set"},
		"no keys":             {`{"keys":[]}`, "has no key for signatures"},
		"one key alone":       {strings.Trim(strings.TrimPrefix(keySetText(t, jose.JSONWebKey{Key: ed.Public(), KeyID: "a"}), `{"keys":`), "[]}") + "}", "has no key for signatures"},
		"only of other kinds": {`{"keys":[{"kty":"canary","kid":"a"}]}`, "has no key for signatures"},
		"only for encryption": {keySetText(t, jose.JSONWebKey{Key: ed.Public(), KeyID: "a", Use: "enc"}), "has no key for signatures"},
		"half a key":          {`{"keys":[{"kty":"RSA","kid":"canary","n":"AQAB"}]}`, "keys[0] is malformed"},
		"a key that is text":  {`{"keys":["canary"]}`, "keys[0] is malformed"},
		"a private one":       {keySetText(t, jose.JSONWebKey{Key: ed, KeyID: "a"}), "keys[0] is a private or shared key"},
		"a shared one":        {keySetText(t, jose.JSONWebKey{Key: []byte(secretOne), KeyID: "a"}), "keys[0] is a private or shared key"},
		"one without an id":   {keySetText(t, jose.JSONWebKey{Key: ed.Public()}), "keys[0] has no kid"},
		"two of one id":       {keySetText(t, jose.JSONWebKey{Key: ed.Public(), KeyID: "a"}, jose.JSONWebKey{Key: issuer()["ed2"].Public(), KeyID: "a"}), "keys[1] has the kid of another key"},
		"a weak one":          {keySetText(t, jose.JSONWebKey{Key: weak.Public(), KeyID: "a"}), "less than 2048 bits"},
		"huge":                {`{"keys":[` + strings.Repeat(" ", maxKeySet), "is longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			o := jwtOptions(t)
			replace(t, o.JWT.JWKSFile, tc.text)
			_, err := New(o)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v, want …%s…", err, tc.want)
			}
		})
	}
}

func TestWhatTokensNeedMustBeGiven(t *testing.T) {
	for name, change := range map[string]func(*JWT){
		"no issuer":         func(j *JWT) { j.Issuer = "" },
		"no audience":       func(j *JWT) { j.Audience = "" },
		"no file":           func(j *JWT) { j.JWKSFile = "" },
		"a missing file":    func(j *JWT) { j.JWKSFile += "canary" },
		"alg none":          func(j *JWT) { j.Algorithms = []string{"RS256", "none"} },
		"a shared secret":   func(j *JWT) { j.Algorithms = []string{"HS256"} },
		"a made-up one":     func(j *JWT) { j.Algorithms = []string{"canary"} },
		"an empty one":      func(j *JWT) { j.Algorithms = []string{""} },
		"one in lower case": func(j *JWT) { j.Algorithms = []string{"rs256"} },
	} {
		o := jwtOptions(t)
		change(&o.JWT)
		if _, err := New(o); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOnlyTheAlgorithmsOfTheListCount(t *testing.T) {
	o := jwtOptions(t)
	o.JWT.Algorithms = []string{"PS256"}
	r := made(t, o)
	for alg, want := range map[jose.SignatureAlgorithm]bool{jose.PS256: true, jose.RS256: false, jose.PS512: false} {
		text := token(t, alg, issuer()["rsa"], map[string]any{"kid": "rsa"}, claims(nil))
		if _, err := r.Identify(request(outside, "Authorization: Bearer "+text)); (err == nil) != want {
			t.Errorf("%s: %v", alg, err)
		}
	}
}

func TestAKeyCountsForItsOwnAlgorithmAlone(t *testing.T) {
	o := jwtOptions(t)
	replace(t, o.JWT.JWKSFile, keySetText(t, jose.JSONWebKey{Key: issuer()["rsa"].Public(), KeyID: "rsa", Algorithm: "PS256"}))
	r := made(t, o)
	text := token(t, jose.RS256, issuer()["rsa"], map[string]any{"kid": "rsa"}, claims(nil))
	if _, err := r.Identify(request(outside, "Authorization: Bearer "+text)); err == nil {
		t.Error("a key for PS256 counts for RS256")
	}
}

// record is a log that the test reads while the loop runs.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

// take returns what was written since the last call.
func (r *record) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.text.Reset()
	return r.text.String()
}

// TestKeysAreReplacedWithoutARefusal changes the key set under way: from one key
// to both to the other, with broken and missing files in between, of which each
// is told once. Tokens of a key that stands in the file or in the last good one
// are accepted throughout.
func TestKeysAreReplacedWithoutARefusal(t *testing.T) {
	o := jwtOptions(t)
	file := o.JWT.JWKSFile
	old := "Authorization: Bearer " + edToken(t, nil)
	next := "Authorization: Bearer " + token(t, jose.EdDSA, issuer()["ed2"], map[string]any{"kid": "ed2"}, claims(nil))
	writeKeySet(t, file, "ed")
	synctest.Test(t, func(t *testing.T) {
		var log record
		o.Logger = zerolog.New(&log)
		r := made(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() {
			if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("the loop ended: %v", err)
			}
		})
		for _, step := range []struct {
			change   func()
			accepted []string
			said     string // in the one line of the log that comes of it
		}{
			{func() {}, []string{old}, ""},
			{func() { writeKeySet(t, file, "ed", "ed2") }, []string{old, next}, "was read again"},
			{func() { replace(t, file, `{"keys":[canary`) }, []string{old, next}, "broken"},
			{func() { replace(t, file, keySetText(t, jose.JSONWebKey{Key: issuer()["ed"], KeyID: "canary"})) }, []string{old, next}, "broken"},
			{func() { _, _ = os.Remove(file), os.Mkdir(file, 0o700) }, []string{old, next}, "broken"},
			{func() { _ = os.Remove(file) }, []string{old, next}, "away"},
			{func() { writeKeySet(t, file, "ed2") }, []string{next}, "was read again"},
		} {
			step.change()
			time.Sleep(4 * keySetEvery)
			synctest.Wait()
			for _, line := range []string{old, next} {
				if _, err := r.Identify(request(outside, line)); (err == nil) != slices.Contains(step.accepted, line) {
					t.Errorf("after %q: %v", step.said, err)
				}
			}
			said := log.take()
			lines := strings.Count(said, "\n")
			if !strings.Contains(said, step.said) || lines > 1 || (lines == 1) != (step.said != "") || strings.Contains(said, "canary") {
				t.Errorf("want one line with %q, got %s", step.said, said)
			}
		}
		cancel()
		loop.Wait()
	})
}

func TestOtherModesFollowNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := resolver(t, Keys).Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// FuzzKeySet checks that whatever the file holds, only public keys come of it.
func FuzzKeySet(f *testing.F) {
	for _, kid := range []string{"rsa", "ec", "ed"} {
		f.Add([]byte(keySetText(f, jose.JSONWebKey{Key: issuer()[kid].Public(), KeyID: kid})))
		f.Add([]byte(keySetText(f, jose.JSONWebKey{Key: issuer()[kid], KeyID: kid})))
	}
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"","y":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := parseKeySet(data)
		if (err == nil) != (len(keys) > 0) {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		for id, k := range keys {
			if id == "" || !strong(k.public) {
				t.Errorf("%q is accepted: %T", id, k.public)
			}
		}
	})
}
