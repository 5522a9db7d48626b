package app

import (
	"math"
	"testing"

	"github.com/foregate/foregate/gateway/config"
)

func TestConnectionsLeaveFilesForBackendsAndOperators(t *testing.T) {
	const none = math.MaxInt64
	for _, c := range []struct {
		limits            config.Limits
		files             int
		memory            int64
		conns, perAddress int
		warned            bool
	}{
		{config.Limits{}, 20000, none, 9936, 4968, false},
		{config.Limits{}, 1 << 20, none, 16384, 8192, false},
		{config.Limits{}, 1024, none, 448, 224, false},
		{config.Limits{}, 100, none, 32, 16, false},
		{config.Limits{Connections: 5000}, 20000, none, 5000, 2500, false},
		{config.Limits{Connections: 40000}, 1 << 20, none, 40000, 20000, false},
		{config.Limits{Connections: 5000}, 1024, none, 448, 224, true},
		{config.Limits{Connections: 5000, ConnectionsPerAddress: 5000}, 20000, none, 5000, 5000, false},
		{config.Limits{ConnectionsPerAddress: 5000}, 1024, none, 448, 448, false},
		{config.Limits{ConnectionsPerAddress: 10}, 1024, none, 448, 10, false},
		{config.Limits{}, 20000, 400 << 20, 5120, 2560, false},
		{config.Limits{}, 20000, 1 << 20, 32, 16, false},
		{config.Limits{Connections: 8000}, 20000, 400 << 20, 8000, 4000, false},
	} {
		conns, perAddress, warning := connLimits(c.limits, false, c.files, c.memory)
		if conns != c.conns || perAddress != c.perAddress || (warning != "") != c.warned {
			t.Errorf("%+v with %d files and %d bytes: %d, %d, %q", c.limits, c.files, c.memory, conns, perAddress, warning)
		}
	}
}

func TestConnectionsWithTLSTakeMoreMemory(t *testing.T) {
	for memory, want := range map[int64]int{8 << 30: 9362, 1 << 30: 1170, 1 << 20: minConns, math.MaxInt64: 16384} {
		if conns, _, _ := connLimits(config.Limits{}, true, 1<<20, memory); conns != want {
			t.Errorf("%d bytes of memory: %d connections, want %d", memory, conns, want)
		}
	}
}
