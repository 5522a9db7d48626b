package app_test

import (
	"testing"
)

// once sends one request to each replica in the background.
func (w *riskFleet) once(t *testing.T) *riskLoad {
	t.Helper()
	l := &riskLoad{}
	for _, p := range w.replicas {
		l.clients.Go(func() { l.note(riskAsk(t.Context(), p, riskPrompt)) })
	}
	return l
}
