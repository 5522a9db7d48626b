package cost

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
)

// Names of the processes that are measured.
const (
	yardstick = yardstickName
	newcomer  = "gateway"            // with all defaults
	noCopies  = "gateway, no copies" // hits come from Redis
	drafter   = "gateway, drafting"  // drafts are accepted from the first request on
	nginx     = "nginx"
)

// Routes of the drafting gateway: they share the pools and differ in how drafts are judged.
const (
	ownRoute   = "bench"   // by the draft's own score, as most routes are
	wholeRoute = "bench-w" // the target is asked about the whole answer (mode lenient)
)

// draftSettings make the routes what they are called.
var draftSettings = map[string]string{
	"speculation.mode":                      "confidence", // certificates of mode risk take hours of traffic
	"economy.guard":                         "off",        // it would learn what pays
	"speculation.mode@" + wholeRoute:        "verify",
	"speculation.verify_rule@" + wholeRoute: "lenient",
	"speculation.max_concurrent_scores":     "1000",
	"timeout.target_first_token":            "200s", // a score may take a twentieth
	"speculation.holdback_ms":               "60000",
}

// parties are the processes of a run, which are started when they are needed.
type parties struct {
	b       *testing.B
	cores   cores
	binary  string
	mock    *party
	started map[string]*party
}

// newParties starts the engine. binary is foregate.
func newParties(b *testing.B, binary string) *parties {
	b.Helper()
	ps := &parties{b: b, cores: pin(b), binary: binary, started: map[string]*party{}}
	ps.mock = startRole(b, mockName, nil)
	ps.mock.admin = ""
	s, err := connectTo(ps.mock.addr)
	if err != nil {
		b.Fatal(err)
	}
	ps.mock.sessions = []*session{s}
	return ps
}

// measured is how a command begins that runs on the core of its own.
func (ps *parties) measured() []string { return []string{"taskset", "-c", ps.cores.measured} }

// has reports whether the party can be started: everybody but nginx can.
func (*parties) has(name string) bool {
	_, err := exec.LookPath("nginx")
	return name != nginx || err == nil
}

// get returns a process, which has its connections and its final size.
func (ps *parties) get(name string) *party {
	ps.b.Helper()
	if p, ok := ps.started[name]; ok {
		return p
	}
	var p *party
	switch name {
	case yardstick:
		p = startRole(ps.b, yardstickName, ps.measured(), "http://"+ps.mock.addr)
	case nginx:
		p = ps.nginx()
	case noCopies:
		p = ps.gateway(redis(ps.b, nil), "cache: {local_bytes: 0}\n", ps.mock.addr)
	case drafter:
		p = ps.gateway(redis(ps.b, draftSettings), fmt.Sprintf("  - {model: %s, draft: small, target: large}\n", wholeRoute), ps.mock.addr)
	default:
		var settings map[string]string
		if drafts(name) {
			settings = draftSettings
		}
		store := redis(ps.b, settings)
		p = ps.gateway(store, "", ps.mock.addr)
		for range replicasOf(name) - 1 {
			p.replicas = append(p.replicas, ps.gateway(store, "", ps.mock.addr))
		}
	}
	p.name = name
	ps.started[name] = p
	p.settle(ps.b, connections)
	if drafts(name) {
		for end := time.Now().Add(20 * time.Second); bytes.Count(p.page(ps.b), []byte("\nforegate_probe_age_seconds{")) < 2*replicasOf(name); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				ps.b.Fatal("the gateway does not know its engines")
			}
		}
	}
	l := load{each: []exchange{chat{size: 16 << 10, tokens: shortAnswer}.exchange()}, lasts: time.Second / 2}
	if _, err := p.apply(l); err != nil {
		ps.b.Fatal(err)
	}
	return p
}

// again is a run with new processes, beside the same engine.
func (ps *parties) again() *parties {
	out := *ps
	out.started = map[string]*party{}
	return &out
}

// stop ends what is measured.
func (ps *parties) stop() {
	for _, p := range ps.started {
		for _, s := range p.sessions {
			_ = s.conn.Close() // nothing is under way
		}
		for _, one := range append(p.replicas, p) {
			if measured, err := os.FindProcess(one.pid); err == nil {
				_ = measured.Kill() // there is nothing to save
			}
		}
	}
}

