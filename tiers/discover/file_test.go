package discover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// put writes a file and gives it a time of its own, so that no two writings of
// a test look the same.
func put(t *testing.T, path, content string, age time.Duration) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestAFileOfLinesIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backends")
	put(t, path, "# the spot machines\r\n\n  http://B:8000/\nhttp://a:8000\t# rack 7\n#http://c\nhttps://d/vllm\nhttp://a:8000\n", time.Hour)
	s := source(t, "file://"+path, nil)
	finds(t, s, "http://a:8000", "http://b:8000", "https://d/vllm")
	if s.Every() != 500*time.Millisecond {
		t.Errorf("asked every %s", s.Every())
	}
	put(t, path, "http://c:8000\n", 0)
	finds(t, s, "http://c:8000")
}

func TestAFileIsReadAgainOnlyWhenSomethingShowsAChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backends")
	put(t, path, "http://a:8000\n", 0)
	s := source(t, "file://"+path, nil)
	finds(t, s, "http://a:8000")
	put(t, path, "http://b:8000\n", 0) // the same time, size and inode
	finds(t, s, "http://a:8000")
	put(t, path, "http://b:8000\n", time.Minute) // back in time is a change, too
	finds(t, s, "http://b:8000")
	put(t, path, "http://cc:8000\n", time.Minute)
	finds(t, s, "http://cc:8000")
}

func TestARenameOverTheFileAndATurnedLinkAreSeen(t *testing.T) {
	dir := t.TempDir()
	path, next, link := filepath.Join(dir, "backends"), filepath.Join(dir, "next"), filepath.Join(dir, "link")
	put(t, path, "http://a:8000\n", 0)
	if err := os.Symlink("backends", link); err != nil {
		t.Fatal(err)
	}
	direct, linked := source(t, "file://"+path, nil), source(t, "file://"+link, nil)
	finds(t, direct, "http://a:8000")
	finds(t, linked, "http://a:8000")
	put(t, next, "http://b:8000\n", 0) // as old and as long as the one that it replaces
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	finds(t, direct, "http://b:8000")
	finds(t, linked, "http://b:8000")
	put(t, filepath.Join(dir, "third"), "http://c:8000\n", 0)
	if err := errors.Join(os.Symlink("third", next), os.Rename(next, link)); err != nil {
		t.Fatal(err)
	}
	finds(t, linked, "http://c:8000")
}

func TestABadFileIsAnErrorUntilItIsMended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backends")
	s := source(t, "file://"+path, nil)
	if _, err := s.Find(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
	put(t, path, "http://a:8000\nhttp://b:80", 2*time.Hour) // …00\n is still to come
	fails(t, s, path+":2: ", "half written")
	fails(t, s, path+":2: ", "half written") // unchanged, still told
	put(t, path, "http://a:8000\nhttp://b:8000\n", time.Hour)
	finds(t, s, "http://a:8000", "http://b:8000")
	put(t, path, "", 0)
	fails(t, s, path, "names no backends")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	fails(t, s, path)
	put(t, path, "", 0)
	fails(t, s, path, "names no backends")
	put(t, path, strings.Repeat("#\n", maxFile/2)+"\n", 0)
	fails(t, s, path, "larger than 1048576 bytes")
}

func TestWhatIsNoRegularFileIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe} {
		fails(t, source(t, "file://"+path, nil), path, "is no regular file")
	}
}

func TestTheTargetsOfPrometheusAreBackends(t *testing.T) {
	for data, want := range map[string]string{
		`[{"targets":["B:8000","a:8000"],"labels":{"rack":"7"}},{"targets":["a:8000","[FD00::1]:8000","c:80"]}]`: "http://[fd00::1]:8000 http://a:8000 http://b:8000 http://c",
		"\n\t[ {\"labels\":{\"__scheme__\":\"https\"},\"targets\":[\"a:443\"]} , {\"targets\":[\"a:443\"]} ]\n":  "http://a:443 https://a",
		`[{"targets":["a:8000"],"labels":{"__scheme__":"https"}}, {"targets":[]}, {}]`:                           "https://a:8000",
	} {
		got, err := parse("f", []byte(data), Options{})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, %v", data, got, err)
		}
	}
}

