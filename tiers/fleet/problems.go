package fleet

// countProblem counts a problem with a key, and logs its beginning and its end.
func (f *Fleet) countProblem(kind, key string, err error) {
	if err != nil {
		f.metrics.errors.WithLabelValues(kind).Inc()
	}
	f.logChange(kind+" "+key, key, err)
}

// logChange logs the beginning and the end of a problem. A failed heartbeat is logged as a change of mode,
// and the same problem of other keys is not logged.
func (f *Fleet) logChange(what, key string, err error) {
	switch {
	case f.heartbeatError != nil:
	case err != nil && !f.problems[what]:
		f.problems[what] = true
		f.log.Warn().Err(err).Str("key", key).Msg("fleet: a key in Redis is of no use; the rest goes on")
	case err == nil && f.problems[what]:
		delete(f.problems, what)
		f.log.Info().Str("key", key).Msg("fleet: the key in Redis is well again")
	}
}
