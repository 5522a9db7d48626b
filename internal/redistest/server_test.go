package redistest

import (
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

func TestTheNextTestHasTheServerAsItWasStarted(t *testing.T) {
	var first *Server
	t.Run("first", func(t *testing.T) {
		first = Start(t)
		first.Do("SET", "k", "v")
		first.Do("CLIENT", "PAUSE", "1", "WRITE")
	})
	t.Run("second", func(t *testing.T) {
		s := Start(t)
		if s != first || s.Do("DBSIZE") != int64(0) {
			t.Errorf("another server: %t, %v keys", s != first, s.Do("DBSIZE"))
		}
	})
}

func TestAServerThatATestChangedIsNotUsedAgain(t *testing.T) {
	for name, change := range map[string]func(s *Server){
		"its configuration": func(s *Server) { s.Do("CONFIG", "SET", "maxmemory", "100mb") },
		"its users":         func(s *Server) { s.Do("ACL", "SETUSER", "gate", "on") },
		"its files":         func(s *Server) { s.Do("SAVE") },
		"its process":       func(s *Server) { s.Kill() },
		"its answers":       func(s *Server) { s.Freeze() },
	} {
		var changed *Server
		t.Run(name, func(t *testing.T) { changed = Start(t); change(changed) })
		t.Run(name+", then", func(t *testing.T) {
			if s := Start(t); s == changed {
				t.Error("it is used again")
			}
		})
	}
}

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
