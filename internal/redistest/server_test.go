package redistest

import (
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

func TestAServerThatIsRestartedIsEmpty(t *testing.T) {
	s := Start(t)
	s.Do("SET", "k", "v")
	s.Kill()
	s.Restart()
	if n := s.Do("DBSIZE"); n != int64(0) {
		t.Errorf("%v keys", n)
	}
	p := StartProxy(t, s.Addr, 20*time.Millisecond)
	c := Client(t, Background(p.Addr))
	began := time.Now()
	if err := c.Ping(t.Context()).Err(); err != nil || time.Since(began) < 20*time.Millisecond || p.Connections() != 1 {
		t.Errorf("%v after %v by %d connections", err, time.Since(began), p.Connections())
	}
}
