package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
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
	} {
		t.Run(name, func(t *testing.T) {
			r := made(t, jwtOptions())
			err := r.SetKeySet([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v, want …%s…", err, tc.want)
			}
			if _, err := r.Identify(request(outside, "Authorization: Bearer "+edToken(t, nil))); err != nil {
				t.Errorf("the last good keys no longer count: %v", err)
			}
		})
	}
}

func TestWhatTokensNeedMustBeGiven(t *testing.T) {
	for name, change := range map[string]func(*JWT){
		"no issuer":   func(j *JWT) { j.Issuer = "" },
		"no audience": func(j *JWT) { j.Audience = "" },
	} {
		o := jwtOptions()
		change(&o.JWT)
		if _, err := New(o); err == nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestKeySetsRotateWithoutARefusal(t *testing.T) {
	r := made(t, jwtOptions())
	old := "Authorization: Bearer " + edToken(t, nil)
	next := "Authorization: Bearer " + token(t, jose.EdDSA, issuer()["ed2"], map[string]any{"kid": "ed2"}, claims(nil))
	for _, step := range []struct {
		kids      []string
		old, next bool
	}{{[]string{"ed"}, true, false}, {[]string{"ed", "ed2"}, true, true}, {[]string{"ed2"}, false, true}} {
		setKeys(t, r, step.kids...)
		_, err1 := r.Identify(request(outside, old))
		_, err2 := r.Identify(request(outside, next))
		if (err1 == nil) != step.old || (err2 == nil) != step.next {
			t.Errorf("%v: old %v, next %v", step.kids, err1, err2)
		}
	}
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
