package tiers

// finishes are the choices of one answer that have come to an end. The zero value waits for one choice.
type finishes struct {
	want  int // choices of a whole answer; 0 is 1
	ended []bool
	count int
}

// add notes that the choices with these indexes have ended.
func (e *finishes) add(indexes []int) {
	want := max(e.want, 1)
	for _, i := range indexes {
		if want == 1 {
			i = 0 // there is no other, whatever the engine calls it
		}
		if i < 0 || i >= want {
			continue
		}
		if e.ended == nil {
			e.ended = make([]bool, want)
		}
		if !e.ended[i] {
			e.ended[i] = true
			e.count++
		}
	}
}

// all reports whether every choice has ended.
func (e *finishes) all() bool { return e.count >= max(e.want, 1) }
