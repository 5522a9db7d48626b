package helm

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// bin is where the programs are.
var bin string

// TestMain builds the programs that what is rendered is given to.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "foregate-deploy")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin = dir
	build := exec.Command("go", "build", "-o", dir, "./cmd/foregate", "./cmd/vllmsim")
	build.Dir = repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	plan := exec.Command(dir+"/foregate", strings.Fields("plan --rate 3 --prompt 200 --output 10 --for 80s --slo ttft_p99=2s --target llama-3.1-8b --draft none --prices market --seeds 1 --out "+dir+"/plan")...)
	if out, err := plan.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

const mounted = "/run/secrets/foregate/"

// onThisMachine is a file of a pod with the paths that are mounted there put under a directory here, in
// which each that it names has what the chart's Secrets hold for it, or what an operator would put there.
func onThisMachine(t *testing.T, text string, d *deployment, docs []object) (path string) {
	t.Helper()
	dir, made := t.TempDir(), mountedFiles(d, docs)
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \n\"',{}[]", c) }) {
		if name, ok := strings.CutPrefix(word, mounted); ok {
			at := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			certificate, privateKey := selfSigned()
			content, ok := made[word]
			if !ok {
				content = map[string]string{
					"tokens":  "prometheus metrics " + secret("a") + "engines drain " + secret("b") + "ann operate " + secret("c"),
					"keys":    "k2 " + secret("d") + "k1 " + secret("e"),
					"tls.crt": certificate, "tls.key": privateKey,
				}[filepath.Base(at)]
			}
			if err := os.WriteFile(at, []byte(cmp.Or(content, secret("f"))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	path = filepath.Join(dir, "foregate.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, mounted, dir+"/")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// selfSigned is a certificate and its key, which is made once.
var selfSigned = sync.OnceValues(func() (certificate, privateKey string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"gateway.internal"}}
	cert, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	encoded := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return encoded("CERTIFICATE", cert), encoded("PRIVATE KEY", der)
})

func secret(letter string) string { return strings.Repeat(letter, 64) + "\n" }

// mountedFiles are what the chart's own Secrets put into the gateway's container, by path.
func mountedFiles(d *deployment, docs []object) map[string]string {
	secrets := map[string]map[string]string{}
	for _, s := range only[*core.Secret](docs) {
		secrets[s.Name] = maps.Clone(s.StringData)
		for k, v := range s.Data {
			secrets[s.Name] = map[string]string{k: string(v)}
		}
	}
	out := map[string]string{}
	pod := d.Spec.Template.Spec
	for _, m := range pod.Containers[0].VolumeMounts {
		for _, v := range pod.Volumes {
			if v.Name != m.Name || v.Secret == nil {
				continue
			}
			for key, text := range secrets[v.Secret.SecretName] {
				file := key
				for _, i := range v.Secret.Items {
					if i.Key == key {
						file = i.Path
					}
				}
				out[m.MountPath+"/"+file] = text
			}
		}
	}
	return out
}

func TestForegateTakesTheFile(t *testing.T) {
	inEveryVariant(t, func(t *testing.T, d *deployment, docs []object) {
		text, _ := configFile(t, docs)
		if text == "" {
			return
		}
		if out, err := exec.Command(bin+"/foregate", "check", onThisMachine(t, text, d, docs)).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\nof\n%s", err, out, text)
		}
	})
}

// process is a program that listens, stopped when the test ends.
func process(t *testing.T, ready string, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if resp, err := http.Get(ready); err == nil {
			_ = resp.Body.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s did not come up", name)
		}
	}
}

// freeAddress is one that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// The tokens of a gateway here.
var (
	drainToken   = strings.Repeat("d", 64)
	metricsToken = strings.Repeat("m", 64)
)

// startGateway runs a gateway with the backends given in its pool draft, and returns its admin listener's URL.
func startGateway(t *testing.T, backends ...string) string {
	t.Helper()
	admin, dir := freeAddress(t), t.TempDir()
	file, tokens := filepath.Join(dir, "foregate.yaml"), filepath.Join(dir, "tokens")
	text := fmt.Sprintf(`listen: %s
admin: %s
admin_tokens_file: %s
pools: {draft: {model: m, backends: [%s]}}
routes: [{model: m, target: draft}]
drain: {delay: 0s, grace: 1s}
`, freeAddress(t), admin, tokens, strings.Join(backends, ", "))
	lines := "prometheus metrics " + metricsToken + "\nengines drain " + drainToken + "\n"
	for name, content := range map[string]string{file: text, tokens: lines} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	process(t, "http://"+admin+"/livez", "foregate", "serve", "-c", file)
	return "http://" + admin
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+drainToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
