// Package files reads the files that a configuration names: at the start, and again when they change, without a restart. Start
// at [Watcher.Add]. It guarantees that a file is applied completely or not at all: if it cannot be read, or its user
// refuses it, the last good content remains, and the log, a metric and [Watcher.States] report this. A change is applied
// when two checks in a row have read the same content, so that a half-written file is not applied.
//
// secrets.go parses files of named secrets and of headers, certificates.go those of certificates. Errors contain neither a
// path nor anything of a file, because a secret may stand where it does not belong.
package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Interval is the time between checks. A change is in force after at most twice that time.
const Interval = 2 * time.Second

// File is a file to load, or several that belong together.
type File struct {
	Setting string   // the setting that names it, such as "tenants_file"; a label of metrics
	Paths   []string // in the order of Apply's contents
	Max     int64    // bytes of each
	Secret  bool     // warn if every user of the machine may read it
	Fields  []string // names of the paths, which errors then begin with; nil if Setting is enough
	Public  []string // the paths that hold no secret although others do; only with Secret

	// Apply applies the contents, or changes nothing and returns why, without repeating anything of them.
	// After Add only the goroutine of Run calls it.
	Apply func(contents [][]byte) error
}

// State is the state of a file.
type State struct {
	Setting       string  `json:"setting"`
	Age           float64 `json:"age_seconds"`              // of the content in force
	Changes       int     `json:"changes"`                  // applied since the start
	Error         string  `json:"error,omitempty"`          // why the file as it is now is not in force, one line per mistake; "" where it is
	WorldReadable bool    `json:"world_readable,omitempty"` // every user of the machine could read this secret file when it was added
}

// Options configure a [Watcher].
type Options struct {
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
}

// Watcher checks files for changes. It is safe for concurrent use.
type Watcher struct {
	log     zerolog.Logger
	healthy *prometheus.GaugeVec
	reloads *prometheus.CounterVec

	requests chan chan struct{} // CheckNow; closed when the check has ended

	mu    sync.Mutex // of files and their states; a hanging disk must not block States
	files []*watched
}

// watched is a file and its last content. All but its state belongs to the goroutine of Run.
type watched struct {
	File
	state   State
	since   time.Time         // when the current content was applied
	applied [sha256.Size]byte // of the contents
	read    [sha256.Size]byte // of the contents at the last check
}

// New makes a watcher without files.
func New(o Options) *Watcher {
	w := &Watcher{
		log: o.Logger, requests: make(chan chan struct{}),
		healthy: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "foregate_file_last_reload_successful", Help: "1 if the current content of a setting's file is in force, 0 if its last valid content is.",
		}, []string{"setting"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "foregate_file_reloads_total", Help: "Number of times that changed content of a setting's file was applied.",
		}, []string{"setting"}),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(w.healthy, w.reloads)
	}
	return w
}

// Add reads a file and applies it at once. An error begins with the setting; then the file is not watched. A
// setting is added once.
func (w *Watcher) Add(f File) error {
	_, err := w.Watch(f)
	return err
}

// Watch is Add for a file that is watched until end is called. For a while the same setting may be watched twice: when
// something takes the place of what still ends.
func (w *Watcher) Watch(f File) (end func(), err error) {
	contents, open, err := f.contents()
	if err == nil {
		err = f.Apply(contents)
	}
	switch {
	case err != nil && strings.HasPrefix(err.Error(), f.Setting+":"): // it has the form setting:line
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.Setting, err)
	}
	open = open && f.Secret
	if open {
		w.log.Warn().Str("setting", f.Setting).
			Msg("every user of this machine may read this file of secrets; take the permission away (chmod o-r)")
	}
	sum := digest(contents)
	added := &watched{File: f, state: State{Setting: f.Setting, WorldReadable: open}, since: time.Now(), applied: sum, read: sum}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = append(w.files, added)
	w.show(f.Setting)
	return func() { w.end(added) }, nil
}

// end ends the watching of a file.
func (w *Watcher) end(f *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = slices.DeleteFunc(w.files, func(other *watched) bool { return other == f })
	if !slices.ContainsFunc(w.files, func(other *watched) bool { return other.Setting == f.Setting }) {
		w.healthy.DeleteLabelValues(f.Setting)
		w.reloads.DeleteLabelValues(f.Setting)
		return
	}
	w.show(f.Setting)
}

// show updates the metric of a setting from all its files: after a reload of the configuration it may have two for a
// while. w.mu is held.
func (w *Watcher) show(setting string) {
	good := 1.0
	for _, f := range w.files {
		if f.Setting == setting && f.state.Error != "" {
			good = 0
		}
	}
	w.healthy.WithLabelValues(setting).Set(good)
}

