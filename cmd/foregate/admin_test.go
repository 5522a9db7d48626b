package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/internal/certtest"
)

// secureReplica runs a replica whose admin listener speaks TLS; clients is the file of its clients' authorities, "" for none.
// It returns the certificate's authority and a configuration file with the listener's address.
func secureReplica(t *testing.T, clients string) (p *apptest.Replica, ca *certtest.Authority, file string) {
	t.Helper()
	ca = certtest.New(t)
	cert, key := ca.Issue(t, certtest.Leaf{}).Files(t)
	tokens := certtest.Write(t, filepath.Join(t.TempDir(), "tokens"), []byte("ops operate "+strings.Repeat("s3cret", 8)+"\n"))
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: %%s\nadmin_tokens_file: %q\nadmin_tls: {cert_file: %q, key_file: %q", tokens, cert, key)
	if clients != "" {
		text += fmt.Sprintf(", client_ca_file: %q", clients)
	}
	text += fmt.Sprintf("}\npools: {only: {model: m, backends: [%q]}}\nroutes: [{model: llama-3, target: only}]\ndrain: {delay: 0s, grace: 1s}\n", apptest.LoadedBackend(t, "m", 0.5).URL)
	p = apptest.Serve(t, fmt.Sprintf(text, "127.0.0.1:0"))
	file = certtest.Write(t, filepath.Join(t.TempDir(), "replica.yaml"), []byte(fmt.Sprintf(text, p.AdminAddr())))
	t.Setenv("FOREGATE_ADMIN_TOKEN_FILE", certtest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(strings.Repeat("s3cret", 8))))
	return p, ca, file
}

func TestCommandsAskAnAdminListenerOverTLS(t *testing.T) {
	p, ca, file := secureReplica(t, "")
	for _, args := range [][]string{
		{"status", "--json", "--admin", p.Admin, "--ca-file", ca.File},
		{"status", "--json", "--admin", p.Admin, "--ca-file", ca.File, "--server-name", "localhost"},
		{"ready", "--admin", p.Admin, "--ca-file", ca.File},
		{"risk", "show", "--config", file}, // which names the listener's certificate
		{"risk", "show", "--frontier", "--config", file},
	} {
		if args[0] == "ready" {
			apptest.Eventually(t, "the replica is ready", func() bool { status, _, _ := call(t, args...); return status == 0 })
			continue
		}
		if status, out, errs := call(t, args...); status != 0 || out == "" {
			t.Errorf("%v: status %d: %s%s", args, status, out, errs)
		}
	}
}

func TestCommandsTellWhyTheyDoNotTrustAnAdminListener(t *testing.T) {
	p, ca, _ := secureReplica(t, "")
	other := certtest.New(t)
	plain := apptest.LoadedBackend(t, "m", 0.5).URL
	cert, _ := ca.Issue(t, certtest.Leaf{}).Files(t)
	garbage := certtest.Write(t, filepath.Join(t.TempDir(), "garbage"), []byte("hunter2"))
	for _, command := range []string{"status"} {
		for _, c := range []struct {
			want string
			args []string
		}{
			{"from an authority that is not trusted here: give --ca-file", []string{p.Admin, "--ca-file", other.File}},
			{"is for other names: give one of them as the host of --admin, or as --server-name", []string{p.Admin, "--ca-file", ca.File, "--server-name", "other.internal"}},
			{"the listener speaks TLS: give --admin https://", []string{strings.Replace(p.Admin, "https:", "http:", 1)}},
			{"the listener speaks plain HTTP: give --admin http://", []string{strings.Replace(plain, "http:", "https:", 1)}},
			{"--ca-file: holds no certificate in PEM form", []string{p.Admin, "--ca-file", garbage}},
			{"--cert-file and --key-file: give both or neither", []string{p.Admin, "--ca-file", ca.File, "--cert-file", cert}},
		} {
			status, out, errs := call(t, append([]string{command, "--admin"}, c.args...)...)
			if status != 1 || out != "" || !strings.Contains(errs, c.want) || strings.Contains(errs, "hunter2") {
				t.Errorf("%s %v: status %d: %s%s", command, c.args, status, out, errs)
			}
		}
	}
}

