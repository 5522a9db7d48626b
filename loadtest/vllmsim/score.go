package vllmsim

// Score calls visit with the distribution before each token of answer, which
// follows prompt: what a model thinks of words that are not its own. The Dist is
// only good during the call. visit returns false to stop.
func (m *Model) Score(prompt, answer []int32, visit func(i int, d *Dist) bool) {
	cur := m.cursorAt(prompt)
	d := Dist{Top: make([]Cand, 0, numCands)}
	for i, id := range answer {
		m.fill(&cur, &d)
		if !visit(i, &d) {
			return
		}
		cur.push(id)
	}
}
