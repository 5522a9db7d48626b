package app

import (
	"math"
	"testing"
)

func TestConnectionsLeaveFilesForBackendsAndOperatorsAndMemoryForRequests(t *testing.T) {
	const none = math.MaxInt64
	for _, c := range []struct {
		files  int
		memory int64
		want   int
	}{
		{20000, none, 9936}, {1024, none, 448}, {100, none, minConns}, {1 << 20, 400 << 20, 10240}, {20000, 400 << 20, 9936}, {20000, 1 << 20, minConns},
	} {
		if got := maxConns(c.files, c.memory); got != c.want {
			t.Errorf("%d files and %d bytes: %d, want %d", c.files, c.memory, got, c.want)
		}
	}
}
