package embedded

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

func TestTheEmbeddedServersPipeObeysDeadlinesWhenNobodyReads(t *testing.T) {
	ours, theirs := net.Pipe()
	p := newPipe(ours)
	t.Cleanup(func() { _, _ = p.Close(), theirs.Close() })
	if err := p.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var err error
	for range pipeBacklog + 2 { // one is being sent
		if _, err = p.Write([]byte("x")); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write behind %d others: %v", pipeBacklog, err)
	}
	if _, err := p.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read of nothing: %v", err)
	}
	if err := p.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := p.Write([]byte("y"))
		written <- err
	}()
	if _, err := theirs.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Errorf("there is room again: %v", err)
	}
	_ = p.Close()
	if _, err := p.Write([]byte("z")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write to a closed pipe: %v", err)
	}
}
