package pool

import "fmt"

// wrongModel is the answer of a backend that does not serve the pool's model.
type wrongModel struct {
	path string // that it was asked at
	why  string
}

// ReportModel says that the backend answers for the pool's model. It is cheap.
func (l *Lease) ReportModel() { l.pool.noteModel(l.backend) }

// ReportWrongModel says that the backend does not serve the pool's model at this path, and what it said instead.
func (l *Lease) ReportWrongModel(path, said string) {
	p, b := l.pool, l.backend
	w := &wrongModel{path, fmt.Sprintf("serves another model than %s, or not at %s%s", p.o.Model, path, said)}
	if b.wrong.Swap(w) == nil {
		p.log.Error().Str("backend", b.id).Msg(w.why)
	}
}

// noteModel records that a backend answers for the pool's model.
func (p *Pool) noteModel(b *backend) {
	if b.wrong.Load() != nil && b.wrong.Swap(nil) != nil {
		p.log.Info().Str("backend", b.id).Msg("backend serves the pool's model again")
	}
}

// modelProblem returns how b does not serve the pool's model; "" if it does, as far as known.
func (b *backend) modelProblem() string {
	if w := b.wrong.Load(); w != nil {
		return w.why
	}
	return ""
}
