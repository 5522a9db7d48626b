package virtual

import (
	"container/heap"
	"time"
)

// epoch is the virtual time 0 as the gateway's code sees it: not the zero time,
// which means never there.
var epoch = time.Unix(1_800_000_000, 0)

// clock is the queue of what will happen. Events at the same time happen in the
// order in which they were planned.
type clock struct {
	now    time.Duration
	queue  events
	number uint64
}

type event struct {
	at     time.Duration
	number uint64
	do     func()
}

// at plans do for time t; a time that is over is now.
func (c *clock) at(t time.Duration, do func()) {
	c.number++
	heap.Push(&c.queue, event{max(t, c.now), c.number, do})
}

func (c *clock) after(d time.Duration, do func()) { c.at(c.now+d, do) }

// wall is now as the gateway's code sees it.
func (c *clock) wall() time.Time { return epoch.Add(c.now) }

// step plays the next event; false says that there is none.
func (c *clock) step() bool {
	if len(c.queue) == 0 {
		return false
	}
	e := heap.Pop(&c.queue).(event)
	c.now = e.at
	e.do()
	return true
}

// events is the heap.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}

func (e *events) Push(x any) { *e = append(*e, x.(event)) }

func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = event{} // the closure is free to go
	*e = old[:len(old)-1]
	return last
}
