package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

// world is a watcher of one file, and what was put into force of it.
type world struct {
	t       *testing.T
	path    string
	w       *Watcher
	inForce []string
	log     strings.Builder
}

// watching runs do beside a watcher whose file holds "first".
func watching(t *testing.T, do func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		x := &world{t: t, path: filepath.Join(t.TempDir(), "secret-path")}
		x.write("first")
		x.w = New(Options{Logger: zerolog.New(&x.log)})
		if err := x.w.Add(File{Setting: "tenants_file", Paths: []string{x.path}, Max: 20, Apply: x.apply}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = x.w.Run(ctx) }()
		do(x)
		stop()
		<-done
		if strings.Contains(x.log.String(), "secret-path") {
			t.Errorf("the log tells the path:\n%s", x.log.String())
		}
	})
}

func (w *world) apply(contents [][]byte) error {
	switch text := string(contents[0]); text {
	case "bad":
		return errors.New("line 1: is bad")
	case "panic":
		panic("secret")
	default:
		w.inForce = append(w.inForce, text)
		return nil
	}
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// looks waits for n looks.
func (w *world) looks(n int) {
	time.Sleep(time.Duration(n) * Interval)
	synctest.Wait()
}

func (w *world) want(inForce, failed string) {
	w.t.Helper()
	if got := strings.Join(w.inForce, " "); got != inForce {
		w.t.Errorf("put into force: %q, want %q", got, inForce)
	}
	if got := w.w.States()[0].Error; got != failed {
		w.t.Errorf("the state's error is %q, want %q", got, failed)
	}
}

func TestAChangeIsPutIntoForceOnceTwoLooksHaveReadTheSame(t *testing.T) {
	watching(t, func(x *world) {
		x.looks(3)
		x.want("first", "")
		x.write("half")
		x.looks(1)
		x.write("half and whole")
		x.looks(1)
		x.want("first", "") // each look read something else
		x.looks(5)
		x.want("first half and whole", "")
		if s := x.w.States()[0]; s.Changes != 1 || s.Setting != "tenants_file" {
			t.Errorf("state: %+v, want one change", s)
		}
	})
}

func TestTheLastGoodContentStaysInForceWhileTheFileIsBad(t *testing.T) {
	watching(t, func(x *world) {
		for _, bad := range []struct{ text, why string }{
			{"bad", "line 1: is bad"}, {"panic", "reading it panicked: string"}, {strings.Repeat("x", 21), "is longer than 20 bytes"},
		} {
			x.write(bad.text)
			x.looks(4)
			x.want("first", bad.why)
		}
		if err := os.Remove(x.path); err != nil {
			t.Fatal(err)
		}
		x.looks(2)
		x.want("first", "no such file or directory")
		if told := strings.Count(x.log.String(), "stays in force"); told != 4 {
			t.Errorf("told %d times that a file is bad, want 4 times:\n%s", told, x.log.String())
		}
		x.write("second")
		x.looks(2)
		x.want("first second", "")
	})
}

func TestAFileThatIsBadAtTheStartIsAnErrorThatNamesTheSettingOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret-path")
	err := New(Options{}).Add(File{Setting: "tenants_file", Paths: []string{path}, Max: 20})
	if err == nil || err.Error() != "tenants_file: no such file or directory" {
		t.Errorf("got %v", err)
	}
}

func TestAFileIsNoLongerReadAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		w := New(Options{Registerer: reg})
		dir := t.TempDir()
		var inForce []string
		watch := func(name string) (path string, end func()) {
			path = filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte("first"), 0o600); err != nil {
				t.Fatal(err)
			}
			end, err := w.Watch(File{Setting: "s", Paths: []string{path}, Max: 20, Apply: func(c [][]byte) error {
				inForce = append(inForce, name+" "+string(c[0]))
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			return path, end
		}
		old, endOld := watch("old")
		next, endNext := watch("next")
		endOld()
		for _, path := range []string{old, next} {
			if err := os.WriteFile(path, []byte("second"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx) }()
		time.Sleep(3 * Interval)
		synctest.Wait()
		if want := []string{"old first", "next first", "next second"}; !slices.Equal(inForce, want) {
			t.Errorf("in force were %q, want %q", inForce, want)
		}
		if n, _ := testutil.GatherAndCount(reg); n != 2 || len(w.States()) != 1 {
			t.Errorf("%d series, %+v", n, w.States())
		}
		endNext()
		endNext()
		stop()
		<-done
		if n, _ := testutil.GatherAndCount(reg); n != 0 || len(w.States()) != 0 {
			t.Errorf("at the end %d series, %+v", n, w.States())
		}
	})
}

func TestWhoCanReadAFileOfSecretsIsTold(t *testing.T) {
	var log strings.Builder
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []bool{false, true} {
		f := File{Setting: "s", Paths: []string{path}, Max: 20, Secret: secret, Apply: func([][]byte) error { return nil }}
		w := New(Options{Logger: zerolog.New(&log)})
		if err := w.Add(f); err != nil {
			t.Fatal(err)
		}
		if w.States()[0].WorldReadable != secret {
			t.Errorf("secret %v: %+v", secret, w.States())
		}
		if told := strings.Contains(log.String(), "chmod o-r"); told != secret {
			t.Errorf("secret %v: told %v", secret, told)
		}
	}
}

func TestACheckThatIsAskedForAppliesAChangeAtOnce(t *testing.T) {
	watching(t, func(x *world) {
		x.write("asked")
		states, err := x.w.CheckNow(x.t.Context())
		if err != nil || len(states) != 1 || states[0].Changes != 1 {
			t.Errorf("%+v, %v", states, err)
		}
		x.want("first asked", "")
		x.write("bad")
		if states, _ := x.w.CheckNow(x.t.Context()); states[0].Error != "line 1: is bad" {
			t.Errorf("%+v", states)
		}
	})
}
