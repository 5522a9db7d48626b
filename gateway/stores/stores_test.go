package stores

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/config"
)

func TestInvalidationsComeOnOneConnectionThatIsKept(t *testing.T) {
	m := miniredis.RunT(t)
	s, stop, err := Open(config.Redis{URL: "redis://" + m.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	tracking, others := s.Tracking.(*redis.Client).Options(), s.Control.(*redis.Client).Options()
	if tracking.PoolSize != 1 || tracking.MinIdleConns != 0 || tracking.ConnMaxIdleTime > 0 {
		t.Errorf("at most %d connections, at least %d, closed after %v", tracking.PoolSize, tracking.MinIdleConns, tracking.ConnMaxIdleTime)
	}
	if others.PoolSize == 1 || others.ConnMaxIdleTime <= 0 {
		t.Errorf("the others': at most %d connections, closed after %v", others.PoolSize, others.ConnMaxIdleTime)
	}
}
