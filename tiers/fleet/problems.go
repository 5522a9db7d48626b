package fleet

// countProblem counts what is wrong with a key, and logs when it becomes so and when it no longer is.
func (f *Fleet) countProblem(kind, key string, err error) {
	if err != nil {
		f.metrics.errors.WithLabelValues(kind).Inc()
	}
	f.logChange(kind+" "+key, key, err)
}

// logChange logs a change between well and not. Where the heartbeat did not count, that is
// logged as the mode, and the same trouble of other keys is not.
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
