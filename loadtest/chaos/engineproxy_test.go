package chaos

import (
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// front starts a simulator behind an EngineProxy.
func front(t *testing.T) *EngineProxy {
	t.Helper()
	f, err := NewEngineProxy(vllmsim.Start(t, vllmsim.Options{Model: RouteModel, TimeScale: usualScale}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestAFrontLiesAboutMetricsAloneAndUntilItIsToldTheTruth(t *testing.T) {
	f := front(t)
	usage := func() string {
		page, err := process.Fetch(t.Context(), f.URL+"/metrics")
		if err != nil {
			return err.Error()
		}
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "vllm:kv_cache_usage_perc") {
				return strings.TrimSpace(line[strings.LastIndexByte(line, ' '):])
			}
		}
		return "none"
	}
	if got := usage(); got != "0.0" {
		t.Errorf("the truth is %s", got)
	}
	for _, value := range []string{"NaN", "85", "1"} {
		f.SetMetrics(usageSays(value))
		if got := usage(); got != value {
			t.Errorf("said %s, want %s", got, value)
		}
	}
	f.SetMetrics(page(http.StatusNotFound, ""))
	if got := usage(); !strings.Contains(got, "404") {
		t.Errorf("said %s, want 404", got)
	}
	if _, err := process.Fetch(t.Context(), f.URL+"/v1/models"); err != nil {
		t.Errorf("changes more than metrics: %v", err)
	}
	f.SetMetrics(nil)
	if got := usage(); got != "0.0" {
		t.Errorf("back to the truth: %s", got)
	}
}

func TestALongPageHasTheTruthInFrontAndItsLength(t *testing.T) {
	f := front(t)
	f.SetMetrics(long(1 << 20))
	body, err := process.Fetch(t.Context(), f.URL+"/metrics")
	if err != nil || len(body) < 1<<20 || !strings.Contains(body[:1<<16], "vllm:kv_cache_usage_perc") {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

func TestAProxyCutsOffOneProcessAlone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	echo, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = echo.Close() }()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	d, err := NewProxy(echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	dial := func() net.Conn {
		c, err := net.DialTimeout("tcp", d.Addr, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	open := dial()
	if err := speak(open); err != nil {
		t.Fatal(err)
	}
	d.CutOff(1) // somebody else
	if err := speak(open); err != nil {
		t.Errorf("another process' trouble: %v", err)
	}
	d.CutOff(os.Getpid())
	if speak(open) == nil {
		t.Error("an open connection lives")
	}
	if c, err := net.DialTimeout("tcp", d.Addr, 5*time.Second); err == nil { // else it was reset already
		defer func() { _ = c.Close() }()
		if speak(c) == nil {
			t.Error("a new connection is served")
		}
	}
	d.CutOff(0)
	if err := speak(dial()); err != nil {
		t.Errorf("mended: %v", err)
	}
}

// speak says something on a connection and hears it back.
func speak(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte("a")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}
