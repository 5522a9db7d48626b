// Package reload puts files into force, at the start and again when they change, without a restart. Start at
// [Watcher.Add].
//
// It guarantees that a file is put into force whole or not at all: where it cannot be read, or is refused by who
// uses it, the last good content stays, and the log, a metric and [Watcher.States] say so. A change is put into
// force when two looks in a row have read the same, so that a file that is being written is not taken half. No
// error tells a path.
package reload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Interval is how often files are looked at. A change is in force after twice that, at the latest.
const Interval = 2 * time.Second

// File is a file that is put into force, or several that are only of use together.
type File struct {
	Setting string   // the setting that names it, such as "tenants_file"; a label of metrics
	Paths   []string // in the order in which Apply gets the contents
	Max     int64    // bytes of each
	Secret  bool     // it is told when every user of the machine may read it

	// Apply puts the contents into force, or changes nothing and says why not, without repeating anything
	// of them. After Add only the goroutine of Run calls it.
	Apply func(contents [][]byte) error
}

// State says how a file stands.
type State struct {
	Setting       string    `json:"setting"`
	Since         time.Time `json:"since"`           // when what is in force was put into force
	Changes       int       `json:"changes"`         // put into force since the start
	Error         string    `json:"error,omitempty"` // why the file as it is now is not in force; "" where it is
	WorldReadable bool      `json:"open,omitempty"`  // every user of the machine could read this file of secrets when it was added
}

// Options are what a [Watcher] needs to know.
type Options struct {
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // nil registers nothing
	Now        func() time.Time      // nil is time.Now
}

// Watcher looks at files. It is safe for concurrent use.
type Watcher struct {
	log     zerolog.Logger
	now     func() time.Time
	metrics metrics

	mu    sync.Mutex // of files, and of the state of each: a disk that hangs must not keep States from answering
	files []*watched
}

// watched is a file and what was read of it. All but its state belongs to the goroutine of Run.
type watched struct {
	File
	state   State
	applied [sha256.Size]byte // of the contents
	read    [sha256.Size]byte // of the contents that the last look read
}

// New makes a watcher of no files.
func New(o Options) *Watcher {
	w := &Watcher{log: o.Logger, now: o.Now, metrics: newMetrics(o.Registerer)}
	if w.now == nil {
		w.now = time.Now
	}
	return w
}

// Add reads a file and puts it into force at once. An error begins with the setting; the file is then not
// watched. A setting is added once.
func (w *Watcher) Add(f File) error {
	contents, open, err := f.contents()
	if err == nil {
		err = f.Apply(contents)
	}
	switch {
	case err != nil && strings.HasPrefix(err.Error(), f.Setting+":"): // it tells lines, as setting:line
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", f.Setting, err)
	}
	open = open && f.Secret
	if open {
		w.log.Warn().Str("setting", f.Setting).
			Msg("every user of this machine may read this file of secrets; take the permission away (chmod o-r)")
	}
	sum := digest(contents)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = append(w.files, &watched{File: f, state: State{Setting: f.Setting, Since: w.now(), WorldReadable: open}, applied: sum, read: sum})
	w.metrics.lastReloadSuccessful.WithLabelValues(f.Setting).Set(1)
	return nil
}

// Run looks at the files every two seconds until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			w.check()
		}
	}
}

// States tell how the files stand, in the order in which they were added.
func (w *Watcher) States() []State {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]State, len(w.files))
	for i, f := range w.files {
		out[i] = f.state
	}
	return out
}

// check reads each file, and puts into force what has changed.
func (w *Watcher) check() {
	w.mu.Lock()
	files := slices.Clone(w.files)
	w.mu.Unlock()
	for _, f := range files {
		changed, err := f.checkFile()
		w.record(f, changed, err)
	}
}

// record keeps and tells what a look has found. Each change is told once, a bad one too.
func (w *Watcher) record(f *watched, changed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := f.state.Error
	switch {
	case err != nil:
		if f.state.Error = err.Error(); f.state.Error != failed {
			w.metrics.lastReloadSuccessful.WithLabelValues(f.Setting).Set(0)
			w.log.Warn().Str("setting", f.Setting).Err(err).Msg("a file cannot be put into force; its last good content stays in force")
		}
	case changed:
		f.state = State{Setting: f.Setting, Since: w.now(), Changes: f.state.Changes + 1, WorldReadable: f.state.WorldReadable}
		w.metrics.lastReloadSuccessful.WithLabelValues(f.Setting).Set(1)
		w.metrics.reloads.WithLabelValues(f.Setting).Inc()
		w.log.Info().Str("setting", f.Setting).Msg("a file was read again; its new content is in force")
	case failed != "" && f.read == f.applied:
		f.state.Error = ""
		w.metrics.lastReloadSuccessful.WithLabelValues(f.Setting).Set(1)
		w.log.Info().Str("setting", f.Setting).Msg("a file is as it was before; its content is in force")
	}
}

// checkFile reads the file and reports whether something new was put into force. Content that was refused is
// offered again at each look, because what refused it may have been something else.
func (f *watched) checkFile() (changed bool, err error) {
	contents, _, err := f.contents()
	if err != nil {
		f.read = [sha256.Size]byte{}
		return false, err
	}
	sum := digest(contents)
	settled := sum == f.read
	f.read = sum
	if !settled || sum == f.applied {
		return false, nil
	}
	if err := f.apply(contents); err != nil {
		return false, err
	}
	f.applied = sum
	return true, nil
}

// apply is Apply; its panic is an error like any other, which ends nothing else.
func (f *watched) apply(contents [][]byte) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("reading it panicked: %T", what) // the value may hold what was read
		}
	}()
	return f.Apply(contents)
}

// contents reads all paths; open says that everybody may read one of them.
func (f *File) contents() (contents [][]byte, open bool, err error) {
	contents = make([][]byte, len(f.Paths))
	for i, path := range f.Paths {
		data, all, err := Read(path, f.Max)
		if err != nil {
			return nil, false, err
		}
		contents[i], open = data, open || all
	}
	return contents, open, nil
}

// digest tells contents apart.
func digest(contents [][]byte) (sum [sha256.Size]byte) {
	all := sha256.New()
	for _, c := range contents {
		part := sha256.Sum256(c)
		_, _ = all.Write(part[:]) // a hash takes all
	}
	return [sha256.Size]byte(all.Sum(nil))
}
