package chaos

import (
	"net/http"
	"testing"
	"time"
)

func TestAnSDKWaitsAsItIsToldAndGivesUpWhereItIsTold(t *testing.T) {
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for name, c := range map[string]struct {
		o                Outcome
		try              int
		again            bool
		minimum, maximum time.Duration
	}{
		"shed, and told when":        {Outcome{Kind: Shed, Header: header("Retry-After", "3")}, 0, true, 3 * time.Second, 3 * time.Second},
		"told a time beyond obeying": {Outcome{Kind: Limited, Header: header("Retry-After", "90")}, 1, true, 750 * time.Millisecond, time.Second},
		"told nothing":               {Outcome{Kind: Shed}, 0, true, 375 * time.Millisecond, 500 * time.Millisecond},
		"told not to":                {Outcome{Kind: Shed, Header: header("Retry-After", "3", "X-Should-Retry", "false")}, 0, false, 0, 0},
		"told to":                    {Outcome{Kind: "http_400", Header: header("X-Should-Retry", "true")}, 0, true, 375 * time.Millisecond, 500 * time.Millisecond},
		"a client's own error":       {Outcome{Kind: "http_400"}, 0, false, 0, 0},
		"an answer":                  {Outcome{Kind: Answered}, 0, false, 0, 0},
	} {
		pause, again := sdkWaits(&c.o, c.try)
		if again != c.again || pause < c.minimum || pause > c.maximum {
			t.Errorf("%s: %v, %v", name, pause, again)
		}
	}
}
