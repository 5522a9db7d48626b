package main

import (
	"testing"

	"github.com/foregate/foregate/gateway/config"
)

func TestConnectionsLeaveFilesForBackendsAndOperators(t *testing.T) {
	for _, c := range []struct {
		limits            config.Limits
		files             int
		conns, perAddress int
		warned            bool
	}{
		{config.Limits{}, 20000, 9936, 4968, false},
		{config.Limits{}, 1 << 20, 16384, 8192, false},
		{config.Limits{}, 1024, 448, 224, false},
		{config.Limits{}, 100, 32, 16, false},
		{config.Limits{Connections: 5000}, 20000, 5000, 2500, false},
		{config.Limits{Connections: 40000}, 1 << 20, 40000, 20000, false},
		{config.Limits{Connections: 5000}, 1024, 448, 224, true},
		{config.Limits{Connections: 5000, ConnectionsPerAddress: 5000}, 20000, 5000, 5000, false},
		{config.Limits{ConnectionsPerAddress: 5000}, 1024, 448, 448, false},
		{config.Limits{ConnectionsPerAddress: 10}, 1024, 448, 10, false},
	} {
		conns, perAddress, warning := connLimits(c.limits, c.files)
		if conns != c.conns || perAddress != c.perAddress || (warning != "") != c.warned {
			t.Errorf("%+v with %d files: %d, %d, %q", c.limits, c.files, conns, perAddress, warning)
		}
	}
}
