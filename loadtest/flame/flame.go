// Package flame draws a CPU profile as a flame graph: an SVG that needs no script and no network. Start at [SVG]. [Shares] says
// in numbers what the time went to.
package flame

import (
	"cmp"
	"fmt"
	"html"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

const (
	width     = 1200.0 // of the view box
	rowHeight = 17.0
	top       = 26.0  // the title's
	minShare  = 0.003 // of the samples; narrower frames are left out
	letter    = 6.4   // the width of a character, about
)

// frame is a function called from where its parent is.
type frame struct {
	name     string
	value    int64 // of the samples in it
	children []*frame
}

// child is the frame of a function below f.
func (f *frame) child(name string) *frame {
	for _, c := range f.children {
		if c.name == name {
			return c
		}
	}
	c := &frame{name: name}
	f.children = append(f.children, c)
	return c
}

// tree merges the stacks of a profile. The value is the last of each sample: CPU time, where it is a CPU profile.
func tree(p *profile.Profile) *frame {
	root := &frame{name: "all"}
	for _, s := range p.Sample {
		v := s.Value[len(s.Value)-1]
		root.value += v
		at := root
		for i := len(s.Location) - 1; i >= 0; i-- {
			lines := s.Location[i].Line
			for j := len(lines) - 1; j >= 0; j-- { // inlined ones last
				if lines[j].Function == nil {
					continue
				}
				at = at.child(short(lines[j].Function.Name))
				at.value += v
			}
		}
	}
	return root
}

// short is a function's name with the last element of its package's path alone.
func short(name string) string {
	if i := strings.IndexByte(name, '['); i > 0 { // type arguments have paths, too
		name = name[:i]
	}
	dir, base := path.Split(name)
	if version.MatchString(base) { // of a module: its name stands before
		_, rest, _ := strings.Cut(base, ".")
		return path.Base(dir) + "." + rest
	}
	return base
}

var version = regexp.MustCompile(`^v[0-9]+\.`)

// SVG is a profile as a flame graph: each function stands on its caller, as wide as its share of the samples.
func SVG(p *profile.Profile, title string) string {
	root := tree(p)
	var b strings.Builder
	deepest := draw(&b, root, root.value, 0, 0)
	height := top + rowHeight*float64(deepest+1) + 4
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="Liberation Mono, monospace" font-size="10.5">`+
		`<rect width="100%%" height="100%%" fill="#fff"/><text x="4" y="16" font-size="13">%s</text><g transform="translate(0 %.0f)">%s</g></svg>`+"\n",
		width, height, html.EscapeString(title), top, b.String())
}

// draw writes a frame and those above it, from a place on, and returns the deepest level.
func draw(b *strings.Builder, f *frame, all int64, x float64, level int) (deepest int) {
	share := float64(f.value) / float64(max(all, 1))
	w := share * width
	text := f.name
	if room := int(w / letter); len(text) > room {
		text = text[:max(room-1, 0)]
		if room < 4 {
			text = ""
		}
	}
	fmt.Fprintf(b, `<g><title>%s, %.1f %%</title><rect x="%.1f" y="%.0f" width="%.1f" height="%.0f" fill="%s" stroke="#fff" stroke-width=".6"/>`,
		html.EscapeString(f.name), 100*share, x, rowHeight*float64(level), w, rowHeight-1, colour(f.name))
	if text != "" {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text>`, x+3, rowHeight*float64(level)+12, html.EscapeString(text))
	}
	b.WriteString("</g>")
	deepest = level
	slices.SortFunc(f.children, func(a, b *frame) int { return cmp.Or(cmp.Compare(b.value, a.value), strings.Compare(a.name, b.name)) })
	for _, c := range f.children {
		if float64(c.value) >= minShare*float64(all) {
			deepest = max(deepest, draw(b, c, all, x, level+1))
			x += float64(c.value) / float64(max(all, 1)) * width
		}
	}
	return deepest
}

// kinds are what time goes to, by how a function's name begins: the first that fits decides, from the function that runs up
// to its callers.
var kinds = []struct{ name, colour string }{
	{"system calls", "#f4a582"}, {"allocation and garbage collection", "#d9d9d9"}, {"scheduler and timers", "#ededed"},
	{"Redis client", "#c2a5cf"}, {"net/http server", "#92c5de"}, {"HTTP client of engines", "#a6dba0"}, {"judging, JSON and SSE", "#ffd966"}, {"cache: key and seal", "#f7b6d2"},
	{"cascade and pipeline", "#fdd49e"}, {"others", "#e8e8d8"},
}

// prefixes of functions by kind.
var prefixes = [][]string{
	{"syscall.", "linux.", "runtime.futex", "runtime.write", "runtime.read", "runtime.epoll", "runtime/internal/syscall.", "runtime.nanotime", "syscall.Syscall6"},
	{"runtime.malloc", "runtime.gc", "runtime.scan", "runtime.mark", "runtime.sweep", "runtime.bgsweep", "runtime.grey", "runtime.(*mspan)", "runtime.(*mheap)", "runtime.growslice", "runtime.newobject", "runtime.makeslice"},
	{"runtime.schedule", "runtime.findRunnable", "runtime.mcall", "runtime.park", "runtime.ready", "runtime.wakep", "runtime.(*timer", "time.", "runtime.netpoll", "runtime.goexit0", "runtime.selectgo"},
	{"go-redis.", "proto.", "pool.(*ConnPool)", "script.", "lookup.", "connect."},
	{"http.(*conn)", "http.(*response)", "http.(*Server)", "http.readRequest", "http.(*chunkWriter)", "http.serverHandler", "textproto.", "http.Header"},
	{"http.(*Transport)", "http.(*persistConn)", "http.(*Request)", "upstream."},
	{"openai.", "accept.", "draft.", "json.", "jsontext."},
	{"cache.", "blake3.", "cipher.", "gcm.", "aes.", "chacha20poly1305."},
	{"tiers.", "strategy.", "dispatch.", "pipeline.", "gateway.", "pool.", "plan.", "economy.", "receipt.", "breaker.", "transcript.", "audit."},
}

// kindOf is the kind of a function, -1 for one that says nothing.
func kindOf(name string) int {
	for i, list := range prefixes {
		for _, p := range list {
			if strings.HasPrefix(name, p) {
				return i
			}
		}
	}
	return -1
}

func colour(name string) string {
	if i := kindOf(name); i >= 0 {
		return kinds[i].colour
	}
	return kinds[len(kinds)-1].colour
}

// Share is what a kind of work took of the samples, 0 … 1.
type Share struct {
	Kind string  `json:"kind"`
	Of   float64 `json:"of"`
}

// Shares are the kinds of work by what they took. Of each sample the innermost function that is of a known kind decides.
func Shares(p *profile.Profile) []Share {
	sums, total := make([]float64, len(kinds)), 0.0
	for _, s := range p.Sample {
		v := float64(s.Value[len(s.Value)-1])
		total += v
		sums[kindOfStack(s)] += v
	}
	var out []Share
	for i, k := range kinds {
		out = append(out, Share{k.name, sums[i] / max(total, 1)})
	}
	slices.SortStableFunc(out, func(a, b Share) int { return cmp.Compare(b.Of, a.Of) })
	return out
}

func kindOfStack(s *profile.Sample) int {
	for _, at := range s.Location {
		for _, line := range at.Line {
			if line.Function == nil {
				continue
			}
			if i := kindOf(short(line.Function.Name)); i >= 0 {
				return i
			}
		}
	}
	return len(kinds) - 1
}