// redis starts a redis-server and returns its URL. Each gateway has its own: they are no fleet.
func redis(b *testing.B, settings map[string]string) string {
	b.Helper()
	s := redistest.Start(b)
	// By default the gateway waits 15 ms for the cache. Redis shares a core with the clients, and is sometimes later.
	values := []any{"redis.timeout", "1s"}
	for name, value := range settings {
		values = append(values, name, value)
	}
	if err := s.Client.HSet(b.Context(), "foregate:settings", values...).Err(); err != nil {
		b.Fatal(err)
	}
	return "redis://" + s.Addr
}

// gateway starts foregate with the configuration of a newcomer, to which more is added behind the routes.
func (ps *parties) gateway(redis, more string, engines ...string) *party {
	ps.b.Helper()
	var urls []string
	for _, addr := range engines {
		urls = append(urls, fmt.Sprintf("%q", "http://"+addr))
	}
	return startServe(ps.b, ps.measured(), ps.binary, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: %q}
passthrough: [/v1/embeddings]
pools:
  small: {model: %[2]s, usd_per_hour: 1, backends: [%[3]s]}
  large: {model: %[2]s, usd_per_hour: 12, backends: [%[3]s]}
routes:
  - {model: %[4]s, draft: small, target: large}
%[5]s`, redis, mockModel, strings.Join(urls, ", "), ownRoute, more))
}

// startServe starts `foregate serve`. Its log goes into a pipe, as in production.
func startServe(b *testing.B, before []string, binary, config string) *party {
	b.Helper()
	file := filepath.Join(b.TempDir(), "foregate.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	p, _, log := start(b, newcomer, append(before, binary, "serve", "-c", file)...)
	lines := bufio.NewReaderSize(log, 64<<10)
	for p.addr == "" {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			b.Fatalf("the gateway did not start: %v %s", err, line)
		}
		var said struct{ Message, Listen, Admin string }
		if json.Unmarshal(line, &said) == nil && said.Message == "serving" {
			p.addr, p.admin = said.Listen, said.Admin
		}
	}
	go drainSlowly(lines)
	return p
}

// drainSlowly empties a pipe as a log collector does, in large pieces: the reader is not woken for each line.
func drainSlowly(r io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		if _, err := r.Read(buf); err != nil {
			return // its writer has ended
		}
		time.Sleep(time.Millisecond)
	}
}

// nginx starts an nginx of one process that forwards as the gateway does: connections to the engine are kept, and streams are
// not held back. It writes no log.
func (ps *parties) nginx() *party {
	ps.b.Helper()
	dir, addr := ps.b.TempDir(), "127.0.0.1:"+redistest.FreePort(ps.b)
	temps := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temps += fmt.Sprintf("  %s_temp_path %s/%s;\n", kind, dir, kind)
	}
	config := fmt.Sprintf(`
daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events { worker_connections 1024; }
http {
  access_log off;
%[2]s
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  client_body_buffer_size 256k;
  upstream engine {
    server %[3]s;
    keepalive 128;
    keepalive_requests 1000000000;
    keepalive_time 24h;
  }
  server {
    listen %[4]s;
    location / {
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`, dir, temps, ps.mock.addr, addr)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		ps.b.Fatal(err)
	}
	p, _, errs := start(ps.b, nginx, append(ps.measured(), "nginx", "-e", "stderr", "-p", dir, "-c", file)...)
	go func() { _, _ = io.Copy(os.Stderr, errs) }()
	p.addr = addr
	return p
}

// foregateBinary is FOREGATE_BINARY, or else foregate built as it is released.
func foregateBinary(b *testing.B) string {
	b.Helper()
	if file := os.Getenv("FOREGATE_BINARY"); file != "" {
		return file
	}
	out := filepath.Join(b.TempDir(), "foregate")
	if text, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "../../cmd/foregate").CombinedOutput(); err != nil {
		b.Fatalf("building what is measured: %v\n%s", err, strings.TrimSpace(string(text)))
	}
	return out
}
