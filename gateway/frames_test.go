package gateway

import (
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// TestFloodsOfControlFramesAreCut has clients that read all answers: what is not read, the server bounds itself.
func TestFloodsOfControlFramesAreCut(t *testing.T) {
	t.Parallel()
	b := secureBench(t, simulator(t).URL(), true, nil)
	for name, write := range map[string]func(*frames) error{
		"PING":          func(f *frames) error { return f.WritePing(false, [8]byte{}) },
		"SETTINGS":      func(f *frames) error { return f.WriteSettings() },
		"WINDOW_UPDATE": func(f *frames) error { return f.WriteWindowUpdate(0, 1) },
		"PRIORITY":      func(f *frames) error { return f.WritePriority(f.next, http2.PriorityParam{Weight: 1}) },
		"unknown":       func(f *frames) error { return f.WriteRawFrame(0xfa, 0, 0, nil) },
	} {
		f := dialFrames(t, b, 1<<20)
		ended := make(chan struct{})
		go func() { f.read(); close(ended) }()
		for range maxControl / 2 {
			f.do(write(f))
		}
		if name == "PING" && f.says(f.request("GET", "/v1/models")) != "200" {
			t.Errorf("%s: half of what is allowed is too much", name)
		}
		began, err := time.Now(), error(nil)
		for n := 0; err == nil && n < 20*maxControl; n++ {
			err = write(f)
		}
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
		}
		if err == nil {
			t.Errorf("%s: %d frames were taken in %v", name, 20*maxControl, time.Since(began))
		}
	}
	b.reuses(t) // another client is served
}