// Run checks the files every two seconds until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	tick := time.NewTimer(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			w.check(false)
			tick.Reset(Interval)
		case done := <-w.requests:
			w.check(true)
			close(done)
		}
	}
}

// CheckNow has Run check the files now, and returns their states after that. Changed content is applied although only
// one check has read it: the caller says that all files are complete. An error is the end of ctx.
func (w *Watcher) CheckNow(ctx context.Context) ([]State, error) {
	done := make(chan struct{})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case w.requests <- done:
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-done:
		return w.States(), nil
	}
}

// States returns the states of the files, in the order of Add.
func (w *Watcher) States() []State {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]State, len(w.files))
	for i, f := range w.files {
		out[i] = f.state
		out[i].Age = time.Since(f.since).Seconds()
	}
	return out
}

// check reads each file, and applies what has changed. complete says that content which was read only once is complete.
func (w *Watcher) check(complete bool) {
	w.mu.Lock()
	files := slices.Clone(w.files)
	w.mu.Unlock()
	for _, f := range files {
		changed, err := f.checkFile(complete)
		w.record(f, changed, err)
	}
}

// record stores and logs the result of a check. Each change is logged once, a refused one, too.
func (w *Watcher) record(f *watched, changed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.files, f) { // its watching ended meanwhile
		return
	}
	defer w.show(f.Setting)
	failed := f.state.Error
	switch {
	case err != nil:
		if f.state.Error = err.Error(); f.state.Error != failed {
			w.log.Warn().Str("setting", f.Setting).Err(err).Msg("a file cannot be put into force; its last good content stays in force")
		}
	case changed:
		f.state.Error, f.state.Changes, f.since = "", f.state.Changes+1, time.Now()
		w.reloads.WithLabelValues(f.Setting).Inc()
		w.log.Info().Str("setting", f.Setting).Msg("a file was read again; its new content is in force")
	case failed != "" && f.read == f.applied:
		f.state.Error = ""
		w.log.Info().Str("setting", f.Setting).Msg("a file is as it was before; its content is in force")
	}
}

// checkFile reads the file and reports whether new content was applied. Refused content is tried again at
// each check, because the reason may have been outside the file.
func (w *watched) checkFile(complete bool) (changed bool, err error) {
	contents, _, err := w.contents()
	if err != nil {
		w.read = [sha256.Size]byte{}
		return false, err
	}
	sum := digest(contents)
	settled := complete || sum == w.read
	w.read = sum
	if !settled || sum == w.applied {
		return false, nil
	}
	if err := w.apply(contents); err != nil {
		return false, err
	}
	w.applied = sum
	return true, nil
}

// apply calls Apply; a panic becomes an error.
func (w *watched) apply(contents [][]byte) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("reading it panicked: %T", what) // the value may contain the content
		}
	}()
	return w.Apply(contents)
}

// contents reads all paths; open means that every user may read one of them.
func (f *File) contents() (contents [][]byte, open bool, err error) {
	contents = make([][]byte, len(f.Paths))
	for i, path := range f.Paths {
		data, all, err := Read(path, f.Max)
		switch {
		case err != nil && f.Fields != nil:
			return nil, false, fmt.Errorf("%s: %w", f.Fields[i], err)
		case err != nil:
			return nil, false, err
		}
		contents[i], open = data, open || all && !slices.Contains(f.Public, path)
	}
	return contents, open, nil
}

// digest is a hash of contents.
func digest(contents [][]byte) (sum [sha256.Size]byte) {
	for _, c := range contents {
		part := sha256.Sum256(c)
		sum = sha256.Sum256(append(sum[:], part[:]...))
	}
	return sum
}

// Read reads a regular file of at most atMost bytes. open means that every user of the machine may read it.
// Errors do not repeat the path, because a secret may have been written in its place.
func Read(path string, atMost int64) (data []byte, open bool, err error) {
	state, err := os.Stat(path)
	if err != nil {
		return nil, false, withoutPath(err)
	}
	if !state.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, false, errors.New("is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, false, withoutPath(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err = io.ReadAll(io.LimitReader(f, atMost+1))
	switch {
	case err != nil:
		return nil, false, withoutPath(err)
	case int64(len(data)) > atMost:
		return nil, false, fmt.Errorf("is longer than %d bytes", atMost)
	}
	return data, state.Mode().Perm()&0o004 != 0, nil
}

// withoutPath is a file error without its path.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
