package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// pages are what a browser keeps of a session.
type pages struct{ cookie, csrf string }

func signInAt(t *testing.T, admin, token string) pages {
	t.Helper()
	status, said, cookies := orderAs(t, admin+"/admin/session", fmt.Sprintf(`{"token":%q}`, token), nil)
	csrf, _ := said["csrf"].(string)
	if status != http.StatusOK || csrf == "" || len(cookies) != 1 {
		t.Fatalf("signing in: status %d %v", status, said)
	}
	return pages{cookies[0].Name + "=" + cookies[0].Value, csrf}
}

// ask sends a page's request to /admin/session and returns the answer.
func (p pages) ask(t *testing.T, method, admin string) (said gateway.SignOutResult) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, admin+"/admin/session", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", p.cookie)
	req.Header.Set("X-Csrf-Token", p.csrf)
	resp, err := plain.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", method, resp.StatusCode, err)
	}
	return said
}

func TestACookieThatWasCopiedIsOfNoUseAtAnyReplicaAfterSignOut(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	n := node(t, nil)
	p := newPair(t, "url: redis://"+n.addr)
	var admin [2]string
	for i, r := range p.replicas {
		admin[i] = "http://" + r.AdminAddr().String()
	}
	first, second := signInAt(t, admin[0], pairToken), signInAt(t, admin[0], pairToken)
	for _, s := range []pages{first, second} {
		if said := s.ask(t, http.MethodGet, admin[1]); !said.SignedIn || said.Operator != "ann" {
			t.Fatalf("the other replica does not know the session: %+v", said)
		}
	}
	if said := first.ask(t, http.MethodDelete, admin[0]); !said.Shared || said.SignedIn {
		t.Errorf("signing out: %+v", said)
	}
	if first.ask(t, http.MethodGet, admin[0]).SignedIn {
		t.Error("here the session goes on")
	}
	eventually(t, "it ends at the other", func() bool { return !first.ask(t, http.MethodGet, admin[1]).SignedIn })
	n.freeze(t)
	if said := second.ask(t, http.MethodDelete, admin[0]); said.Shared || !strings.Contains(said.Message, "until Redis is back") {
		t.Errorf("signing out without Redis: %+v", said)
	}
	if second.ask(t, http.MethodGet, admin[0]).SignedIn || first.ask(t, http.MethodGet, admin[1]).SignedIn {
		t.Error("without Redis a session is good again")
	}
	n.thaw(t)
	eventually(t, "the second ends at the other when Redis is back", func() bool { return !second.ask(t, http.MethodGet, admin[1]).SignedIn })
}

func TestOperatorsTokensAreReplacedUnderAStreamOfOrders(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	was, next := strings.Repeat("1", 32), strings.Repeat("2", 32)
	file := secretFile(t, "ann operate "+was+"\n")
	sim := vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 20})
	p := serve(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nadmin_tokens_file: %s\nredis: {url: embedded}\npools: {only: {model: m, backends: [%q]}}\nroutes: [{model: llama-3, target: only}]\ndrain: {delay: 0s, grace: 1s}\n", file, sim.URL()))
	page := signInAt(t, p.admin, was)
	order := func(token string) int {
		status, _, _ := orderAs(t, p.admin+"/admin/undrain?pool=only&backend="+strings.TrimPrefix(sim.URL(), "http://"), "", map[string]string{"Authorization": "Bearer " + token})
		return status
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var token atomic.Value // the one that orders show; both are good when it changes
	token.Store(was)
	var sent atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for ; ; sent.Add(1) {
			select {
			case <-stop:
				return
			default:
			}
			if status := order(token.Load().(string)); status != http.StatusOK {
				t.Errorf("an order was answered %d", status)
				return
			}
		}
	}()
	write("ann operate " + was + "\nann-2 operate " + next + "\n")
	eventually(t, "the new token is good", func() bool { return order(next) == http.StatusOK })
	token.Store(next)
	for before := sent.Load(); sent.Load() < before+2; { // no order shows the old one any more
		<-time.After(pollEvery)
	}
	write("ann-2 operate " + next + "\n")
	eventually(t, "the old token is refused", func() bool { return order(was) == http.StatusUnauthorized })
	if page.ask(t, http.MethodGet, p.admin).SignedIn {
		t.Error("a session outlives its token")
	}
	write("ann-2 everything " + next + "\n")
	eventually(t, "what is wrong is told", func() bool {
		return strings.Contains(p.log.String(), "line 1: want scopes out of metrics, drain, operate")
	})
	if status := order(next); status != http.StatusOK {
		t.Errorf("the last good token is answered %d", status)
	}
	close(stop)
	<-done
	if log := p.log.String(); strings.Contains(log, was) || strings.Contains(log, next) || strings.Contains(log, file) {
		t.Errorf("the log tells a secret or its path")
	}
	t.Logf("%d orders", sent.Load())
}

func TestCommandsThatReadAReplicasFileShowATokenThatMayOperate(t *testing.T) {
	ann, prom := strings.Repeat("1", 32), strings.Repeat("2", 32)
	both := secretFile(t, "prom metrics "+prom+"\nann operate "+ann+"\n")
	for name, c := range map[string]struct {
		f        tokenFlags
		want, no string // the secret, or an error
	}{
		"none":               {f: tokenFlags{}},
		"a file without":     {f: tokenFlags{file: &config.File{}}},
		"a replica's":        {f: tokenFlags{file: &config.File{AdminTokensFile: both}}, want: ann},
		"one's own wins":     {f: tokenFlags{TokenFile: secretFile(t, prom), file: &config.File{AdminTokensFile: both}}, want: prom},
		"none that operates": {f: tokenFlags{file: &config.File{AdminTokensFile: secretFile(t, "prom metrics "+prom)}}, no: "admin_tokens_file: no token has the scope operate; give --token-file, or $FOREGATE_ADMIN_TOKEN_FILE"},
		"a token alone":      {f: tokenFlags{file: &config.File{AdminTokensFile: secretFile(t, ann)}}, no: `admin_tokens_file: line 1: has 1 words; want "NAME SCOPES SECRET"`},
	} {
		secret, err := c.f.secret()
		if string(secret) != c.want || c.no == "" && err != nil || c.no != "" && (err == nil || err.Error() != c.no) {
			t.Errorf("%s: %q %v", name, secret, err)
		}
	}
}

func TestCheckReadsTheOperatorsTokens(t *testing.T) {
	const rest = "\npools: {only: {model: m, backends: [\"http://127.0.0.1:1\"]}}\nroutes: [{model: llama-3, target: only}]\nlisten: 127.0.0.1:0\n"
	secret := strings.Repeat("1", 32)
	if status, _, errs := call(t, "check", configFile(t, "admin_tokens_file: "+secretFile(t, "ann all "+secret)+rest)); status != 1 || !strings.Contains(errs, "admin_tokens_file: line 1: want scopes out of metrics, drain, operate") || strings.Contains(errs, secret) {
		t.Errorf("an unknown scope: %d %s", status, errs)
	}
	good := secretFile(t, "ann operate "+secret)
	if status, _, errs := call(t, "check", configFile(t, "admin_tokens_file: "+good+rest)); status != 0 || errs != "" {
		t.Errorf("a good file: %d %s", status, errs)
	}
	if err := os.Chmod(good, 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := call(t, "check", configFile(t, "admin_tokens_file: "+good+rest)); status != 0 || !strings.Contains(errs, "admin_tokens_file: every user of this machine may read the file") {
		t.Errorf("one that all may read: %d %s", status, errs)
	}
}
