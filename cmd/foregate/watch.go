package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/display"
)

const (
	defaultWatchInterval = 2 * time.Second
	minWatchInterval     = 100 * time.Millisecond
	maxWatchInterval     = time.Hour

	// redraw goes home and clears the terminal from there.
	redraw = "\x1b[H\x1b[2J"
)

// watch is how long there is between two looks; 0 is one look only. The flag may stand alone.
type watch time.Duration

// Decode implements kong.MapperValue.
func (w *watch) Decode(ctx *kong.DecodeContext) error {
	*w = watch(defaultWatchInterval)
	if next := ctx.Scan.Peek(); next.IsEOL() || !next.IsValue() {
		return nil
	}
	text := fmt.Sprint(ctx.Scan.Pop().Value)
	seconds, err := strconv.ParseFloat(text, 64)
	if minimum, maximum := minWatchInterval.Seconds(), maxWatchInterval.Seconds(); err != nil || math.IsNaN(seconds) || seconds < minimum || seconds > maximum {
		return fmt.Errorf("want seconds, %g … %g, got %q", minimum, maximum, text)
	}
	*w = watch(seconds * float64(time.Second))
	return nil
}

// IsBool implements kong.BoolMapperValue: the flag needs no value.
func (w *watch) IsBool() bool { return true }

// watch shows how a replica stands until the command is ended, also while it is away.
func (c *statusCmd) watch(e *env, at *url.URL) error {
	tick := time.NewTicker(time.Duration(c.Watch))
	defer tick.Stop()
	var head, between string // before each look; between two
	switch {
	case c.JSON:
	case terminal(e.stdout):
		head = redraw
	default:
		between = "\n"
	}
	for first := true; e.ctx.Err() == nil; first = false {
		out := display.Screen{Width: display.Columns(e.stdout)}
		if out.WriteString(head); !first {
			out.WriteString(between)
		}
		c.look(e, at, &out)
		if e.ctx.Err() != nil {
			return nil // while it was asked
		}
		if _, err := e.stdout.Write(out.Bytes()); err != nil {
			return err // nobody looks any more
		}
		select {
		case <-e.ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// look writes how the replica stands now, or why nobody knows.
func (c *statusCmd) look(e *env, at *url.URL, out *display.Screen) {
	body, err := askAdmin(e, http.MethodGet, at, c.tokenFlags)
	var s gateway.Status
	if err == nil {
		if err = json.Unmarshal(body, &s); err != nil {
			err = fmt.Errorf("%s: %w", at.Redacted(), err)
		}
	}
	switch {
	case c.JSON && err != nil:
		result := struct {
			Error string `json:"error"`
			At    string `json:"at"`
		}{err.Error(), time.Now().UTC().Format(time.RFC3339)}
		if err := json.NewEncoder(out).Encode(result); err != nil { // text can always be encoded
			_, _ = fmt.Fprintln(out, err)
		}
	case c.JSON:
		_ = json.Compact(&out.Buffer, body) // it was read
		out.WriteByte('\n')
	case err != nil:
		_, _ = fmt.Fprintf(out, "%s  NOT THERE: %v\n", time.Now().Format(time.TimeOnly), err)
	default:
		display.Status(out, s)
	}
}

// terminal reports whether w is one, which obeys redraw.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
