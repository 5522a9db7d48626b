package connect_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/internal/redistest"
)

func TestAReplyThatIsRefusedClosesItsConnectionAndTheNextIsMadeAnew(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	closed := make(chan error, 16)
	go func() {
		for first := true; ; first = false {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				buf := make([]byte, 4<<10)
				for {
					n, err := c.Read(buf)
					switch {
					case err != nil:
						closed <- err
						_ = c.Close() // it is
						return
					case strings.Contains(strings.ToLower(string(buf[:n])), "hello"):
						_, _ = io.WriteString(c, "-ERR unknown command\r\n")
					case first:
						_, _ = io.WriteString(c, "*8000000\r\n")
					default:
						_, _ = io.WriteString(c, "+PONG\r\n")
					}
				}
			}()
		}
	}()
	o := connect.Background(connect.Options{Network: "tcp", Addrs: []string{ln.Addr().String()}})
	o.MinIdleConns, o.Protocol = 0, 2
	c := connect.New(o)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "more than 262144 elements") {
		t.Fatalf("%v", err)
	}
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		t.Fatal("the connection is open still")
	}
	redistest.Eventually(t, "the next connection is well", func() bool { return c.Ping(t.Context()).Err() == nil })
}

func TestFilesOfTLSThatAreMissingOrWrongAreTold(t *testing.T) {
	ca, cert, key := redistest.Certificates(t)
	for want, files := range map[string]connect.TLSFiles{
		"ca_file: open /nowhere":                        {CA: "/nowhere"},
		"ca_file: " + key + " holds no certificate":     {CA: key},
		"cert_file, key_file: open /nowhere":            {Cert: "/nowhere", Key: key},
		"cert_file, key_file: tls: found a certificate": {Cert: cert, Key: ca},
		"cert_file, key_file: tls: private key does no": {Cert: ca, Key: key},
	} {
		if _, err := files.Config(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
