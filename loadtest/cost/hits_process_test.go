package cost

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// bareRole is what hits are measured by: a handler of the standard library that takes a
// request and returns an answer that lies ready. At /get it first asks Redis for a value as
// large as the one that the gateway asks for, at /memory it does nothing else. Its arguments are
// the address of Redis, the value's key there and the file of the answer.
func bareRole() int {
	if err := serveBare(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bare:", err)
	}
	return 1
}

func serveBare(redisAddr, key, file string) error {
	answer, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr(), admin.Addr())
	go exitAtEOF()
	go serveMallocs(admin)
	client := redis.NewClient(&redis.Options{Addr: redisAddr, PoolSize: hitClients})
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, r *http.Request, ok bool) {
		if _, err := io.ReadAll(r.Body); err != nil || !ok {
			http.Error(w, "no answer", http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // the client sees it
	}
	mux.HandleFunc("/memory", func(w http.ResponseWriter, r *http.Request) { reply(w, r, true) })
	mux.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) {
		value, err := client.Get(r.Context(), key).Bytes()
		reply(w, r, err == nil && len(value) > 0)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return server.Serve(ln)
}

func startBare(b *testing.B, redisAddr, key, file string) *party {
	b.Helper()
	p, out, errs := startRole(b, bareName, redisAddr, key, file)
	go func() { _, _ = io.Copy(os.Stderr, errs) }()
	addrs := firstLine(b, out)
	p.addr, p.admin = addrs[0], addrs[1]
	return p
}

// startStore starts a Redis that ends with the benchmark.
func startStore(b *testing.B) (addr string, client *redis.Client) {
	b.Helper()
	exe, err := exec.LookPath("redis-server")
	if err != nil {
		b.Skip("redis-server is not in PATH")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr = ln.Addr().String()
	_ = ln.Close() // the port is for the server
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(exe, "--bind", "127.0.0.1", "--port", port, "--dir", b.TempDir(), "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	client = redis.NewClient(&redis.Options{Addr: addr})
	b.Cleanup(func() {
		_ = client.Close()     // only connections are lost
		_ = cmd.Process.Kill() // there is nothing to save
		_ = cmd.Wait()         // "killed" is what we want to hear
	})
	for end := time.Now().Add(10 * time.Second); client.Ping(b.Context()).Err() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("redis-server does not answer")
		}
	}
	return addr, client
}
