package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/yamlfile"
	"github.com/foregate/foregate/tiers/discover"

	"github.com/foregate/foregate/internal/golden"
)

// TestEveryMistakeIsToldWithItsLineAndItsCure runs one file per mistake
// against the exact message in the .txt beside it.
func TestEveryMistakeIsToldWithItsLineAndItsCure(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse("foregate.yaml", data)
			golden.Check(t, strings.TrimSuffix(file, ".yaml")+".txt", fmt.Sprintln(message(err)))
			if strings.Contains(message(err), "hunter2") {
				t.Errorf("the message holds a secret: %v", err)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

func TestAFullFileIsReadWhole(t *testing.T) {
	got, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := &File{
		Listen: ":8080",
		Admin:  "0.0.0.0:9191", AdminTokensFile: "/run/secrets/admin-tokens",
		TLS:      ListenerTLS{CertFile: "/run/tls/tls.crt", KeyFile: "/run/tls/tls.key", ClientCAFile: "/run/tls/ca.crt"},
		AdminTLS: ListenerTLS{CertFile: "/run/tls/admin.crt", KeyFile: "/run/tls/admin.key", ClientCAFile: "/run/tls/operators.crt"},
		Redis: Redis{
			URL:         Endpoint{Kind: KindSingle, Network: "tcp", Addrs: []string{"redis:6379"}, TLS: true, Username: "gateway", DB: 1},
			CacheURL:    Endpoint{Kind: KindSentinel, Network: "tcp", Addrs: []string{"cache:26379"}, Master: "answers"},
			SettingsURL: Endpoint{Kind: KindSingle, Network: "tcp", Addrs: []string{"redis:6379"}, TLS: true, Username: "operator", Password: "hunter2", DB: 1},
			Replicas:    3,
			CAFile:      "/etc/foregate/ca.pem", CertFile: "/etc/foregate/redis.pem", KeyFile: "/etc/foregate/redis.key", ServerName: "redis.internal",
			SentinelUsername: "watcher", PasswordFile: "/run/secrets/redis", SentinelPasswordFile: "/run/secrets/sentinels",
		},
		Cache: Cache{SealKeysFile: "/run/secrets/seal-keys", LocalBytes: 64 << 20},
		Identity: identity.Options{Mode: identity.Keys, Default: identity.Tenant{MaxPriority: identity.Normal},
			JWT: identity.JWT{Algorithms: []jose.SignatureAlgorithm{"RS256", "ES256", "EdDSA"}, TenantClaim: "tenant", PriorityClaim: "priority"}},
		Pools: map[string]Pool{
			"llama-8b-a10g":  {Model: "meta-llama/Meta-Llama-3-8B-Instruct", Revision: "5f0b02c@2024-06/a:1", USDPerHour: 1.01, PrefillPerSecond: 1960, DecodePerSecond: 1400, Backends: []string{"http://a10g-0:8000", "https://a10g-1/vllm"}, Engine: "auto", Scheduler: "fcfs"},
			"llama-70b-h100": {Model: "meta-llama/Meta-Llama-3-70B-Instruct", USDPerHour: 12, Discover: "dns://vllm-target.svc:8000", Engine: "vllm", Scheduler: SchedulerPriority},
			"hosted": {Model: "llama-70b-turbo", Engine: "openai", Backends: []string{"https://api.example.com"}, Scheduler: "fcfs", Auth: PoolAuth{APIKeyFile: "/run/secrets/hosted"},
				USDPerMillionInput: 0.6, USDPerMillionCached: 0.6, USDPerMillionOutput: 0.9},
		},
		Routes: []Route{
			{Model: "llama-3", Draft: "llama-8b-a10g", Target: "llama-70b-h100", SameTokenizer: true, Fallbacks: []Fallback{{Pool: "hosted", When: []string{WhenUnavailable, "shed"}, MaxUSDPerHour: 20}}},
			{Model: "llama-3:canary", Target: "llama-70b-h100", Targets: []WeightedTarget{{"llama-70b-h100", 95}, {"llama-8b-a10g", 5}}},
			{Model: "llama-3:large", Target: "llama-70b-h100", AllowFields: []string{"image_url", "documents", "chat_template_kwargs.custom_instructions"}},
		},
		Tenants: []identity.Tenant{
			{ID: "acme", KeySHA256: [][32]byte{[32]byte(slices.Repeat([]byte{0xab}, 32))}, MaxPriority: identity.High, RPM: 600, TPM: 200000, Concurrent: 40,
				Access: identity.Access{AllowExternal: true, TraceContent: true, Models: []string{"llama-3", "code-*"},
					Budgets: []identity.Budget{{NanoUSD: 50e9, Per: "day"}, {Tokens: 2e6, Per: "month", DenyOnLoss: true}}}},
			{ID: "beta", KeySHA256: [][32]byte{[32]byte(slices.Repeat([]byte{0x12}, 32))}, MaxPriority: identity.Normal},
		},
		Passthrough: []string{"/v1/embeddings"},
		Limits: Limits{BodyBytes: 8 << 20, ResponseBytes: 1 << 20, InFlight: 100, HeaderBytes: 32 << 10,
			Connections: 5000},
		Drain:   Drain{Delay: 0, Grace: 110 * time.Second},
		Tracing: Tracing{OTLP: "http://collector:4318", Sample: 0.25, HeadersFile: "/run/secrets/otlp-headers"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWhatIsLeftOutHasItsDefault(t *testing.T) {
	got, err := Load("testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Listen = "127.0.0.1:8080"
	want.Pools = map[string]Pool{"big": {Model: "llama", Backends: []string{"http://127.0.0.1:8000"}, Engine: "auto", Scheduler: "fcfs"}}
	want.Routes = []Route{{Model: "llama", Target: "big"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.Limits.BodyBytes != 4<<20 || got.Limits.ResponseBytes != 16<<20 || got.Limits.InFlight != 4096 ||
		got.Limits.HeaderBytes != 16<<10 || got.Drain != (Drain{5 * time.Second, 25 * time.Second}) ||
		got.Redis.URL.Kind != KindNone || got.Cache.LocalBytes != 32<<20 || got.Admin != "127.0.0.1:9090" || len(got.Passthrough) != 5 {
		t.Errorf("defaults moved: %+v", got)
	}
}

func TestWhatIsNotYAMLIsToldWithItsLine(t *testing.T) {
	for text, line := range map[string]string{"{": "1", "a: \"\\q\"": "1", "a: 1\n\nb: \xff\n": "3", "a: 1\nb: \x01": "2", "a: 1\nb: *c\n": "2", "a: 1\nb: 'c\n": "2"} {
		if _, err := Parse("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "f:"+line+":1: not YAML") {
			t.Errorf("%q: want line %s, got %v", text, line, err)
		}
	}
}

func TestAMissingFileIsToldByName(t *testing.T) {
	if _, err := Load("testdata/no-such-file"); err == nil || !strings.Contains(err.Error(), "no-such-file") {
		t.Errorf("got %v", err)
	}
}

func TestAHugeFileIsRefusedBeforeItIsParsed(t *testing.T) {
	_, err := Parse("f", []byte(strings.Repeat("#", MaxFile+1)))
	if err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
}

func TestMistakesInOneLineAreToldInOneOrder(t *testing.T) {
	const file = `redis: {url: "redis://r:6379", settings_url: "redis://o@r:6379", password_file: "", settings_password_file: ""}`
	_, first := Parse("f", []byte(file))
	for range 50 {
		if _, err := Parse("f", []byte(file)); err.Error() != first.Error() {
			t.Fatalf("got\n%v\nafter\n%v", err, first)
		}
	}
}

func TestManyMistakesAreCutShort(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "x%d: 1\n", i)
	}
	_, err := Parse("f", []byte(b.String()))
	lines := strings.Split(message(err), "\n")
	if len(lines) != yamlfile.MaxProblems+1 || !strings.HasSuffix(lines[yamlfile.MaxProblems], "more") {
		t.Errorf("%d lines, last %q", len(lines), lines[len(lines)-1])
	}
}

func TestOnlyLoopbackIsOpen(t *testing.T) {
	for addr, open := range map[string]bool{
		"127.0.0.1:8080": true, "127.9.9.9:1": true, "[::1]:8080": true, "localhost:0": true, "[::ffff:127.0.0.1]:80": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.1:8080": false, "gateway:8080": false,
		"localhost.evil.example:80": false, "127.0.0.1.nip.io:80": false,
	} {
		_, err := Parse("f", []byte("listen: '"+addr+"'\npools: {p: {model: m, backends: ['http://h']}}\nroutes: [{model: m, target: p}]\n"))
		if (err == nil) != open {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// FuzzParse checks that Parse never panics, that every line of an error names
// the file, and that what it accepts keeps the promises that others build on.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("foregate.yaml", data)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "foregate.yaml:") {
					t.Errorf("line %q does not name the file", line)
				}
			}
			return
		}
		checkPromises(t, file)
	})
}

func checkPromises(t *testing.T, f *File) {
	t.Helper()
	if len(f.Routes) == 0 || len(f.Pools) == 0 {
		t.Error("accepted without routes or pools")
	}
	for _, r := range f.Routes {
		_, target := f.Pools[r.Target]
		_, draft := f.Pools[r.Draft]
		if !target || (r.Draft != "" && !draft) || r.Model == "" || r.Draft == r.Target {
			t.Errorf("accepted route %+v", r)
		}
	}
	for name, p := range f.Pools {
		if p.Model == "" || (len(p.Backends) == 0) == (p.Discover == "") || !(p.USDPerHour >= 0) || !(p.PrefillPerSecond >= 0) || !(p.DecodePerSecond >= 0) || !yamlfile.SafeName(name) ||
			(p.Discover != "" && discover.Check(p.Discover) != nil) {
			t.Errorf("accepted pool %q %+v", name, p)
		}
	}
	host, _, err := splitAddr(f.Listen)
	if err != nil || (f.Identity.Mode == identity.Open && !loopback(host)) {
		t.Errorf("accepted listen %q in mode %q", f.Listen, f.Identity.Mode)
	}
	if host, _, err := splitAddr(f.Admin); err != nil || (!loopback(host) && f.AdminTokensFile == "") {
		t.Errorf("accepted admin %q", f.Admin)
	}
	if f.Identity.Mode == identity.TrustedHeaders && len(f.Identity.TrustedProxies) == 0 {
		t.Error("accepted trusted headers from nowhere")
	}
	if j := f.Identity.JWT; f.Identity.Mode == identity.JWTs && (j.Issuer == "" || j.Audience == "" || j.JWKSFile == "") {
		t.Error("accepted tokens of anybody or for anybody")
	}
}

// defaults is the configuration of an empty file.
func defaults() *File {
	f := &File{}
	yamlfile.Value{}.Into(f)
	return f
}
