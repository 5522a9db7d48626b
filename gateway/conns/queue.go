package conns

// The lines that a connection may stand in at once, as indexes of conn.links.
const (
	byTable = iota
	byAddress
)

// line holds connections that wait, of a table or of an address.
type line struct{ of [classes]queue }

func newLine(by int) line {
	var l line
	for i := range l.of {
		l.of[i].by = by
	}
	return l
}

func (l *line) push(c *conn)   { l.of[c.class].push(c) }
func (l *line) remove(c *conn) { l.of[c.class].remove(c) }

// victim is the connection that is to be closed for a new one where so many places are taken, nil
// where none waits. Known clients pay only while strangers who wait have less than a quarter of the
// places: so a flood of strangers takes no more than that, and a new client, who is a stranger at
// first, has time to say who he is where known ones hold all.
func (l *line) victim(places int) *conn {
	strangers := &l.of[stranger]
	if oldest := l.of[known].first; oldest != nil && 4*strangers.n < places {
		return oldest
	}
	if strangers.first != nil {
		return strangers.first
	}
	return l.of[balancer].first
}

// queue holds connections, the one that has waited longest first.
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