func TestCommandsPresentACertificateToAnAdminListenerThatWantsOne(t *testing.T) {
	clients, others := certtest.New(t), certtest.New(t)
	p, ca, file := secureReplica(t, clients.File)
	cert, key := clients.Issue(t, certtest.Leaf{}).Files(t)
	bad, badKey := others.Issue(t, certtest.Leaf{}).Files(t)
	for _, command := range [][]string{{"status", "--admin", p.Admin, "--ca-file", ca.File}, {"status", "--config", file}} {
		if status, _, errs := call(t, append(command, "--cert-file", cert, "--key-file", key)...); status != 0 {
			t.Errorf("%v: status %d: %s", command, status, errs)
		}
		if status, _, errs := call(t, command...); status != 1 || !strings.Contains(errs, "wants a client certificate: give --cert-file and --key-file") {
			t.Errorf("%v without one: status %d: %s", command, status, errs)
		}
		if status, _, errs := call(t, append(command, "--cert-file", bad, "--key-file", badKey)...); status != 1 || !strings.Contains(errs, "may not accept the client certificate") {
			t.Errorf("%v with another's: status %d: %s", command, status, errs)
		}
	}
}

func TestCommandsThatReadAReplicasFileShowATokenThatMayOperate(t *testing.T) {
	ann, prom := strings.Repeat("1", 32), strings.Repeat("2", 32)
	both := apptest.File(t, "secret", "prom metrics "+prom+"\nann operate "+ann+"\n")
	for name, c := range map[string]struct {
		f        replicaFlags
		want, no string // the secret, or an error
	}{
		"none":               {f: replicaFlags{}},
		"a file without":     {f: replicaFlags{file: &config.File{}}},
		"a replica's":        {f: replicaFlags{file: &config.File{AdminTokensFile: both}}, want: ann},
		"one's own wins":     {f: replicaFlags{adminFlags: adminFlags{TokenFile: apptest.File(t, "secret", prom)}, file: &config.File{AdminTokensFile: both}}, want: prom},
		"none that operates": {f: replicaFlags{file: &config.File{AdminTokensFile: apptest.File(t, "secret", "prom metrics "+prom)}}, no: "admin_tokens_file: no token has the scope operate; give --token-file, or $FOREGATE_ADMIN_TOKEN_FILE"},
		"a token alone":      {f: replicaFlags{file: &config.File{AdminTokensFile: apptest.File(t, "secret", ann)}}, no: `admin_tokens_file: line 1: has 1 words; want "NAME SCOPES SECRET"`},
	} {
		secret, err := c.f.secret()
		if string(secret) != c.want || c.no == "" && err != nil || c.no != "" && (err == nil || err.Error() != c.no) {
			t.Errorf("%s: %q %v", name, secret, err)
		}
	}
}

// stamp does what the linker does for a release.
func stamp(t *testing.T, version, revision string) {
	t.Helper()
	v, r := stampedVersion, stampedRevision
	t.Cleanup(func() { stampedVersion, stampedRevision = v, r })
	stampedVersion, stampedRevision = version, revision
}

func TestTheVersionIsWhatWasStamped(t *testing.T) {
	stamp(t, "v1.2.3", "0123456789abcdef")
	if got := version(); got != "v1.2.3 0123456789abcdef" {
		t.Errorf("the status says %q", got)
	}
	status, out, errs := call(t, "version")
	want := "foregate v1.2.3\nrevision  0123456789abcdef\ngo        " + runtime.Version() + "\nplatform  " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	if status != 0 || out != want || errs != "" {
		t.Errorf("status %d, %q, %q; want %q", status, out, errs, want)
	}
}

func TestTheMemoryIsDividedByTheLimit(t *testing.T) {
	const mib = 1 << 20
	for limit, want := range map[int64]memory{
		0:          {0, 256 * mib},
		400 * mib:  {360 * mib, 100 * mib},
		100 * mib:  {75 * mib, 25 * mib},
		200 * mib:  {168 * mib, 50 * mib},
		4096 * mib: {4096*mib - 4096*mib/10, 1024 * mib},
		1:          {1, 1},
	} {
		if got := planMemory(limit); got != want {
			t.Errorf("%d: %+v, want %+v", limit, got, want)
		}
	}
}

func TestTheHeapGrowsLessTheMoreLives(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 400, 5 * mib: 400, 10 * mib: 400, 20 * mib: 200, 40 * mib: 100, 400 * mib: 100, 1 << 62: 100} {
		if got := growth(live); got != want {
			t.Errorf("%d bytes live: %d %%, want %d %%", live, got, want)
		}
	}
}