func TestEveryMistakeInAFileIsToldWithItsLine(t *testing.T) {
	for data, want := range map[string]string{
		"":                              "f: names no backends",
		"# none\n":                      "f: names no backends",
		"http://a\n\nb:8000\n":          "f:3: want a URL such as http://host:8000",
		"http://a http://b\n":           "f:1: has spaces",
		"http://ä\n":                    "f:1: has spaces or characters beyond ASCII",
		"http://u:hunter2@a\n":          "f:1: has a user name or password",
		"http://u:hunter2\n":            "f:1: want a URL",
		"http://a:0\n":                  "f:1: the port is not a number of 1 … 65535",
		"http://a:65536\n":              "f:1: the port is not a number of 1 … 65535",
		"http://a/v1/\n":                "f:1: leave out /v1",
		"http://a#b\n":                  "f:1: has a fragment",
		"ftp://a\n":                     "f:1: want a URL",
		"http://a\nhttp://b":            "f:2: the last line has no line end; the file may be half written",
		"{}":                            "f:1: want a list, as in",
		"[]":                            "f: names no backends",
		`[{"targets":[]}]`:              "f: names no backends",
		"[\n{\"targets\":[\"a:1\"":      "f:2: ends in the middle of the list",
		"[\n":                           "f:2: ends in the middle of the list",
		"[{\"targets\":[\"a:1\"]}]\n]":  "f:2: ",
		"[{\"targets\":[\"a:1\"]}]\n{}": "f:2: something follows the list",
		"[{\"targets\":[\n\"a:1\",\n\"http://a:1\"]}]":      "f:1: target 2: want a target such as host:8000, without a scheme",
		"[{},\n{\"targets\":[\"a\"]}]":                      "f:2: target 1: want a target such as host:8000",
		"[{\"targets\":[\"a:0\"]}]":                         "f:1: target 1: want a target",
		"[{\"targets\":[\"-a:1\"]}]":                        "f:1: target 1: the host is malformed",
		"[{\"targets\":[\"[fe80::1%eth0]:1\"]}]":            "f:1: target 1: the host is malformed",
		"[{\"targets\":[\n\n7]}]":                           "f:1: a number is out of place; want [",
		"[\n\"a:1\"]":                                       "f:2: a string is out of place; want [",
		"[{\"target\":[\"a:1\"]}]":                          "f:1: json: unknown field \"target\"",
		"[{\"labels\":{\"__scheme__\":\"ftp\"}}]":           "f:1: __scheme__ must be http or https",
		"[{\"targets\":[\"a:1\"]},\n\n{\"targets\" [\"\"]}": "f:3: invalid character",
		"[{\"targets\":[\"a:1\" \n\n\"b:1\"]}]":             "f:3: invalid character",
		strings.Repeat(" ", maxFile+1):                      "f: is larger than 1048576 bytes",
	} {
		got, err := parse("f", []byte(data), Options{})
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.80q: got %q, %v; want %s", data, got, err, want)
		}
	}
}

// FuzzParse checks that no file makes the reader panic, that every error names
// the file and a line that it has, and that an answer keeps Find's promises.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"http://a:8000\n# b\nhttps://c/x\n", "http://a", `[{"targets":["a:1","[::1]:80"],"labels":{"__scheme__":"https"}}]`, "[{\"targets\":[\n", "[[[[", "{}", "http://[::1%25x]:80\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parse("f", data, Options{})
		if err != nil {
			var line int
			if n, _ := fmt.Sscanf(err.Error(), "f:%d: ", &line); n == 1 && (line < 1 || line > 1+strings.Count(string(data), "\n")) || !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		if len(got) == 0 || len(got) > MaxBackends || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("%q gave %q", data, got)
		}
		for _, u := range got {
			if again, err := URL(u); err != nil || again != u {
				t.Errorf("%q is not its own spelling: %q, %v", u, again, err)
			}
		}
	})
}
