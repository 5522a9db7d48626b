package console

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

// live streams the kept samples, and then each new one (server-sent events):
//
//	event: history    data: [sample, …], once
//	event: sample     data: a sample
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	tab, history := c.join()
	if tab == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "Too many pages are open on this replica.", http.StatusServiceUnavailable)
		return
	}
	defer c.leave(tab)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	if send(w, out, "history", history) != nil {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case line, ok := <-tab:
			if !ok || send(w, out, "sample", line) != nil {
				return
			}
		}
	}
}

// send writes one event within writeTime.
func send(w http.ResponseWriter, out *http.ResponseController, event string, data []byte) error {
	err := out.SetWriteDeadline(time.Now().Add(writeTime))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	frame := slices.Concat([]byte("event: "+event+"\ndata: "), data, []byte("\n\n"))
	if _, err := w.Write(frame); err != nil {
		return err
	}
	return out.Flush()
}

// join adds a reader, and returns the earlier samples as a JSON array; nil if there are too many readers.
func (c *Console) join() (tab chan []byte, history []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.subscribers) >= maxSubscribers {
		return nil, nil
	}
	tab = make(chan []byte, maxBehind)
	c.subscribers[tab] = struct{}{}
	select {
	case c.opened <- struct{}{}:
	default:
	}
	history = append(history, '[')
	for i, line := range c.samples {
		if i > 0 {
			history = append(history, ',')
		}
		history = append(history, line...)
	}
	return tab, append(history, ']')
}

func (c *Console) leave(tab chan []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subscribers, tab)
}
