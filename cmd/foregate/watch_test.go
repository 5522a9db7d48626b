package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// watched starts the program in a process of its own, and reads what it says line by line. end
// sends it Ctrl-C and returns its exit status.
func watched(t *testing.T, args ...string) (lines *bufio.Reader, end func() int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, append([]string{"status"}, args...)...)
	cmd.Env = append(os.Environ(), beForegate+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() int {
		ended = true
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_, _ = io.Copy(io.Discard, out)      // to its end
		_ = cmd.Wait()                       // the status tells
		return cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() {
		if !ended {
			_ = cmd.Process.Signal(syscall.SIGKILL) // by its id
			end()
		}
	})
	return bufio.NewReader(out), end
}

// until reads lines until one holds a text, and returns all of them.
func until(t *testing.T, lines *bufio.Reader, text string) string {
	t.Helper()
	var all strings.Builder
	for {
		line, err := lines.ReadString('\n')
		if all.WriteString(line); err != nil {
			t.Fatalf("%v before %q:\n%s", err, text, all.String())
		}
		if strings.Contains(line, text) {
			return all.String()
		}
	}
}

// unsteady is a replica that is away when it is told to be.
func unsteady(t *testing.T) (url string, away *atomic.Bool) {
	t.Helper()
	away = new(atomic.Bool)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(standing())
	}))
	t.Cleanup(srv.Close)
	return srv.URL, away
}

func TestWhoWatchesSeesTheReplicaComeAndGoUntilCtrlC(t *testing.T) {
	url, away := unsteady(t)
	lines, end := watched(t, "--admin", url, "--watch", "0.1")
	first := until(t, lines, "pool small")
	if strings.Contains(first, "\x1b") {
		t.Errorf("a pipe is told to clear itself: %q", first)
	}
	until(t, lines, "pool small")
	away.Store(true)
	until(t, lines, "NOT THERE: ")
	away.Store(false)
	if again := "\n" + until(t, lines, "pool small"); !strings.Contains(again, "\n\nforegate") {
		t.Errorf("no blank line between two looks:\n%s", again)
	}
	if status := end(); status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestAWatchAsJSONIsALineEachTime(t *testing.T) {
	url, away := unsteady(t)
	lines, end := watched(t, "--json", "--watch=0.1", "--admin", url)
	seen := map[bool]int{}
	for i := range 6 {
		away.Store(i >= 3)
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Error   string
			Version string
		}
		if err := json.Unmarshal(line, &s); err != nil || (s.Error == "") == (s.Version == "") {
			t.Errorf("%v: %s", err, line)
		}
		seen[s.Error != ""]++
	}
	if seen[true] < 2 || seen[false] < 2 {
		t.Errorf("%v", seen)
	}
	if status := end(); status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestAWatchIsRefusedForNoTimeAtAll(t *testing.T) {
	for _, bad := range []string{"0", "-1", "nan", "1e9", "soon", "0.01"} {
		if status, _, errs := call(t, "status", "--watch="+bad); status != 2 || !strings.Contains(errs, "want seconds, 0.1 … 3600") {
			t.Errorf("%s: status %d, %s", bad, status, errs)
		}
	}
}

func TestOnlyATerminalIsCleared(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	t.Setenv("TERM", "xterm")
	if terminal(&bytes.Buffer{}) || terminal(file) {
		t.Error("a buffer or a file is taken for a terminal")
	}
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	defer func() { _ = tty.Close() }()
	if !terminal(tty) {
		t.Error("a terminal is not taken for one")
	}
	t.Setenv("TERM", "dumb")
	if terminal(tty) {
		t.Error("a dumb terminal is cleared")
	}
}
