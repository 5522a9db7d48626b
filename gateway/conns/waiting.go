package conns

// The queues that a connection may be in at the same time, as indexes of conn.links.
const (
	byTable = iota
	byAddress
)

// waitingConns holds the waiting connections of a table or of an address.
type waitingConns struct{ byClass [classes]queue }

func newWaitingConns(by int) waitingConns {
	var l waitingConns
	for i := range l.byClass {
		l.byClass[i].by = by
	}
	return l
}

func (l *waitingConns) push(c *conn)   { l.byClass[c.class].push(c) }
func (l *waitingConns) remove(c *conn) { l.byClass[c.class].remove(c) }

// victim returns the connection to close for a new one if the table has this many slots, nil if none waits.
// Authenticated connections are chosen only while waiting anonymous ones hold less than a quarter of the
// slots. So a flood of anonymous connections gets no more than that, and a new client has time to
// authenticate even if authenticated ones hold all slots.
func (l *waitingConns) victim(places int) *conn {
	strangers := &l.byClass[anonymous]
	if oldest := l.byClass[authenticated].first; oldest != nil && 4*strangers.n < places {
		return oldest
	}
	if strangers.first != nil {
		return strangers.first
	}
	return l.byClass[balancer].first
}

// queue holds connections, the longest waiting first.
type queue struct {
	by          int // index of the links that it uses
	n           int
	first, last *conn
}

func (q *queue) push(c *conn) {
	c.links[q.by].before = q.last
	if q.last == nil {
		q.first = c
	} else {
		q.last.links[q.by].behind = c
	}
	q.last = c
	q.n++
}

func (q *queue) remove(c *conn) {
	l := &c.links[q.by]
	if l.before == nil {
		q.first = l.behind
	} else {
		l.before.links[q.by].behind = l.behind
	}
	if l.behind == nil {
		q.last = l.before
	} else {
		l.behind.links[q.by].before = l.before
	}
	l.before, l.behind = nil, nil
	q.n--
}
