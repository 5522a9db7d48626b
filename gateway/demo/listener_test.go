package demo

import (
	"bytes"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
)

// flaky fails its first Accepts as a process without free descriptors does.
type flaky struct {
	net.Listener
	left int
}

func (h *flaky) Accept() (net.Conn, error) {
	if h.left > 0 {
		h.left--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return h.Listener.Accept()
}

func TestSplittingGoesOnAfterAcceptsThatFail(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	f := newSplitListener(&flaky{ln, 3}, 1, zerolog.New(&log))
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	server, err := f.share(0).Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	f.stop() // returns: the closed listener ends the loop
	if n := strings.Count(log.String(), "too many open files"); n != 3 {
		t.Errorf("%d of 3 errors were told: %s", n, log.String())
	}
}
