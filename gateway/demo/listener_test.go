package demo

import (
	"errors"
	"net"
	"testing"
)

func TestServersOfOneListenerTakeConnectionsInTurnAndCloseEachForItself(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := inTurn(ln, 2)
	one, other := all[0], all[1]
	took, ended := make(chan *turnListener), make(chan error, 2)
	for _, s := range all {
		go func() {
			for {
				c, err := s.Accept()
				if err != nil {
					ended <- err
					return
				}
				_ = c.Close()
				took <- s
			}
		}()
	}
	n := map[*turnListener]int{}
	for range 20 {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		n[<-took]++
		_ = c.Close()
	}
	if n[one] != 10 || n[other] != 10 {
		t.Errorf("%d and %d connections", n[one], n[other])
	}
	_ = one.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if len(ended) > 0 {
		t.Error("the other server was told before it closed")
	}
	_ = other.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
