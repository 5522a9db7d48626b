package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
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
